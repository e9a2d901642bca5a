// The archive: browse by month and facet, or search, with hits grouped by conversation.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { Browse } from "./browse.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { ImportFiles } from "./import_files.js";
import { openPacket } from "./packet.js";
import { packetName } from "./packet_names.js";
import { Quarantine } from "./quarantine.js";
import { tenant } from "./state.js";
import { counted, day, leftOut, modelName, speakerName, unmarked } from "./words.js";
import { marked, whyThisHit } from "./why.js";

const MODES = [["hybrid", "Words and meaning"], ["bm25", "Words only"], ["dense", "Meaning only"]]; // prettier-ignore
const ORDERS = [["relevance", "Best first"], ["latest", "Newest first"], ["earliest", "Oldest first"]]; // prettier-ignore
const HOW_TO = [
  ["ChatGPT:", "Settings, Data controls, Export data; a link to a zip file comes by email."],
  ["Claude:", "Settings, Privacy, Export data; a link to a zip file comes by email."],
  ["Gemini:", "takeout.google.com, My Activity, Gemini Apps."],
  ["Claude Code, Codex, Gemini CLI:", "their sessions in ~/.claude, ~/.codex and ~/.gemini; in a terminal, gaiad import takes whole folders."],
  ["Notes:", "Markdown files, and written transcripts of chats."],
];
const LIMIT = 40;
const INDEXING_MS = 3000;
const NEAREST = 5; // shown when no page has the words

export class Archive {
  constructor() {
    const choice = (label, rows) => el("select", { "aria-label": label, onchange: () => this.submit() }, rows.map(([value, words]) => el("option", { value }, words)));
    this.query = el("input", { type: "search", id: "query", placeholder: "Search what is remembered…", "aria-label": "Search", autocomplete: "off", enterkeyhint: "search" });
    this.mode = choice("Mode", MODES);
    this.order = choice("Order", ORDERS);
    this.since = el("input", { type: "date", "aria-label": "Not before", onchange: () => this.submit() });
    this.until = el("input", { type: "date", "aria-label": "Before", onchange: () => this.submit() });
    this.outcome = el("p", { class: "quiet outcome", role: "status" });
    this.hits = el("div", { class: "hits" });
    this.browse = new Browse(() => (this.searched ? this.search() : this.browse.load()));
    this.files = new ImportFiles(() => this.leaveSearch());
    this.quarantine = new Quarantine(() => this.leaveSearch());
    this.empty = el("div", { class: "welcome", hidden: true }, el("h2", {}, "Bring in your own history"), el("p", {}, "Drop the files here, or choose them with Import…"), el("ul", {}, HOW_TO.map(([name, words]) => el("li", {}, el("strong", {}, name), ` ${words}`)))); // prettier-ignore
    this.form = el("form", { class: "search-form", role: "search", onsubmit: (event) => this.submitted(event) },
      el("div", { class: "search-line" }, this.query, el("button", { type: "submit", class: "strong" }, "Search")),
      el("div", { class: "search-row" }, this.mode, this.order, el("span", { class: "dates" }, el("label", {}, "from ", this.since), el("label", {}, " to ", this.until)))); // prettier-ignore
    this.node = el(
      "div",
      { class: "page" },
      el("header", { class: "page-head" }, el("h1", {}, "Archive"), this.files.button),
      this.files.log,
      this.quarantine.node,
      this.form,
      this.empty,
      this.browse.chips,
      this.outcome,
      this.hits,
      this.browse.node,
    );
    this.files.dropOn(this.node);
    this.query.addEventListener("input", () => this.query.value || this.leaveSearch());
  }

  /** `parameters` are the query parameters of the address. */
  open(parameters) {
    const query = parameters.get("q") ?? "";
    for (const [name, field] of Object.entries({ mode: this.mode, order: this.order, since: this.since, until: this.until })) {
      if (parameters.has(name)) field.value = parameters.get(name);
    }
    if (query && query !== this.searched) {
      this.query.value = query;
      this.search();
    } else if (!this.searched) this.browsing();
    if (matchMedia("(pointer: fine)").matches) this.query.focus();
  }

  close() {
    this.under?.abort();
    clearTimeout(this.again);
  }

  /** Shows the timeline, or how to import when there is nothing yet. */
  async browsing() {
    this.browse.node.hidden = false;
    try {
      const packets = await this.indexing();
      if (this.searched) return;
      this.form.hidden = !packets;
      this.empty.hidden = packets > 0;
      await Promise.all([this.quarantine.load(), packets ? this.browse.load() : null]);
    } catch (error) {
      noticed(error);
    }
  }

  /** Shows how much of the archive search by meaning covers, until it is all; returns the number of packets. */
  async indexing() {
    clearTimeout(this.again);
    const { packets, queue, vectors } = await get(`/status?tenant=${encodeURIComponent(tenant())}`);
    if (this.searched) return packets;
    fill(this.outcome, packets && queue ? `Still indexing meaning: ${Math.floor((100 * vectors) / (vectors + queue))} %.` : "");
    if (queue) this.again = setTimeout(() => this.node.isConnected && !this.searched && this.indexing().catch(noticed), INDEXING_MS);
    return packets;
  }

  leaveSearch() {
    this.under?.abort();
    this.searched = null;
    fill(this.hits);
    history.replaceState(null, "", "#/archive");
    this.browsing();
  }

  submitted(event) {
    event.preventDefault();
    this.submit();
  }

  submit() {
    const query = this.query.value.trim();
    if (!query) return;
    const parameters = new URLSearchParams({ q: query });
    if (this.mode.value !== "hybrid") parameters.set("mode", this.mode.value);
    if (this.order.value !== "relevance") parameters.set("order", this.order.value);
    if (this.since.value) parameters.set("since", this.since.value);
    if (this.until.value) parameters.set("until", this.until.value);
    history.replaceState(null, "", `#/archive?${parameters}`);
    this.search();
  }

  async search() {
    const query = this.query.value.trim();
    this.searched = query;
    this.browse.node.hidden = true;
    this.under?.abort();
    this.under = new AbortController();
    fill(this.outcome, "Searching…");
    try {
      const dates = Object.entries({ since: this.since.value, until: this.until.value }).filter(([, value]) => value);
      const filters = { ...this.browse.narrowed(), ...Object.fromEntries(dates) };
      const request = { query, mode: this.mode.value, order: this.order.value, limit: LIMIT, explain: true, filters, tenant: tenant() };
      this.show(query, await post("/search", request, this.under.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      noticed(error);
      this.searched = null;
      fill(this.hits);
      fill(this.outcome, el("span", { class: "problem" }, error.message));
    }
  }

  show(query, found) {
    const near = this.mode.value === "hybrid" && found.hits.length > 0 && found.hits.every((hit) => !hit.explanation?.matched_terms.length);
    const groups = together(near ? found.hits.slice(0, NEAREST) : found.hits);
    const among = groups.length < found.hits.length ? ` in ${counted(groups.length, "conversation")}` : "";
    const words = !groups.length ? `Nothing was found for “${query}”.` : near ? "No good match. The nearest pages in meaning:" : `${counted(found.hits.length, "page")}${among}`;
    fill(this.outcome, words, [...found.degraded, leftOut(found.redactions)].filter(Boolean).map((note) => el("span", { class: "note" }, ` · ${note}`)));
    announce(words);
    fill(this.hits, groups.map(groupOf));
  }
}

/** Groups hits by conversation or packet, each group ranked by its best hit. Pure. */
export function together(hits) {
  const groups = new Map();
  for (const hit of hits) {
    const key = hit.session_id || hit.packet_id;
    groups.set(key, [...(groups.get(key) ?? []), hit]);
  }
  return [...groups.values()];
}

function groupOf([best, ...more]) {
  const first = hitOf(best);
  if (!more.length) return first;
  const rest = el("div", { class: "hit-more", hidden: true });
  const label = `${counted(more.length, "more page")} of this conversation`;
  const toggle = button(label, () => {
    if (!rest.childNodes.length) fill(rest, more.map((hit) => hitOf(hit, false)));
    rest.hidden = !rest.hidden;
    toggle.setAttribute("aria-expanded", String(!rest.hidden));
  }, { class: "ghost small", "aria-expanded": "false" }); // prettier-ignore
  first.append(toggle, rest);
  return first;
}

/** One hit: headed by the title of its conversation if `titled`, else by its speaker. */
function hitOf(hit, titled = true) {
  const label = [speakerName(hit), modelName(hit.model)].filter(Boolean).join(" · ");
  const open = (event) => {
    event.preventDefault();
    openPacket(hit.packet_id, { page_id: hit.page_id });
  };
  const title = el("a", { href: `#/packet/${encodeURIComponent(hit.packet_id)}`, onclick: open }, titled ? unmarked(hit.topic || hit.packet_id) : label || day(hit.timestamp));
  if (titled && !hit.topic) packetName(hit.packet_id).then((name) => name?.topic && fill(title, name.topic), noticed);
  return el(
    "article",
    { class: "hit" },
    el(titled ? "h2" : "h3", {}, title),
    el("p", { class: "hit-facts" }, el("span", {}, day(hit.timestamp)), titled && label ? el("span", {}, label) : null),
    el("p", { class: "stored" }, marked(unmarked(hit.excerpt), hit.explanation?.matched_terms ?? [])),
    hit.explanation ? whyThisHit(hit) : null,
  );
}
