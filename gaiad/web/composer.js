// The message field: a persistent draft, persona, depth, and sending.

import { el, fill, icon } from "./dom.js";
import { draftKey, keep, recall } from "./state.js";
import { get } from "./api.js";

const DEPTHS = [["", "Depth: default"], ["auto", "Depth: automatic"], ["fast", "Depth: one model"], ["full", "Depth: council"]]; // prettier-ignore

/** Calls `onSend(text, {persona, depth})`. */
export class Composer {
  constructor(onSend) {
    this.onSend = onSend;
    this.session = "";
    this.text = el("textarea", {
      id: "message", rows: "1", placeholder: "Ask anything…", "aria-label": "Your message", autocomplete: "off", enterkeyhint: matchMedia("(pointer: fine)").matches ? "send" : "enter",
      oninput: () => this.typed(), onkeydown: (event) => this.key(event),
    }); // prettier-ignore
    this.send = el("button", { type: "submit", class: "send", "aria-label": "Send", title: "Send (Enter)" }, icon("send"));
    this.persona = el("select", { "aria-label": "Persona", onchange: () => keep("persona", this.persona.value) }, el("option", { value: "" }, "Persona: default"));
    this.depth = el("select", { "aria-label": "Depth", onchange: () => keep("depth", this.depth.value) }, DEPTHS.map(([value, words]) => el("option", { value }, words)));
    this.depth.value = recall("depth", "");
    const hint = el("span", { class: "hint" }, "Enter sends, Shift+Enter makes a line");
    this.node = el(
      "form",
      { class: "composer", onsubmit: (event) => this.submit(event) },
      el("div", { class: "composer-box" }, this.text, this.send),
      el("div", { class: "composer-row" }, this.persona, this.depth, hint),
    );
    this.personas();
  }

  /** Shows the draft of this session. */
  open(session) {
    this.session = session;
    this.text.value = recall(draftKey(session), "");
    this.fit();
  }

  /** Inserts words before the current text. */
  put(words) {
    this.text.value = [words, this.text.value].filter(Boolean).join("\n");
    this.typed();
    this.focus();
  }

  /** Not on a phone, where the keyboard would cover half the page. */
  focus() {
    if (matchMedia("(pointer: fine)").matches) this.text.focus();
  }

  async personas() {
    try {
      const { personas } = await get("/personas");
      const chosen = recall("persona", "");
      const rows = personas.map((one) => el("option", { value: one.name, title: one.tone }, `Persona: ${one.name.replaceAll("_", " ")}`));
      fill(this.persona, el("option", { value: "" }, "Persona: default"), rows);
      this.persona.value = personas.some((one) => one.name === chosen) ? chosen : "";
    } catch {
      // the daemon is unreachable: the choice stays until the page is opened again
    }
  }

  typed() {
    keep(draftKey(this.session), this.text.value);
    this.fit();
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, window.innerHeight * 0.4)}px`;
    this.send.disabled = !this.text.value.trim();
  }

  key(event) {
    const plain = event.key === "Enter" && !event.shiftKey && !event.isComposing;
    if (plain && (event.ctrlKey || matchMedia("(pointer: fine)").matches)) this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    const text = this.text.value;
    if (!text.trim()) return;
    this.text.value = "";
    this.typed();
    this.onSend(text, { persona: this.persona.value, depth: this.depth.value });
  }
}

