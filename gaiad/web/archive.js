// Search in the archive: what was found, and for each hit why it stands where it does.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { el, fill } from "./dom.js";
import { openPacket } from "./packet.js";
import { packetName } from "./packet_names.js";
import { tenant } from "./state.js";
import { counted, day, duration, leftOut } from "./words.js";
import { marked, whyThisHit } from "./why.js";

const MODES = [["hybrid", "Words and meaning"], ["bm25", "Words only"], ["dense", "Meaning only"]]; // prettier-ignore
const ORDERS = [["relevance", "Best first"], ["latest", "Newest first"], ["earliest", "Oldest first"]]; // prettier-ignore
const LIMIT = 20;

export class Archive {
  constructor() {
    const choice = (label, rows) => el("select", { "aria-label": label, onchange: () => this.submit() }, rows.map(([value, words]) => el("option", { value }, words)));
    this.query = el("input", { type: "search", id: "query", placeholder: "Search what is remembered…", "aria-label": "Search", autocomplete: "off", enterkeyhint: "search" });
    this.mode = choice("Mode", MODES);
    this.order = choice("Order", ORDERS);
    this.since = el("input", { type: "date", "aria-label": "Not before", onchange: () => this.submit() });
    this.until = el("input", { type: "date", "aria-label": "Before", onchange: () => this.submit() });
    this.told = el("p", { class: "quiet told", role: "status" });
    this.hits = el("div", { class: "hits" });
    this.node = el(
      "div",
      { class: "page" },
      el("header", { class: "page-head" }, el("h1", {}, "Archive")),
      el("form", { class: "search-form", role: "search", onsubmit: (event) => this.submitted(event) },
        el("div", { class: "search-line" }, this.query, el("button", { type: "submit", class: "strong" }, "Search")),
        el("div", { class: "search-row" }, this.mode, this.order, el("span", { class: "dates" }, el("label", {}, "from ", this.since), el("label", {}, " to ", this.until)))),
      this.told,
      this.hits,
    ); // prettier-ignore
  }

  /** `parameters` are those behind the ? of the address. */
  open(parameters) {
    const query = parameters.get("q") ?? "";
    for (const [name, field] of Object.entries({ mode: this.mode, order: this.order, since: this.since, until: this.until })) {
      if (parameters.has(name)) field.value = parameters.get(name);
    }
    if (query && query !== this.searched) {
      this.query.value = query;
      this.search();
    } else if (!this.searched) this.tellSize();
    if (matchMedia("(pointer: fine)").matches) this.query.focus();
  }

  close() {
    this.under?.abort();
  }

  /** What there is to be searched, or how to bring something there. */
  async tellSize() {
    try {
      const { packets, pages, folders } = await get(`/status?tenant=${encodeURIComponent(tenant())}`);
      if (this.searched) return;
      const full = [`${counted(packets, "packet")} of ${counted(pages, "page")}, conversations among them. Choose a hit to read it where it stands.`];
      const empty = ["The archive is empty. Run ", el("code", {}, "gaiad ingest FOLDER"), folders.length ? [", or drop packets into ", el("code", {}, folders[0])] : "", "."];
      fill(this.told, packets ? full : empty);
    } catch (error) {
      noticed(error);
    }
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
    this.under?.abort();
    this.under = new AbortController();
    fill(this.told, "Searching…");
    try {
      const filters = { since: this.since.value, until: this.until.value };
      const request = { query, mode: this.mode.value, order: this.order.value, limit: LIMIT, explain: true, filters, tenant: tenant() };
      this.show(query, await post("/search", request, this.under.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      noticed(error);
      this.searched = null;
      fill(this.hits);
      fill(this.told, el("span", { class: "problem" }, error.message));
    }
  }

  show(query, found) {
    const most = Math.max(...found.hits.map((hit) => hit.score), 0);
    const near = this.mode.value === "hybrid" && found.hits.every((hit) => hit.retrievers.join() === "dense") ? "; none has any of these words, they are near in meaning" : "";
    const words = found.hits.length ? `${counted(found.hits.length, "page")} in ${duration(found.took_ms)}${near}` : `Nothing was found for “${query}”`;
    fill(this.told, words, [...found.degraded, leftOut(found.redactions)].filter(Boolean).map((note) => el("span", { class: "note" }, ` · ${note}`)));
    announce(words);
    fill(this.hits, found.hits.map((hit) => hitOf(hit, most)));
  }
}

function hitOf(hit, most) {
  const label = [hit.section.replaceAll("_", " "), hit.speaker, hit.model].filter(Boolean).join(" · ");
  const open = (event) => {
    event.preventDefault();
    openPacket(hit.packet_id, { page_id: hit.page_id });
  };
  const title = el("a", { href: `#/packet/${encodeURIComponent(hit.packet_id)}`, onclick: open }, hit.topic || hit.packet_id);
  if (!hit.topic) packetName(hit.packet_id).then((name) => name?.topic && fill(title, name.topic), noticed);
  return el(
    "article",
    { class: "hit" },
    el("h2", {}, title),
    el("p", { class: "hit-facts" }, el("span", {}, day(hit.timestamp)), label ? el("span", {}, label) : null, el("code", {}, hit.packet_id)),
    el("p", { class: "stored" }, marked(hit.excerpt, hit.explanation?.matched_terms ?? [])),
    hit.explanation ? whyThisHit(hit, most) : null,
  );
}
