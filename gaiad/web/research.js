// A live research run: each search, its results, their assessment, and the answer with quotes.
//
// The run belongs to the daemon; the page keeps its id and follows it across reloads and restarts. The best answer so far is
// shown until the run ends.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { meter } from "./charts.js";
import { button, el, fill } from "./dom.js";
import { recallVerdicts, verdictButtons } from "./feedback.js";
import { openPacket } from "./packet.js";
import { EarlierRuns, endedAs } from "./research_runs.js";
import { showText } from "./rich_text.js";
import { keep, recall, tenant } from "./state.js";
import { follow } from "./stream.js";
import { foundLine, reflectedLine, searchingLine } from "./turn_model.js";
import { packetButton } from "./turn_steps.js";
import { sourceOf } from "./turn_view.js";
import { counted, day, duration } from "./words.js";

const LINES = { searching: searchingLine, found: foundLine, reflected: reflectedLine, synthesizing: () => ({ text: "Putting the answer together" }), resumed: () => ({ text: "The daemon was restarted; the run goes on where it was" }) };

const runKey = () => `research.begun.${tenant()}`;
const breakOff = (researchId) => post(`/research/${encodeURIComponent(researchId)}/cancel`, { tenant: tenant() }).catch(noticed);

export class Research {
  constructor() {
    this.question = el("input", { type: "text", id: "question", placeholder: "What do you want to find out?", "aria-label": "Question to the archive", autocomplete: "off", oninput: () => keep("question", this.question.value) });
    this.question.value = recall("question", "");
    this.go = el("button", { type: "submit", class: "strong" }, "Research");
    this.cancel = button("Stop", () => this.stop(), { hidden: true });
    this.steps = el("ol", { class: "run", "aria-label": "Steps" });
    this.result = el("div", { class: "result" });
    this.earlier = new EarlierRuns((run) => this.again(run));
    this.node = el(
      "div",
      { class: "page" },
      el("header", { class: "page-head" }, el("h1", {}, "Research"), el("p", { class: "quiet" }, "Searches again until what it found is enough; every sentence of the answer names its packet.")),
      el("form", { class: "search-form", onsubmit: (event) => this.submitted(event) }, el("div", { class: "search-line" }, this.question, this.go, this.cancel)),
      this.steps,
      this.result,
      this.earlier.node,
    );
    this.last = recall(`research.${tenant()}`);
  }

  open() {
    const runId = this.under ? null : recall(runKey());
    if (runId) this.follow(runId);
    else if (this.last?.result && !this.result.childNodes.length && !this.under) {
      for (const [name, data] of this.last.steps) if (LINES[name]) this.step(name, data);
      this.show(this.last.result, this.last.asked ?? "");
    }
    this.earlier.load();
    if (matchMedia("(pointer: fine)").matches) this.question.focus();
  }

  close() {}

  submitted(event) {
    event.preventDefault();
    if (this.question.value.trim()) this.run(this.question.value.trim());
  }

  async run(query) {
    this.stop();
    this.asked = query;
    const mine = (this.under = { stop: () => {} }); // until it has an id
    this.begin();
    try {
      const { research_id } = await post("/research/start", { query, tenant: tenant() });
      if (this.under !== mine) return void breakOff(research_id);
      keep(runKey(), research_id);
      this.follow(research_id);
    } catch (error) {
      if (this.under !== mine) return;
      noticed(error);
      this.failed(error.message);
    }
  }

  begin() {
    fill(this.steps);
    fill(this.result);
    this.cancel.hidden = false;
    this.events = [];
  }

  /** Shows an earlier run's stored answer, or follows it if it is still running. */
  async again(run) {
    if (this.id === run.research_id) return;
    this.leave();
    this.question.value = this.asked = run.query;
    if (run.status === "in_progress") return void this.follow(run.research_id);
    try {
      const { result, error } = await get(`/research/${encodeURIComponent(run.research_id)}?tenant=${encodeURIComponent(tenant())}`);
      fill(this.steps);
      if (result) this.show(result, run.query);
      else this.failed(error);
    } catch (error) {
      noticed(error);
      this.failed(error.message);
    }
    this.node.scrollIntoView();
  }

  /** Stops following; the run continues. */
  leave() {
    this.under?.stop();
    if (this.under) this.ended();
  }

  /** Follows a run from its first step. */
  follow(researchId) {
    this.begin();
    this.id = researchId;
    const onState = (state, error) => state === "refused" && this.failed(error.message);
    this.under = follow(`/research/${encodeURIComponent(researchId)}/events?tenant=${encodeURIComponent(tenant())}`, { onEvent: ({ name, data }) => this.take(name, data), onState });
  }

  /** Cancels the run. */
  stop() {
    if (!this.under) return;
    if (this.id) breakOff(this.id);
    this.under.stop();
    this.failed("Stopped.");
  }

  ended() {
    this.under = this.id = null;
    keep(runKey(), null);
    this.cancel.hidden = true;
    this.steps.querySelector(".now")?.classList.remove("now");
    this.earlier.load();
  }

  /** Handles an event; returns whether it was the last. */
  take(name, data) {
    if (name === "error") {
      this.failed(data.code === "cancelled" ? "Stopped." : data.message);
      return true;
    }
    if (name === "result") {
      this.ended();
      const asked = this.asked ?? this.question.value;
      this.last = { steps: this.events, result: data, asked };
      keep(`research.${tenant()}`, this.last);
      announce(`${endedAs(data.status)}: ${data.answer || data.note}`);
      this.show(data, asked);
      return true;
    }
    if (name === "partial") this.showSoFar(data);
    if (!LINES[name]) return false; // "started" carries the run's id, which is known
    if (name === "resumed") this.begin(); // discard earlier steps
    this.events.push([name, data]);
    announce(this.step(name, data));
    return false;
  }

  step(name, data) {
    this.steps.querySelector(".now")?.classList.remove("now");
    const line = LINES[name](data);
    this.steps.append(
      el(
        "li",
        { class: `run-step ${name} now` },
        el("span", { class: "run-text" }, line.text),
        data.confidence !== undefined ? meter(data.confidence, 1, "confidence") : null,
        name === "found" && line.packets?.length ? el("span", { class: "packet-row" }, line.packets.map(packetButton)) : null,
      ),
    );
    return line.text;
  }

  failed(message) {
    this.ended();
    fill(this.result, el("p", { class: "problem", role: "alert" }, message));
  }

  /** The best answer after an insufficient round. */
  showSoFar(data) {
    fill(
      this.result,
      el("header", { class: "result-head" }, el("span", { class: "verdict unverifiable" }, "so far"), el("span", {}, `confidence ${data.confidence.toFixed(2)}`)),
      answerOf(data),
      data.missing.length ? el("p", { class: "note" }, `Still missing: ${data.missing.join(", ")}`) : null,
    );
  }

  show(result, asked) {
    const said = { message: asked, sources: result.source_packets, verdicts: {} };
    const sources = el("div", { class: "sources" });
    const draw = () => fill(sources, el("span", { class: "label" }, "Sources"), said.sources.map((id) => el("span", { class: "source-item" }, sourceOf(id, () => openPacket(id, null)), verdictButtons(said, id))));
    if (said.sources.length) draw();
    recallVerdicts([said], draw).catch(noticed);
    fill(
      this.result,
      el("header", { class: "result-head" }, el("span", { class: `verdict ${result.status === "SUCCESS" ? "verified" : "unverifiable"}` }, endedAs(result.status)), el("span", {}, `confidence ${result.confidence.toFixed(2)} (${result.confidence_band.toLowerCase()})`), el("span", {}, `${counted(result.iterations_used, "search", "searches")} of ${result.max_iterations}`), el("span", {}, `${result.engine} · ${duration(result.took_ms)}`)),
      answerOf(result),
      noted(result.note),
      said.sources.length && asked ? sources : null,
      result.suggestions.length ? el("ul", { class: "suggestions" }, result.suggestions.map((hint) => el("li", {}, hint))) : null,
      result.citations.length ? el("section", { class: "quotes" }, el("h2", { class: "label" }, "Quoted"), result.citations.map(quoted)) : null,
    );
  }
}

/** The note below an answer, which may cite packets. */
function noted(note) {
  const node = note ? el("div", { class: "note" }) : null;
  if (node) showText(node, note, openPacket);
  return node;
}

/** The answer's text, with citations that open at the quoted words. */
function answerOf({ answer, citations, source_packets: ids }) {
  const node = el("div", { class: "answer" });
  showText(node, answer, openPacket, () => citations, ids);
  return node;
}

/** A quote that opens its packet at its exact span. */
function quoted(citation) {
  return el(
    "button",
    { type: "button", class: "quote", onclick: () => openPacket(citation.packet_id, citation), title: `Open ${citation.packet_id} at this passage` },
    el("span", { class: "stored" }, citation.quote),
    el("span", { class: "quote-facts" }, `${citation.topic || citation.packet_id} · ${day(citation.timestamp)} · sha256 ${citation.sha256.slice(0, 12)}${citation.redacted ? " of what is stored; scrubbed on its way here" : ""}`),
  );
}
