// Earlier research runs: question, outcome, and the answer when selected.

import { get } from "./api.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { counted, firstLine, relative } from "./words.js";

const SHOWN = 12;
const QUESTION = 120; // characters of it
const WORDS = { SUCCESS: "answered", PARTIAL: "answered in part", NOT_FOUND: "not found", CLARIFY: "needs a clearer question" };

/** How a run ended, in words, by the status of its answer. */
export const endedAs = (outcome) => WORDS[outcome] ?? outcome;

/** The list below a result; calls `choose(row)`. */
export class EarlierRuns {
  constructor(choose) {
    this.choose = choose;
    this.rows = el("div", { class: "rows" });
    this.node = el("section", { class: "earlier", hidden: true }, el("h2", { class: "label" }, "Asked before"), this.rows);
  }

  async load() {
    try {
      const { runs } = await get(`/research?limit=${SHOWN}&tenant=${encodeURIComponent(tenant())}`);
      this.node.hidden = !runs.length;
      fill(this.rows, runs.map((run) => this.row(run)));
    } catch (error) {
      noticed(error);
    }
  }

  row(run) {
    const facts = [stateOf(run), relative(run.started_at), run.sources ? counted(run.sources, "source") : "", run.contradictions ? counted(run.contradictions, "contradiction") : ""];
    return button([el("span", {}, firstLine(run.query, QUESTION)), el("span", { class: "turn-facts" }, facts.filter(Boolean).map((fact) => el("span", {}, fact)))], () => this.choose(run), { class: "earlier-run" });
  }
}

const stateOf = (run) => (run.outcome ? endedAs(run.outcome) : run.status === "in_progress" ? "running" : run.status.replaceAll("_", " "));
