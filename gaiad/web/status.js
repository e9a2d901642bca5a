// The daemon's status: counts, problems, models, and charts of latency and tokens.

import { get, post } from "./api.js";
import { range, stacked, table } from "./charts.js";
import { hear, noticed, onReturn } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { bytes, clockTime, counted, duration, firstLine, grouped, modelName, relative, roleName, tookMs, uptime } from "./words.js";

const EVERY_MS = 5000;
const TURNS = 24;
const TOKENS = [{ key: "cached", label: "cached" }, { key: "read", label: "read" }, { key: "written", label: "written" }]; // prettier-ignore
const TIMES = [{ key: "queue", label: "waiting" }, { key: "prefill", label: "reading" }, { key: "decode", label: "writing" }, { key: "overhead", label: "gaiad itself" }]; // prettier-ignore
const LEAST_MS = 1;
const MOST_MS = 60000;

export class StatusView {
  constructor() {
    this.body = el("div", {});
    this.use = useForm(() => this.load());
    this.parts = {}; // name -> {node, json}
    this.node = el("div", { class: "page wide" }, el("header", { class: "page-head" }, el("h1", {}, "Status")), this.body);
  }

  open() {
    this.every = setInterval(() => this.load(), EVERY_MS);
    this.stops = [onReturn(() => this.load()), hear("jobs", () => this.load())];
    this.load();
  }

  close() {
    clearInterval(this.every);
    for (const stop of this.stops) stop();
  }

  async load() {
    if (document.hidden) return;
    try {
      const [status, { turns }, { jobs }] = await Promise.all([get(`/status?tenant=${encodeURIComponent(tenant())}`), post("/turns/list", { tenant: tenant(), limit: TURNS }), get(`/jobs?tenant=${encodeURIComponent(tenant())}`)]);
      this.draw(status, turns.reverse(), jobs);
    } catch (error) {
      noticed(error);
      if (!this.parts.tiles) this.part("head", error.message, (words) => el("p", { class: "problem" }, words));
    }
  }

  draw(status, turns, jobs) {
    const well = status.degraded.length ? null : "all is well";
    this.part("head", [well, status.version, uptime(status.uptime_s)], ([, version, up]) => el("p", { class: "quiet" }, well && el("span", { class: "verdict verified" }, well), ` gaiad ${version}, up for ${up}`));
    this.part("degraded", status.degraded, (words) => words.length > 0 && el("section", { class: "panel degraded" }, el("h2", {}, "Not as it should be"), el("ul", {}, words.map((one) => el("li", {}, one)))));
    this.part("tiles", tilesOf(status), tiles);
    this.part("models", status.models, models);
    if (!this.use.isConnected) this.body.append(this.use);
    this.part("latencies", status.latencies, latencies);
    this.part("turns", turns, (all) => (all.length ? [tokens(all), times(all)] : el("p", { class: "quiet" }, "Charts of tokens and time appear after the first turn.")));
    this.part("jobs", jobs, (all) => all.length > 0 && jobList(all, () => this.load()));
  }

  /** Redraws a part only if it changed, keeping focus and scroll position. */
  part(name, data, draw) {
    const known = (this.parts[name] ??= { node: this.body.appendChild(el("div", {})), json: "" });
    const json = JSON.stringify(data);
    if (json === known.json) return;
    known.json = json;
    fill(known.node, draw(data));
  }
}

const tilesOf = (status) => [
  ["packets", grouped(status.packets)],
  ["pages", grouped(status.pages)],
  [status.queue ? `vectors (${grouped(status.queue)} wait)` : "vectors", grouped(status.vectors)],
  ["turns since the start", grouped(status.counters.turns ?? 0)],
  ["quarantined", grouped(status.quarantined)],
  ["memory", bytes(status.memory_bytes)],
];

const tiles = (rows) => el("dl", { class: "tiles" }, rows.map(([words, value]) => el("div", { class: "tile" }, el("dt", {}, words), el("dd", {}, value))));

function models(rows) {
  const cells = rows.map((model) => [roleName(model.role) || "–", model.kind === "extractive" ? "none, only quotes" : modelName(model.name || model.path_or_url), model.kind === "extractive" ? "–" : model.kind, el("span", { class: `state ${model.state}` }, model.state), model.memory_bytes ? bytes(model.memory_bytes) : "–", `${model.running} / ${model.waiting}`, model.reason || "–"]);
  const head = ["Role", "Model", "Kind", "State", "Memory", "Runs / waits", "Why"];
  if (rows.every((model) => !model.reason)) for (const row of [head, ...cells]) row.pop();
  return el(
    "section",
    { class: "panel" },
    el("h2", {}, "Models"),
    el("div", { class: "wide-table", tabindex: "0", role: "region", "aria-label": "Models" }, el("table", { class: "table" }, el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, cells.map((row) => el("tr", {}, row.map((cell, column) => (column ? el("td", {}, cell) : el("th", { scope: "row" }, cell)))))))),
  );
}

/** Gives a role, or all three, another model. Calls `onUsed()` when it is in use. */
function useForm(onUsed) {
  const what = el("input", { type: "text", required: true, "aria-label": "Model", placeholder: "Path of a GGUF, ollama:NAME or a base URL" });
  const role = el("select", { "aria-label": "Role" }, [["", "all roles"], ...["prime", "lite", "codemind"].map((one) => [one, roleName(one)])].map(([value, words]) => el("option", { value }, words)));
  const send = el("button", { type: "submit", class: "small" }, "Use");
  const outcome = el("p", { class: "quiet", role: "status" });
  const use = async (event) => {
    event.preventDefault();
    send.disabled = true;
    fill(outcome, "Loading it and asking one question…");
    try {
      const used = await post("/models/use", { what: what.value.trim(), role: role.value });
      fill(outcome, `${used.roles.map(roleName).join(", ")}: ${modelName(used.name)}, ${duration(used.seconds * 1000)}. Asked for the capital of France it said: ${used.answer}`);
      onUsed();
    } catch (error) {
      fill(outcome, error.message);
    }
    send.disabled = false;
  };
  return el("section", { class: "panel" }, el("h2", {}, "Use another model"), el("form", { class: "search-line", onsubmit: use }, what, role, send), outcome);
}

function latencies(found) {
  const rows = Object.entries(found).sort((one, other) => one[1].p95_ms - other[1].p95_ms);
  if (!rows.length) return null;
  const drawn = rows.map(([name, { count, mean_ms: mean, p50_ms: p50, p95_ms: p95 }]) => {
    const words = name.replaceAll("_", " ");
    return el("tr", {}, el("th", { scope: "row" }, words), el("td", { class: "range-cell" }, range({ p50, p95, label: `${words}: half within ${duration(p50)}, 95 % within ${duration(p95)}` }, LEAST_MS, MOST_MS)), [duration(p50), duration(p95), duration(mean), grouped(count)].map((cell) => el("td", { class: "number" }, cell)));
  });
  const scale = el("th", { scope: "col", class: "range-cell scale" }, ["1 ms", "10", "100", "1 s", "10 s"].map((words) => el("span", {}, words)));
  return el(
    "section",
    { class: "panel" },
    el("h2", {}, "Latency"),
    el("div", { class: "wide-table", tabindex: "0", role: "region", "aria-label": "Latency" }, el("table", { class: "table latency" }, el("caption", { class: "unseen" }, "Latency since the start of the daemon"), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "What"), scale, ["half within", "95 % within", "mean", "times"].map((name) => el("th", { scope: "col", class: "number" }, name)))), el("tbody", {}, drawn))),
  );
}

const nameOf = (turn) => `${clockTime(turn.started_at)} ${firstLine(turn.message, 40)}`;
const summed = (turn, value) => turn.stages.reduce((sum, stage) => sum + (value(stage) ?? 0), 0);

function tokens(turns) {
  const columns = turns.map((turn) => {
    const cached = summed(turn, (stage) => stage.cached_tokens);
    return { name: nameOf(turn), values: [cached, summed(turn, (stage) => stage.prompt_tokens) - cached, summed(turn, (stage) => stage.tokens)] };
  });
  return charted("Tokens of a turn", TOKENS, columns, (value) => grouped(Math.round(value)));
}

function times(turns) {
  const keys = ["queue_ms", "prefill_ms", "decode_ms"];
  const columns = turns.map((turn) => {
    const models = keys.map((key) => summed(turn, (stage) => stage[key]));
    return { name: nameOf(turn), values: [...models, Math.max(0, models.reduce((rest, ms) => rest - ms, tookMs(turn)))] };
  });
  return charted("Time of a turn", TIMES, columns, (value) => (value ? duration(value) : "0"));
}

function charted(title, series, columns, written) {
  const rows = [...columns].reverse().map((column) => [column.name, ...column.values.map(written)]);
  return el(
    "section",
    { class: "panel charted" },
    stacked(title, series, columns, written),
    el("div", { class: "wide-table chart-table", tabindex: "0", role: "region", "aria-label": `${title}: numbers` }, table(title, ["Turn", ...series.map(({ label }) => label)], rows)),
  );
}

function jobList(jobs, again) {
  const cancel = async (job) => {
    try {
      await post(`/jobs/${encodeURIComponent(job.job_id)}/cancel?tenant=${encodeURIComponent(job.tenant)}`);
    } catch (error) {
      noticed(error);
    }
    again();
  };
  const rows = jobs.slice(0, 10).map((job) => el("tr", {}, el("th", { scope: "row" }, job.kind), el("td", {}, el("span", { class: `state ${job.state}` }, job.state)), el("td", {}, job.total ? `${grouped(job.done)} of ${grouped(job.total)}` : "–"), el("td", {}, job.note || "–"), el("td", {}, relative(job.updated_at)), el("td", {}, ["queued", "running"].includes(job.state) ? button("Cancel", () => cancel(job), { class: "small" }) : null)));
  return el(
    "section",
    { class: "panel" },
    el("h2", {}, "Jobs", el("span", { class: "quiet" }, ` ${counted(jobs.length, "job")}`)),
    el("div", { class: "wide-table", tabindex: "0", role: "region", "aria-label": "Jobs" }, el("table", { class: "table" }, el("thead", {}, el("tr", {}, ["Job", "State", "Done", "Note", "Last", ""].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows))),
  );
}
