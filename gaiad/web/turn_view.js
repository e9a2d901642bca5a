// Renders one turn: the message, how the answer was made, the answer as it is written, and its sources.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { decidedOf, waitsFor } from "./approvals_waiting.js";
import { button, el, fill, icon } from "./dom.js";
import { ratingButtons, verdictButtons } from "./feedback.js";
import { openPacket } from "./packet.js";
import { packetName } from "./packet_names.js";
import { showText } from "./rich_text.js";
import { tenant } from "./state.js";
import { stepsOfRecord } from "./turn_model.js";
import { doingNow, inShort, stageMarks, stepList } from "./turn_steps.js";
import { clockTime, dateTime, duration, leftOut } from "./words.js";

const STRUCK_MS = 5000;

/** Calls `onStop(turn)` and `onAgain(turn)`. */
export class TurnView {
  constructor(turn, { onStop, onAgain }) {
    this.turn = turn;
    this.onStop = onStop;
    this.onAgain = onAgain;
    this.summary = el("summary", {});
    this.steps = el("div", { class: "work-steps" });
    this.work = el("details", { class: "work", ontoggle: () => this.opened() }, this.summary, this.steps);
    this.stopButton = button([icon("stop"), "Stop"], () => this.onStop(this.turn), { class: "stop", title: "Stop this answer (Ctrl+.)" });
    this.struck = el("div", { class: "struck", hidden: true });
    this.answer = el("div", { class: "answer" });
    this.under = el("div", { class: "under" });
    this.node = el("article", { class: "turn", "aria-label": "Turn" }, el("div", { class: "asked" }, el("span", { class: "unseen" }, "You said: "), turn.message), el("div", { class: "work-row" }, this.work, this.stopButton), this.struck, this.answer, this.under);
    this.frame = 0;
    this.seconds = el("span", { class: "stage-seconds", "aria-hidden": "true" });
    this.draw();
    if (turn.running) this.count(Date.now());
  }

  /** Shows how long the turn has been running, every second until its end. */
  count(began) {
    const every = setInterval(() => {
      const seconds = Math.round((Date.now() - began) / 1000);
      fill(this.seconds, seconds < 10 ? `${seconds} s` : duration(1000 * seconds));
      if (!this.turn.running) clearInterval(every);
    }, 1000);
  }

  /** Redraws with the next frame. */
  update() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const { turn } = this;
    this.node.classList.toggle("running", turn.running);
    this.drawWork();
    this.drawStruck();
    showText(this.answer, turn.answer, openPacket, () => citationsOf(turn), turn.running ? null : turn.sources);
    this.answer.classList.toggle("unanswered", !turn.answered);
    this.answer.classList.toggle("broken", turn.broken);
    fill(this.under, turn.running ? null : this.underneath());
  }

  drawWork() {
    const { turn } = this;
    this.work.hidden = !turn.running && !turn.turnId;
    const now = [turn.running, turn.turnId, this.work.open, turn.depth, ...turn.steps.map(sizeOf)].join(" ");
    if (now === this.shownWork) return; // not on every token: moving targets cannot be clicked
    this.shownWork = now;
    this.stopButton.hidden = !turn.running || !turn.turnId;
    const marks = el("span", { class: "stage-marks" }, turn.depth === "fast" ? null : stageMarks(turn));
    if (turn.running) fill(this.summary, el("span", { class: "doing" }, el("span", { class: "pulse", "aria-hidden": "true" }), `${doingNow(turn)}…`), this.seconds, marks);
    else fill(this.summary, el("span", { class: "done-words" }, turn.steps.length ? inShort(turn) : "How it came about"), marks);
    const without = leftOut(turn.record?.redactions);
    if (this.work.open && (turn.steps.length || turn.running)) fill(this.steps, stepList(turn), madeBy(turn), without ? el("p", { class: "note" }, without) : null);
  }

  /** Loads a stored turn's steps from the turn log. */
  async opened() {
    const { turn } = this;
    if (!this.work.open) return;
    if (!turn.steps.length && !turn.running && turn.turnId) {
      fill(this.steps, el("p", { class: "quiet" }, "Looking it up…"));
      try {
        turn.record = await post("/turns/show", { turn: turn.turnId, tenant: tenant() });
        turn.steps = stepsOfRecord(turn.record);
        turn.depth = turn.record.depth;
        turn.depthWhy = turn.record.depth_why;
      } catch (error) {
        return void fill(this.steps, el("p", { class: "quiet" }, error.status === 404 ? "The council's log has no record of it." : error.message));
      }
    }
    this.drawWork();
  }

  drawStruck() {
    const { struck } = this.turn;
    if (!struck || struck === this.gone) {
      this.struck.hidden = true;
      return;
    }
    if (struck !== this.shownStruck) {
      this.shownStruck = struck;
      fill(this.struck, el("del", {}, struck.text), el("p", { class: "struck-why" }, `Retracted: ${struck.reason}`));
      announce(`The previous text was retracted: ${struck.reason}`, { urgent: true });
      setTimeout(() => {
        this.gone = struck;
        this.draw();
      }, STRUCK_MS);
    }
    this.struck.hidden = false;
  }

  underneath() {
    const { turn } = this;
    return [
      turn.broken ? this.failed(turn.error) : null,
      (turn.done ?? turn.stored)?.status === "AWAITING_APPROVAL" ? command(turn.turnId) : null,
      turn.redactions.length ? el("p", { class: "note" }, leftOut(turn.redactions)) : null,
      turn.notes.map((note) => el("p", { class: "note" }, note)),
      turn.sources.length ? this.sources() : null,
      turn.also ? this.also() : null,
      this.foot(),
    ];
  }

  failed(error) {
    const words = !error || error.code === "cancelled" ? "Stopped before its end: this answer is incomplete." : error.message;
    return el("p", { class: "problem" }, words, " ", this.onAgain ? button("Ask again", () => this.onAgain(this.turn), { class: "small" }) : null);
  }

  sources() {
    return el(
      "div",
      { class: "sources" },
      el("span", { class: "label" }, "Sources"),
      this.turn.sources.map((id) => el("span", { class: "source-item" }, sourceOf(id, () => this.openSource(id), this.turn.done?.redacted?.includes(id), this.answer.marks?.get(id)), verdictButtons(this.turn, id))),
    );
  }

  async openSource(id) {
    const exact = (await citationsOf(this.turn)).find((one) => one.packet_id === id);
    openPacket(id, exact ?? passageOf(this.turn.answer, id));
  }

  /** A related earlier packet, not part of the answer. */
  also() {
    const { also } = this.turn;
    const words = el("div", { class: "also-words" });
    words.marks = this.answer.marks; // continues the answer's numbering
    showText(words, also.words, openPacket, undefined, [also.packet_id]);
    return el("div", { class: "also", role: "note", "aria-label": "Earlier packet" }, words, verdictButtons(this.turn, also.packet_id));
  }

  foot() {
    const { turn } = this;
    const { stored } = turn;
    const at = stored?.ended_at || turn.startedAt;
    const copy = turn.answer ? button("Copy", () => this.copy(), { class: "ghost small", "aria-label": "Copy the answer" }) : null;
    if (!at && !copy) return null;
    const when = at ? el("time", { datetime: at, title: dateTime(at) }, stored ? dateTime(at) : clockTime(at)) : null;
    const rate = turn.answer && turn.turnId && !turn.broken ? ratingButtons(turn) : null;
    return el("div", { class: "foot" }, when, copy, rate);
  }

  async copy() {
    await navigator.clipboard.writeText(this.turn.answer);
    announce("The answer is copied.");
  }
}

/** An answer's verified citations; a stored turn's come from its research run, if still kept. */
function citationsOf(turn) {
  if (!turn.researchId || turn.citations.length) return turn.citations;
  const path = `/research/${encodeURIComponent(turn.researchId)}?tenant=${encodeURIComponent(tenant())}`;
  turn.lookedUp ??= get(path).then(({ result }) => result?.citations ?? [], () => []); // prettier-ignore
  return turn.lookedUp;
}

/** Engine, persona, and whether the council was complete. */
function madeBy({ done, stored, reducedQuorum }) {
  const engine = done?.engine ?? stored?.model;
  const persona = done?.persona ?? stored?.persona;
  const parts = [engine && (engine === "extractive" ? "Quoted from the archive, without a model" : `Written by ${engine}`), persona && `persona ${persona}`, (done?.reduced_quorum || reducedQuorum) && "fewer than two roles could vote"].filter(Boolean);
  return parts.length ? el("p", { class: "note" }, `${parts.join("; ")}.`) : null;
}

const BECAME = { denied: "Its command was denied. ", expired: "Its command was not approved in time. ", running: "Its command runs. ", failed: "Its command could not be run. ", interrupted: "Its command was cut off: gaiad ended. " };

/** The turn's command: pending, or the decision and its output. */
function command(turnId) {
  const waits = waitsFor(turnId);
  const past = decidedOf(turnId);
  const ran = past?.execution && `Its command ran: ${past.execution.stopped || `status ${past.execution.exit_status}`}, ${past.state}. `;
  const words = waits ? "A command waits for your approval. " : (ran ?? BECAME[past?.state] ?? "Its command does not wait any more. ");
  return [
    el("p", { class: waits ? "waits" : "note" }, icon("approvals"), words, el("a", { href: `#/approvals?turn=${encodeURIComponent(turnId)}` }, waits ? "Look at it" : "See the result")),
    past?.execution?.output ? el("pre", { class: "code", tabindex: "0", "aria-label": "What the command printed" }, past.execution.output) : null,
  ];
}

/** A key of a step's visible state. */
const sizeOf = (step) => `${step.kind}${step.state}${step.lines?.length ?? ""}${step.blocks?.length ?? ""}${step.record ? "r" : ""}`;

/** A source button: its id, replaced by topic and day once known. */
export function sourceOf(id, onclick, scrubbed, number) {
  const node = el("button", { type: "button", class: "cite source", title: `Open packet ${id}`, onclick }, number ? el("span", {}, String(number)) : null, id);
  packetName(id).then(
    (name) => name?.topic && fill(node, number ? el("span", {}, String(number)) : null, el("span", { class: "source-topic" }, name.topic), el("span", {}, name.day + (scrubbed ? ", scrubbed" : ""))),
    () => {}, // the id stays
  );
  return node;
}

/** The answer's text up to its first citation of this packet. */
function passageOf(said, packetId) {
  const place = said.indexOf(`[Packet: ${packetId}]`);
  return place < 0 ? null : { said: said.slice(0, place) };
}

