// The council's messages, newest last; heartbeats are optional.

import { post } from "./api.js";
import { el, fill } from "./dom.js";
import { keep, recall, tenant } from "./state.js";
import { clockTime, dateTime, roleName } from "./words.js";

const KEPT = 300;
const NEAR_END_PX = 60;
const KINDS = { PROPOSAL: "proposal", VOTE: "vote", INFO: "info", ESCALATION: "escalation", HEARTBEAT: "heartbeat" };

export class CouncilFeed {
  constructor() {
    this.messages = new Map(); // full id -> message, oldest first
    this.beats = el("input", { type: "checkbox", onchange: () => this.chosen() });
    this.beats.checked = recall("heartbeats", false);
    this.list = el("ol", { class: "feed", tabindex: "0", "aria-label": "Messages of the council, the newest last" });
    this.node = el("div", { class: "feed-box" }, el("label", { class: "check" }, this.beats, " heartbeats too"), this.list);
  }

  async load() {
    const { messages } = await post("/council/log", { tenant: tenant(), limit: 120, heartbeats: this.beats.checked });
    for (const message of messages) this.messages.set(message.full_id, message);
    this.drawAll();
  }

  add(message) {
    if (!message.full_id || this.messages.has(message.full_id)) return;
    this.messages.set(message.full_id, message);
    if (this.messages.size > KEPT) this.messages.delete(this.messages.keys().next().value);
    if (!this.shows(message)) return;
    const end = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < NEAR_END_PX;
    this.list.querySelector(".quiet")?.remove();
    this.list.append(line(message));
    while (this.list.childNodes.length > KEPT) this.list.firstChild.remove();
    if (end) this.list.scrollTop = this.list.scrollHeight;
  }

  chosen() {
    keep("heartbeats", this.beats.checked || null);
    this.load();
  }

  shows(message) {
    return this.beats.checked || message.type !== "HEARTBEAT";
  }

  drawAll() {
    const ordered = [...this.messages.values()].sort((one, other) => (one.full_id < other.full_id ? -1 : 1));
    this.messages = new Map(ordered.map((message) => [message.full_id, message]));
    const shown = ordered.filter((message) => this.shows(message));
    fill(this.list, shown.length ? shown.map(line) : el("li", { class: "quiet" }, "Nothing was said yet."));
    this.list.scrollTop = this.list.scrollHeight;
  }
}

function line(message) {
  const { words, more } = contentOf(message);
  const sure = message.confidence !== null && message.type !== "HEARTBEAT" ? ` · ${message.confidence.toFixed(2)}` : "";
  const head = el("p", { class: "feed-head" }, el("time", { datetime: message.timestamp, title: dateTime(message.timestamp) }, clockTime(message.timestamp)), el("span", { class: "feed-who", data: { role: message.sender } }, roleName(message.sender)), el("span", { class: "feed-duty" }, message.role), el("span", { class: `feed-kind ${KINDS[message.type] ?? ""}` }, (KINDS[message.type] ?? message.type) + sure), message.redacted ? el("span", { class: "quiet", title: "Words were left out on this channel" }, "scrubbed") : null);
  const body = more ? el("details", { class: "feed-more" }, el("summary", {}, words), el("p", { class: "wrote" }, more)) : el("p", { class: "feed-words" }, words);
  return el("li", { data: { type: message.type } }, head, body);
}

/** A message's first line and the rest; JSON is shown as its values. */
function contentOf({ content, type }) {
  let values = null;
  try {
    values = JSON.parse(content);
  } catch {
    values = null; // plain text
  }
  if (values !== null && typeof values === "object" && !Array.isArray(values)) return ofValues(values, type);
  const lines = content.trim().split("\n");
  const first = /:$/.test(lines[0]) && lines.length > 1 ? `${lines[0]} ${lines[1]}` : lines[0];
  const rest = lines.length > (first === lines[0] ? 1 : 2) || first.length > 220;
  return { words: first.length > 220 ? `${first.slice(0, 219)}…` : first, more: rest ? content.trim() : "" };
}

function ofValues(values, type) {
  if (type === "VOTE") return { words: `${values.vote}: ${values.reason}`, more: "" };
  if (typeof values.subject === "string") {
    const [first, ...rest] = values.subject.split("\n");
    return { words: `${values.matter}: ${first}`, more: rest.join("\n") };
  }
  const words = Object.entries(values)
    .filter(([name, value]) => name !== "sha256" && value !== false && value !== "" && value !== null)
    .map(([name, value]) => (value === true ? name.replaceAll("_", " ") : `${name.replaceAll("_", " ")} ${Array.isArray(value) ? JSON.stringify(value) : value}`));
  return { words: words.join(", "), more: "" };
}
