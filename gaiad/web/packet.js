// The packet panel: a conversation as messages, a record as a table of fields, opened at the quoted passage.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { deletion } from "./deletion.js";
import { button, el, fill, icon } from "./dom.js";
import { drawMarked } from "./marked_text.js";
import { findPassage, joined } from "./passages.js";
import { showText } from "./rich_text.js";
import { tenant } from "./state.js";
import { bytes, counted, dateTime, firstLine, leftOut, modelName, sourceKind, speakerName } from "./words.js";

const RECORD = ["researcher", "notes", "tags", "challenge_phrases", "metrics", "artifacts", "instructions", "loop_closure", "schema_version"];
const panel = () => document.getElementById("packet");
let opener = null;
let newest = 0;

/** Opens a packet; `passage` is an argument of `findPassage`. */
export async function openPacket(packetId, passage = null) {
  const mine = (newest += 1);
  if (!panel().contains(document.activeElement)) opener = document.activeElement;
  document.body.classList.add("with-packet");
  panel().hidden = false;
  const title = el("h2", { tabindex: "-1" }, packetId);
  fill(panel(), head(title), el("p", { class: "quiet" }, "Opening…"));
  title.focus({ preventScroll: true });
  try {
    const detail = await post("/packets/show", { packet_id: packetId, tenant: tenant() });
    if (mine === newest) show(detail, passage);
  } catch (error) {
    if (mine !== newest) return;
    fill(panel(), head(title), el("p", { class: "problem" }, error.message));
    announce(error.message, { urgent: true });
  }
}

export function closePacket() {
  if (panel().hidden) return false;
  newest += 1;
  panel().hidden = true;
  document.body.classList.remove("with-packet");
  fill(panel());
  if (opener?.isConnected) opener.focus();
  return true;
}

function head(title) {
  return el("header", { class: "packet-head" }, title, button(icon("close"), closePacket, { class: "ghost", "aria-label": "Close the packet (Escape)", title: "Close (Esc)" }));
}

function show(detail, passage) {
  const { packet, pages } = detail;
  const found = findPassage(pages, passage);
  const title = el("h2", { tabindex: "-1" }, packet.topic || firstLine(packet.summary, 80) || packet.packet_id);
  const without = leftOut(detail.redactions);
  const ours = packet.dialect === "session_turn";
  const spokenHere = pages.some((page) => page.speaker);
  const body = el("div", { class: "packet-pages" }, joined(pages).map((message, number, all) => {
    const mark = found && message.places.has(found.page.page_id) ? placed(found, message) : null;
    return spokenHere ? turnOf(message, mark, all[number - 1], ours) : pageOf(message, mark, packet.dialect === "note");
  })); // prettier-ignore
  fill(panel(), head(title), facts(detail), record(detail.fields, !passage && !spokenHere), without ? el("p", { class: "note" }, without) : null, word(passage, found), body, deletion({ packet_ids: [packet.packet_id] }));
  title.focus({ preventScroll: true });
  const mark = body.querySelector("mark");
  if (mark) mark.scrollIntoView({ block: mark.offsetHeight > panel().clientHeight / 2 ? "start" : "center" });
  else panel().scrollTop = 0;
  announce(`Packet ${packet.packet_id}, ${packet.topic}. ${found ? `Marked: ${found.page.text.slice(found.start, found.end)}` : ""}`);
}

/** A passage found in a page, with offsets into the joined message. */
function placed(found, { places }) {
  const at = places.get(found.page.page_id);
  return { ...found, start: at + found.start, end: at + found.end };
}

function word(passage, found) {
  if (!passage) return null;
  if (!found) return el("p", { class: "note" }, "The passage was not found word for word; these are all its pages.");
  if (found.exact) return null;
  return el("p", { class: "note" }, "The answer does not quote word for word; the nearest sentence is marked.");
}

function facts({ packet, integrity, source }) {
  const said = packet.dialect === "session_turn";
  const verdict = { verified: "verified", unverifiable: "cannot be verified", broken: "integrity broken" }[packet.integrity] ?? packet.integrity;
  return el(
    "dl",
    { class: "facts" },
    fact("Written", [dateTime(packet.timestamp), modelName(packet.model), said ? "" : sourceKind(packet.dialect)].filter(Boolean).join(" · ")),
    said ? fact("Said in", el("a", { href: `#/chat/${encodeURIComponent(packet.session_id)}` }, "this conversation")) : null,
    packet.integrity === "broken" ? fact("Integrity", checks(packet.integrity, verdict, integrity)) : null,
    fact(
      "Kept",
      el(
        "details",
        { class: "checks" },
        el("summary", {}, `${counted(packet.pages, "page")}, ${bytes(packet.bytes)}`),
        el("dl", { class: "facts" }, fact("Packet", el("code", {}, packet.packet_id)), said ? null : fact("Integrity", checks(packet.integrity, verdict, integrity)), source && !said ? fact("From", el("span", { class: "path" }, source)) : null),
      ),
    ),
  );
}

function checks(kind, verdict, integrity) {
  const summary = el("span", { class: `verdict ${kind}` }, verdict);
  if (!integrity.length) return summary;
  return el("details", { class: "checks" }, el("summary", {}, summary), el("ul", {}, integrity.map((one) => el("li", {}, `${one.what}: ${one.detail || one.verdict}`))));
}

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

/** A record's fields other than its text, expanded if `open`; null without any. */
function record(fields, open) {
  const rows = RECORD.filter((name) => isGiven(fields?.[name])).map((name) => [name, fields[name]]);
  if (!rows.length) return null;
  return el("details", { class: "record", open }, el("summary", {}, counted(rows.length, "field")), fieldTable(rows));
}

const isGiven = (value) => value !== null && value !== undefined && value !== "" && (typeof value !== "object" || Object.values(value).some(isGiven));

function fieldTable(rows) {
  return el("table", { class: "table" }, el("tbody", {}, rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, fieldName(name)), el("td", {}, fieldValue(value))))));
}

/** "mechanisms/stateRefresh" as words. */
const fieldName = (name) => name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ").replaceAll("/", ", ").toLowerCase(); // prettier-ignore

function fieldValue(value) {
  if (value === null || typeof value !== "object") return String(value);
  const given = Object.entries(value).filter(([, one]) => isGiven(one));
  if (Array.isArray(value)) return el("ul", {}, given.map(([, one]) => el("li", {}, fieldValue(one))));
  return fieldTable(given);
}

/** A message, from one of gaiad's own chats if `ours`; the speaker is shown where it changes. */
function turnOf(page, found, before, ours) {
  const same = before && before.speaker === page.speaker && before.section === page.section;
  const cited = ours && page.speaker !== "user" ? null : []; // only gaiad's answers have citations
  const when = page.timestamp && page.timestamp !== before?.timestamp ? el("time", { datetime: page.timestamp }, dateTime(page.timestamp)) : null;
  return el(
    "section",
    { class: `stored-page said${same ? " same" : ""}`, data: { page: page.page_id } },
    same && !when ? null : el("h3", {}, same ? null : el("span", {}, speakerName(page)), when),
    spoken(page, cited, found),
  );
}

/** Rendered text without its leading "Speaker:", which the heading shows. */
function spoken({ text, speaker }, cited, found) {
  const node = el("div", { class: "answer said-text" });
  const skipped = speaker && text.startsWith(`${speaker}: `) ? speaker.length + 2 : 0;
  const draw = (words) => showText(node, words, openPacket, undefined, cited);
  const span = found && { start: Math.max(found.start - skipped, 0), end: found.end - skipped };
  if (!found) draw(text.slice(skipped));
  else if (!drawMarked(node, text.slice(skipped), span, kindOf(found), draw)) return stored({ text }, found);
  return node;
}

/** A section of a record as stored; a note rendered as Markdown. */
function pageOf(page, found, isNote) {
  const heading = page.section && !(isNote && page.section === "content") ? el("h3", {}, page.section.replaceAll("_", " ")) : null;
  return el("section", { class: "stored-page", data: { page: page.page_id } }, heading, isNote ? spoken(page, [], found) : stored(page, found));
}

function stored({ text }, found) {
  if (!found) return el("p", { class: "stored" }, text);
  return el("p", { class: "stored" }, text.slice(0, found.start), el("mark", { class: kindOf(found) }, text.slice(found.start, found.end)), text.slice(found.end));
}

const kindOf = (found) => (found.whole ? "whole" : found.exact ? "exact" : "near");
