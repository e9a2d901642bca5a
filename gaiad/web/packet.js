// The panel with a packet: what it is, whether it is whole, and its pages, opened where something was quoted.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { button, el, fill, icon } from "./dom.js";
import { findPassage } from "./passages.js";
import { tenant } from "./state.js";
import { bytes, counted, dateTime, firstLine, leftOut } from "./words.js";

const panel = () => document.getElementById("packet");
let opener = null;
let newest = 0;

/** Open a packet; `passage` is what `findPassage` takes. */
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
  const body = el("div", { class: "packet-pages" }, pages.map((page) => pageOf(page, found?.page === page ? found : null)));
  fill(panel(), head(title), facts(detail), without ? el("p", { class: "note" }, without) : null, word(passage, found), body);
  title.focus({ preventScroll: true });
  const mark = body.querySelector("mark");
  if (mark) mark.scrollIntoView({ block: "center" });
  else panel().scrollTop = 0;
  announce(`Packet ${packet.packet_id}, ${packet.topic}. ${found ? `Marked: ${found.page.text.slice(found.start, found.end)}` : ""}`);
}

function word(passage, found) {
  if (!passage) return null;
  if (!found) return el("p", { class: "note" }, "The passage was not found word for word; these are all its pages.");
  if (found.exact) return null;
  return el("p", { class: "note" }, "The answer does not quote word for word: the nearest sentence is marked.");
}

function facts({ packet, integrity, source }) {
  const said = packet.dialect === "session_turn";
  const verdict = { verified: "verified", unverifiable: "cannot be verified", broken: "integrity broken" }[packet.integrity] ?? packet.integrity;
  return el(
    "dl",
    { class: "facts" },
    fact("Packet", el("code", {}, packet.packet_id)),
    fact("Written", `${dateTime(packet.timestamp)}${packet.model ? ` · ${packet.model}` : ""}`),
    said ? fact("Said in", el("a", { href: `#/chat/${encodeURIComponent(packet.session_id)}` }, "this conversation")) : fact("Integrity", checks(packet.integrity, verdict, integrity)),
    fact("Kept", `${counted(packet.pages, "page")} · ${bytes(packet.bytes)} · ${packet.dialect.replaceAll("_", " ")}`),
    source && !said ? fact("From", el("span", { class: "path" }, source)) : null,
  );
}

function checks(kind, verdict, integrity) {
  const summary = el("span", { class: `verdict ${kind}` }, verdict);
  if (!integrity.length) return summary;
  return el("details", { class: "checks" }, el("summary", {}, summary), el("ul", {}, integrity.map((one) => el("li", {}, `${one.what}: ${one.detail || one.verdict}`))));
}

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function pageOf(page, found) {
  const label = [page.section.replaceAll("_", " "), page.speaker].filter(Boolean).join(" · ");
  const text = found
    ? [page.text.slice(0, found.start), el("mark", { class: found.whole ? "whole" : found.exact ? "exact" : "near" }, page.text.slice(found.start, found.end)), page.text.slice(found.end)]
    : [page.text];
  return el("section", { class: "stored-page", data: { page: page.page_id } }, label ? el("h3", {}, label) : null, el("p", { class: "stored" }, ...text));
}
