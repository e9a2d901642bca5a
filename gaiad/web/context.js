// Context Memory: advice of reviews with its effect as a plot, iterations, checkpoints. Active advice can be struck.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { effect, stacked, table } from "./charts.js";
import { noticed, onReturn } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { bytes, counted, dateTime, grouped, relative } from "./words.js";

const ITERATIONS = 24;
const CHECKPOINTS = 10;
const KINDS = [{ key: "states", label: "states" }, { key: "outputs", label: "outputs" }, { key: "reviews", label: "reviews" }]; // prettier-ignore

export class ContextView {
  constructor() {
    this.size = el("p", { class: "quiet" });
    this.advice = el("div", {});
    this.iterations = el("div", {});
    this.checkpoints = el("div", {});
    this.node = el(
      "div",
      { class: "page wide" },
      el("header", { class: "page-head" }, el("h1", {}, "Context"), this.size),
      el("section", { class: "panel", "aria-label": "Advice" }, el("h2", {}, "Advice, and what came of it"), this.advice),
      el("section", { class: "panel", "aria-label": "Iterations" }, el("h2", {}, "Iterations"), this.iterations),
      el("section", { class: "panel", "aria-label": "Checkpoints" }, el("h2", {}, "Checkpoints"), this.checkpoints),
    );
  }

  open() {
    this.stop = onReturn(() => this.load());
    this.load();
  }

  close() {
    this.stop();
  }

  async load() {
    const of = (path, query = "") => get(`/context/${path}?tenant=${encodeURIComponent(tenant())}${query}`);
    try {
      const [feedback, trends, made, used] = await Promise.all([of("feedback"), of("trends", `&iterations=${ITERATIONS}`), of("checkpoints", `&limit=${CHECKPOINTS}`), of("quota")]);
      fill(this.size, `${bytes(used.stored_bytes)} kept${used.quota_bytes ? `, ${used.percent} % of the quota` : ""}`);
      this.drawAdvice(feedback.advice);
      this.drawIterations(trends.iterations);
      this.drawCheckpoints(made.checkpoints);
    } catch (error) {
      noticed(error);
      if (!this.advice.childNodes.length) fill(this.advice, el("p", { class: "problem" }, error.message));
    }
  }

  drawAdvice(rows) {
    const legend = el("p", { class: "quiet" }, "Outcomes are from 0 to 1. A dot right of the middle is a gain since the advice was given; the bar is its 95 % interval.");
    fill(this.advice, rows.length ? [legend, el("ul", { class: "advices" }, rows.map((one) => this.adviceRow(one)))] : el("p", { class: "quiet" }, "No advice yet. gaiad reflects on the council after every ten turns; stored reviews give advice too."));
  }

  adviceRow(one) {
    const measured = one.effect !== null;
    const facts = measured ? `${one.mean_before.toFixed(2)} before (${one.outcomes_before}) → ${one.mean_after.toFixed(2)} since (${one.outcomes_after})` : `not measured yet (${counted(one.outcomes_after, "outcome")} since)`;
    const words = `${one.agent_type}, advice ${one.number}`;
    const row = el(
      "li",
      { class: `advice ${one.state}`, data: { number: one.number } },
      el("div", { class: "advice-words" }, el("span", { class: "label" }, `${one.agent_type} · v${one.version}`), el("p", {}, one.text), el("p", { class: "quiet" }, `${facts} · given ${relative(one.given_at)}${one.why ? ` · ${one.why}` : ""}`)),
      measured ? effect(one.effect, one.interval, `${words}: effect ${signed(one.effect)}, between ${signed(one.interval[0])} and ${signed(one.interval[1])}`) : null,
      el("div", { class: "advice-state" }, el("span", { class: `verdict ${one.state === "active" ? "verified" : ""}` }, one.state), one.state === "active" ? button("Strike", () => this.strike(one), { class: "small", "aria-label": `Strike ${words}` }) : null),
    );
    return row;
  }

  async strike(one) {
    try {
      await post("/context/feedback/strike", { number: one.number, tenant: tenant() });
      announce("Struck: it is not given any more.");
    } catch (error) {
      noticed(error);
      announce(error.message, { urgent: true });
    }
    await this.load();
    this.advice.querySelector(".advice button, .advice-words")?.focus();
  }

  drawIterations(rows) {
    if (!rows.length) return void fill(this.iterations, el("p", { class: "quiet" }, "Nothing has been stored yet."));
    const columns = rows.map((one) => ({ name: `iteration ${one.iteration}`, values: KINDS.map(({ key }) => one[key]) }));
    const cells = [...rows].reverse().map((one) => [String(one.iteration), ...KINDS.map(({ key }) => grouped(one[key])), bytes(one.bytes)]);
    fill(this.iterations, el("div", { class: "charted" }, stacked("Records of each iteration", KINDS, columns, (value) => grouped(Math.round(value))), el("div", { class: "chart-table", tabindex: "0", role: "group", "aria-label": "Numbers of iterations" }, table("Records of each iteration", ["Iteration", "States", "Outputs", "Reviews", "Size"], cells))));
  }

  drawCheckpoints(rows) {
    const row = (one) => el("tr", { class: one.damaged.length ? "problem" : null }, el("th", { scope: "row" }, one.created_at ? dateTime(one.created_at) : one.checkpoint_id), el("td", {}, one.damaged[0] ?? one.reason), el("td", { class: "number" }, String(one.components)), el("td", { class: "number" }, bytes(one.bytes)));
    const head = el("tr", {}, ["Made", "Why", "States", "Size"].map((name, column) => el("th", { scope: "col", class: column > 1 ? "number" : null }, name)));
    fill(this.checkpoints, rows.length ? el("table", { class: "table" }, el("caption", { class: "unseen" }, "The newest checkpoints"), el("thead", {}, head), el("tbody", {}, rows.map(row))) : el("p", { class: "quiet" }, "No checkpoint yet. They are made every few minutes while something is stored."));
  }
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
