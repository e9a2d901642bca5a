// Ctrl-K: find views, conversations and packets from one field.

import { post } from "./api.js";
import { noticed } from "./connection.js";
import { el, fill } from "./dom.js";
import { openPacket } from "./packet.js";
import { tenant } from "./state.js";
import { day } from "./words.js";

const WAIT_MS = 150;
const MOST = 8;
const PAGES = 40;

/** `places` are {name, words}, `conversations()` gives the sessions known. */
export class Palette {
  constructor(places, conversations) {
    this.places = places;
    this.conversations = conversations;
    this.field = el("input", { type: "text", "aria-label": "Find anything", placeholder: "Find a place, a conversation, a packet…", autocomplete: "off", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", oninput: () => this.typed(), onkeydown: (event) => this.key(event) });
    this.list = el("ul", { id: "palette-list", role: "listbox" });
    this.dialog = el("dialog", { class: "palette", "aria-label": "Find anything", onclick: (event) => event.target === this.dialog && this.dialog.close() }, this.field, this.list);
    document.body.append(this.dialog);
  }

  open() {
    if (this.dialog.open) return this.dialog.close();
    this.field.value = "";
    this.found = [];
    this.dialog.showModal();
    this.typed();
    return undefined;
  }

  typed() {
    const words = this.field.value.trim().toLowerCase();
    const places = this.places.filter((place) => place.words.toLowerCase().includes(words)).map((place) => ({ words: place.words, kind: "Go to", run: () => (location.hash = `#/${place.name}`) }));
    const talks = this.conversations().filter((one) => words && (one.title ?? "").toLowerCase().includes(words)).slice(0, MOST).map((one) => ({ words: one.title, kind: "Conversation", run: () => (location.hash = `#/chat/${encodeURIComponent(one.session_id)}`) })); // prettier-ignore
    this.known = [...places, ...talks];
    this.found = [];
    const typed = this.field.value.trim();
    const asked = { words: `Ask “${typed}”`, kind: "Chat", run: () => (location.hash = `#/chat?say=${encodeURIComponent(typed)}`) };
    const searched = { words: `Search the archive for “${typed}”`, kind: "Archive", run: () => (location.hash = `#/archive?q=${encodeURIComponent(typed)}`) };
    this.last = typed ? [searched, asked] : [];
    this.chosen = 0;
    this.draw();
    clearTimeout(this.soon);
    this.under?.abort();
    if (words.length > 1) this.soon = setTimeout(() => this.search(words).catch((error) => error.name !== "AbortError" && noticed(error)), WAIT_MS);
  }

  async search(words) {
    this.under = new AbortController();
    const { hits } = await post("/search", { query: words, limit: PAGES, tenant: tenant() }, this.under.signal);
    const best = [...new Map(hits.toReversed().map((hit) => [hit.packet_id, hit])).values()].toReversed().slice(0, MOST); // one per packet
    this.found = best.map((hit) => ({ words: hit.topic || hit.excerpt.slice(0, 80), kind: day(hit.timestamp), run: () => openPacket(hit.packet_id, { page_id: hit.page_id }) }));
    this.draw();
  }

  get rows() {
    return [...this.known, ...this.found, ...this.last];
  }

  draw() {
    fill(this.list, this.rows.map((row, number) => el("li", { role: "option", id: `palette-${number}`, "aria-selected": String(number === this.chosen), onclick: () => this.take(number) }, el("span", {}, row.words), el("span", { class: "quiet" }, row.kind))));
    if (this.rows.length) this.field.setAttribute("aria-activedescendant", `palette-${this.chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.rows.length) {
      this.chosen = (this.chosen + step + this.rows.length) % this.rows.length;
      this.draw();
      this.list.children[this.chosen].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") this.take(this.chosen);
    else return;
    event.preventDefault();
  }

  take(number) {
    const row = this.rows[number];
    this.dialog.close();
    row?.run();
  }
}
