// Renders a turn's steps: searches, stages, ballots, retractions.

import { el } from "./dom.js";
import { counted, duration, firstLine, grouped, roleName, tookMs } from "./words.js";
import { openPacket } from "./packet.js";

const DOING = { plan: "is planning", refine: "is refining the plan", act: "is writing the answer", verify: "is verifying", observe: "is reading along" };
const DID = { plan: "planned", refine: "refined the plan", act: "wrote the answer", verify: "verified", observe: "read along" };
const VERDICTS = {
  missing: "wrote nothing that can be used", lost: "was lost", low_confidence: "was not sure", empty: "wrote an empty answer",
  interrupted: "was stopped", fail: "found it wrong", unknown: "could not say", unproven: "found no fault, but has not shown that it can tell",
}; // prettier-ignore
const GOOD = new Set(["ok", "success", "accept"]);

/** A phrase for the current step. */
export function doingNow(turn) {
  const step = turn.steps.findLast((one) => one.state === "now");
  if (step?.kind === "search") return step.lines.at(-1)?.text ?? "Searching the archive";
  if (step?.kind === "stage") return [`${roleName(step.role)} ${DOING[step.stage] ?? step.stage}`, step.place].filter(Boolean).join(", ");
  return turn.depth ? "The council is still working" : "Reading the question";
}

/** A one-line summary. */
export function inShort(turn) {
  const stages = turn.steps.filter((step) => step.kind === "stage" && step.record);
  const record = turn.record;
  const time = record ? tookMs(record) : turn.done ? total(turn.done.timings) : stages.reduce((sum, step) => sum + step.record.ms, 0);
  const full = (turn.depth || record?.depth) === "full";
  const parts = [full ? "Answered by the council" : "How this was made"];
  if (full && stages.length) parts.push(counted(stages.length, "stage"));
  const votes = turn.steps.filter((step) => step.kind === "vote").length;
  if (votes) parts.push(counted(votes, "vote"));
  if (time) parts.push(duration(time));
  return parts.join(" · ");
}

/** Badges for a turn's stages, in order. */
export function stageMarks(turn) {
  return turn.steps
    .filter((step) => step.kind === "stage" && step.stage !== "observe")
    .map((step) => el("span", { class: `stage-mark ${stateClass(step.state)}`, data: { role: step.role }, title: `${roleName(step.role)} ${DID[step.stage] ?? step.stage}` }, step.stage === "act" ? "answer" : step.stage));
}

export function stepList(turn) {
  const rows = turn.steps.map(drawn);
  if (turn.depthWhy) rows.unshift(el("li", { class: "step depth" }, el("span", { class: "step-what" }, `${capital(turn.depth)} depth`), el("span", { class: "step-why" }, turn.depthWhy)));
  return el("ol", { class: "steps" }, rows);
}

function drawn(step) {
  if (step.kind === "search") return searched(step);
  if (step.kind === "stage") return staged(step);
  if (step.kind === "vote") return row(step, "Vote", el("div", {}, ballots(step.vote)));
  if (step.kind === "retract") return row(step, "Retracted", el("p", {}, step.reason));
  if (step.kind === "escalation") return row(step, `${roleName(step.record.raised_by)} turned to ${roleName(step.record.to)}`, el("p", {}, step.record.why));
  return row(step, `${roleName(step.role ?? "")} ${step.marker}`, el("p", { class: "wrote" }, step.text));
}

function searched(step) {
  const lines = step.lines.map((line) =>
    el("li", {}, line.text, line.packets?.length ? el("span", { class: "packet-row" }, line.packets.slice(0, 6).map(packetButton)) : null),
  );
  return row(step, "Looked back", el("ul", { class: "lines" }, lines));
}

export function packetButton(packetId) {
  return el("button", { type: "button", class: "cite", title: `Open packet ${packetId}`, onclick: () => openPacket(packetId) }, packetId);
}

function staged(step) {
  const { record } = step;
  const well = GOOD.has(step.state) || step.state === "now";
  const did = step.state === "now" ? DOING[step.stage] : well ? DID[step.stage] : `${VERDICTS[step.state] ?? step.state} (${step.stage})`;
  const sure = record?.confidence !== null && record?.confidence !== undefined ? [`confidence ${record.confidence.toFixed(2)}`] : [];
  const cost = record ? [...sure, duration(record.ms), ...(record.tokens ? [`${grouped(record.tokens)} tokens`] : []), ...perSecond(record)].join(" · ") : "";
  const instead = record?.stands_in_for ? ` for ${roleName(record.stands_in_for)}` : "";
  const notes = (record?.notes ?? []).map((note) => el("p", { class: "note" }, note));
  const texts = step.blocks.map((block) => el("p", { class: "wrote" }, shown(block)));
  return row(step, `${roleName(step.role)}${instead} ${did ?? step.stage}`, el("div", {}, texts, notes), cost);
}

const perSecond = (record) => (record.tokens && record.decode_ms >= 1 ? [`${Math.round((record.tokens / record.decode_ms) * 1000)} tokens/s`] : []);

const shown = (block) => (block.marker === "PLAN" ? block.text.replace(/\nconfidence=[\d.]+$/, "") : block.text);

function row(step, what, detail, cost = "") {
  return el(
    "li",
    { class: `step ${stateClass(step.state)}`, data: { role: step.role ?? "" } },
    el("span", { class: "step-what" }, what),
    cost ? el("span", { class: "step-cost" }, cost) : null,
    detail,
  );
}

/** Ballots with reasons. */
export function ballots(vote) {
  return el(
    "div",
    { class: "ballots" },
    el("p", { class: "ballot-subject" }, firstLine(vote.subject, 160)),
    vote.ballots.map((one) =>
      el("p", { class: `ballot ${one.uncounted ? "uncounted" : one.vote}`, data: { role: one.role } },
        el("span", { class: "ballot-role" }, roleName(one.role)), el("span", { class: "ballot-vote" }, one.vote),
        el("span", { class: "ballot-why" }, one.reason + (one.uncounted ? ` (not counted: ${one.uncounted})` : ""))),
    ), // prettier-ignore
    el("p", { class: "ballot-end" }, vote.reason),
  );
}

const stateClass = (state) => (state === "now" ? "now" : GOOD.has(state) ? "well" : "ill");
const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);
const total = (timings) => Object.values(timings).reduce((sum, ms) => sum + ms, 0);
