// The archive's timeline: a bar per month, facets, and the matching conversations and records.

import { post } from "./api.js";
import { noticed } from "./connection.js";
import { button, el, fill, icon } from "./dom.js";
import { openPacket } from "./packet.js";
import { tenant } from "./state.js";
import { counted, day, firstLine, grouped, modelName, sourceKind } from "./words.js";

const AT_ONCE = 30;
const NAMES = 8; // of a facet, before "more"
const OWN = "session_turn"; // gaiad's own chats are listed under Chat
const FACETS = [
  { key: "dialects", title: "Source", words: sourceKind },
  { key: "people", title: "Person" },
  { key: "topics", title: "Topic", whole: true },
  { key: "tags", title: "Tag" },
  { key: "models", title: "Model", whole: true },
];

/** Calls `onChange()` when the choice changes; `chips` shows the choice, also above search hits. */
export class Browse {
  constructor(onChange) {
    this.onChange = onChange;
    this.chosen = {}; // facet -> values; month -> "2025-11"
    this.bars = el("div", { class: "months", role: "group", "aria-label": "Months, left and right arrow keys move between them", onkeydown: (event) => this.step(event) });
    this.chips = el("div", { class: "chips" });
    this.facets = el("div", { class: "facets" });
    this.narrow = el("details", { class: "narrow", open: matchMedia("(min-width: 761px)").matches }, el("summary", {}, "Narrow down"), this.facets);
    this.list = el("ul", { class: "browse-list" });
    this.count = el("p", { class: "quiet", role: "status" });
    this.more = button("More", () => this.next(), { class: "small", hidden: true });
    this.node = el("section", { class: "browse", "aria-label": "Browse" }, this.bars, el("div", { class: "browse-body" }, this.narrow, el("div", {}, this.count, this.list, this.more)));
  }

  async load() {
    try {
      this.sources = Object.keys((await this.counts({})).dialects).filter((name) => name !== OWN);
      const [all, narrowed] = await Promise.all([this.counts(this.filters({ month: false })), this.counts(this.filters())]);
      this.total = narrowed.packets;
      this.drawBars(all.months);
      this.drawFacets(narrowed);
      fill(this.count, counted(this.total, "conversation or record", "conversations and records"));
      fill(this.list);
      this.shown = 0;
      await this.next();
    } catch (error) {
      noticed(error);
      fill(this.count, el("span", { class: "problem" }, error.message));
    }
  }

  counts(filters) {
    return post("/packets/timeline", { filters, tenant: tenant() });
  }

  filters({ month = true } = {}) {
    return { dialects: this.sources, ...this.narrowed({ month }) };
  }

  /** The choice as filters; empty when nothing is chosen. */
  narrowed({ month = true } = {}) {
    const found = month && this.chosen.month ? monthSpan(this.chosen.month) : {};
    for (const { key, whole } of FACETS) if (this.chosen[key]) found[key] = this.chosen[key].map((value) => (whole ? `=${value}` : value));
    return found;
  }

  async next() {
    const request = { filters: this.filters(), limit: AT_ONCE, offset: this.shown, tenant: tenant() };
    const { packets } = await post("/packets/list", request);
    this.shown += packets.length;
    this.list.append(...packets.map(row));
    this.more.hidden = this.shown >= this.total || !packets.length;
  }

  choose(key, value) {
    this.chosen[key] = String(this.chosen[key]) === String(value) ? undefined : value;
    this.drawChips();
    this.onChange();
  }

  drawChips() {
    const chip = (key, title, words) => button([`${title}: ${words} `, icon("close")], () => this.choose(key, this.chosen[key]), { class: "chip", "aria-label": `${title}: ${words}, remove` });
    const { month } = this.chosen;
    const facets = FACETS.filter(({ key }) => this.chosen[key]).map(({ key, title, words = String }) => chip(key, title, words(this.chosen[key][0])));
    fill(this.chips, month ? chip("month", "Month", monthName(month)) : null, facets);
  }

  /** Arrow keys move between months, which are one Tab stop together. */
  step(event) {
    const bars = [...this.bars.children].filter((bar) => !bar.disabled);
    const to = bars[bars.indexOf(document.activeElement) + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? NaN)];
    if (!to) return;
    event.preventDefault();
    bars.forEach((bar) => (bar.tabIndex = bar === to ? 0 : -1));
    to.focus();
  }

  drawBars(counts) {
    const months = everyMonth(Object.keys(counts));
    const most = Math.max(...Object.values(counts), 1);
    const reached = this.chosen.month ?? months.at(-1); // the Tab stop
    fill(
      this.bars,
      months.map((month) => {
        const number = counts[month] ?? 0;
        const bar = el("span", { class: "month-bar" });
        bar.style.height = number ? `${Math.max(6, (100 * number) / most)}%` : "0";
        const words = `${monthName(month)}: ${counted(number, "conversation or record", "conversations and records")}`;
        const few = months.length <= 14;
        const name = few ? monthName(month).slice(0, 3) : month.endsWith("-01") ? month.slice(0, 4) : null;
        const count = number ? el("span", { class: `month-count${few || number === most ? " shown" : ""}`, "aria-hidden": "true" }, grouped(number)) : null;
        return el("button", { type: "button", class: "month", disabled: !number, tabindex: month === reached ? "0" : "-1", title: words, "aria-label": words, "aria-pressed": String(this.chosen.month === month), onclick: () => this.choose("month", month) }, count, bar, name ? el("span", { class: "month-name" }, name) : null);
      }),
    );
    this.bars.scrollLeft = this.bars.scrollWidth; // the newest
  }

  drawFacets(counts) {
    fill(
      this.facets,
      FACETS.map(({ key, title, words = String }) => {
        const rows = named(counts[key], words).filter(([name]) => name !== words(OWN));
        if (!this.chosen[key] && (!rows.length || (rows.length === 1 && rows[0][1].number === counts.packets))) return null; // it would not narrow anything
        const one = ([name, { number, values }]) => el("li", {}, button([el("span", { class: "facet-name" }, name), el("span", { class: "facet-count" }, grouped(number))], () => this.choose(key, values), { class: "facet", "aria-pressed": String(this.chosen[key]?.join() === values.join()) }));
        const list = el("ul", {}, rows.slice(0, NAMES).map(one));
        const rest = rows.slice(NAMES);
        const more = rest.length ? button(`${rest.length} more`, () => (more.remove(), list.append(...rest.map(one))), { class: "ghost small" }) : null;
        return el("section", {}, el("h2", { class: "label" }, title), list, more);
      }),
    );
  }
}

/** [display name, {number, values}]: several values may share a display name. */
function named(counts, words) {
  const found = new Map();
  for (const [value, number] of Object.entries(counts)) {
    const one = found.get(words(value)) ?? { number: 0, values: [] };
    found.set(words(value), { number: one.number + number, values: [...one.values, value] });
  }
  return [...found].sort((a, b) => b[1].number - a[1].number);
}

function row(packet) {
  const open = (event) => {
    event.preventDefault();
    openPacket(packet.packet_id);
  };
  const facts = [day(packet.timestamp), modelName(packet.model), sourceKind(packet.dialect), counted(packet.pages, "page")].filter(Boolean);
  return el(
    "li",
    {},
    el("a", { href: `#/packet/${encodeURIComponent(packet.packet_id)}`, onclick: open }, packet.topic || firstLine(packet.summary, 80) || packet.packet_id),
    el("p", { class: "hit-facts" }, facts.map((fact) => el("span", {}, fact))),
  );
}

const monthName = (month) => new Date(`${month}-15T00:00:00Z`).toLocaleDateString("en", { month: "long", year: "numeric" });

/** The first and last moment of "2025-11", as filters have them. */
export function monthSpan(month) {
  const [year, number] = month.split("-").map(Number);
  return { since: `${month}-01`, until: number === 12 ? `${year + 1}-01-01` : `${year}-${String(number + 1).padStart(2, "0")}-01` };
}

/** Every month from the first to the last, including empty ones. */
export function everyMonth(months) {
  const found = [];
  const last = months.at(-1);
  for (let month = months[0]; month && month <= last; month = monthSpan(month).until.slice(0, 7)) found.push(month);
  return found;
}
