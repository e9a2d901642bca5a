// The sidebar's list of conversations; those with a running answer are marked.

import { get, post } from "./api.js";
import { noticed } from "./connection.js";
import { deletion } from "./deletion.js";
import { button, el, fill, icon } from "./dom.js";
import { tenant } from "./state.js";
import { counted, firstLine, period, relative } from "./words.js";

const SHOWN = 40; // initially and per "more"
const AGAIN_MS = 3000;
const LOGGED = 40; // turns of the turn log searched for conversations without stored turns

export class Sessions {
  constructor(node) {
    this.node = node;
    this.running = new Set();
    this.chosen = "";
    this.list = [];
    this.started = [];
    this.deletions = new Map(); // of chosen conversations, by their id: a deletion outlives its row until another is chosen
    this.limit = SHOWN;
  }

  more() {
    this.limit += SHOWN;
    return this.load();
  }

  async load() {
    const [{ sessions: kept }, { turns }, { turns: records }] = await Promise.all([
      post("/sessions/list", { tenant: tenant(), limit: this.limit }),
      get(`/turns/running?tenant=${encodeURIComponent(tenant())}`),
      post("/turns/list", { tenant: tenant(), limit: LOGGED }),
    ]);
    const sessions = withLost(kept, records);
    this.running = new Set(turns.map((one) => one.session_id));
    clearTimeout(this.again);
    if (turns.length) this.again = setTimeout(() => this.load().catch(() => {}), AGAIN_MS); // until no answer is running
    this.started = this.started.filter((one) => !sessions.some((other) => other.session_id === one.session_id));
    this.list = [...this.started, ...sessions];
    this.whole = kept.length < this.limit;
    this.draw();
  }

  choose(session) {
    this.naming &&= session === this.chosen;
    if (session) this.deletions.clear();
    this.chosen = session;
    this.draw();
  }

  /** Adds a new conversation, which is not stored before its first answer. */
  begin(session, message) {
    if (this.list.some((one) => one.session_id === session)) return;
    const now = new Date().toISOString();
    this.started = [...this.started.filter((one) => one.session_id !== session), { session_id: session, title: firstLine(message), updated_at: now, turns: 1 }];
    this.list = [this.started.at(-1), ...this.list];
  }

  mark(session, running) {
    if (running) this.running.add(session);
    else this.running.delete(session);
    this.draw();
  }

  draw() {
    const focused = this.node.contains(document.activeElement) ? document.activeElement : null;
    fill(
      this.node,
      el("a", { class: "new-chat", href: "#/chat", "aria-current": this.chosen === "" ? "page" : null, title: "New conversation (n)" }, icon("new"), "New conversation"),
      [...this.deletions].filter(([id]) => !this.list.some((one) => one.session_id === id)).map(([, node]) => node),
      byPeriod(this.list).map(([name, list]) => [el("h2", { class: "label" }, name), el("ul", { class: "session-list", "aria-label": `Conversations: ${name}` }, list.map((session) => this.row(session)))]),
      this.whole ? null : button("Older", () => this.more().catch(noticed), { class: "ghost small" }),
    );
    if (focused?.isConnected) focused.focus(); // a deletion is moved, which takes the focus from its button
  }

  row(session) {
    const title = session.title || firstLine(session.first_message ?? "") || session.session_id;
    const busy = this.running.has(session.session_id);
    const chosen = session.session_id === this.chosen && !session.lost && !this.started.includes(session);
    if (chosen && this.naming) return el("li", {}, this.nameField(session, title));
    return el(
      "li",
      { class: chosen ? "chosen" : null },
      el(
        "a",
        { href: `#/chat/${encodeURIComponent(session.session_id)}`, "aria-current": session.session_id === this.chosen ? "page" : null, title: `${title}\n${session.session_id}` },
        el("span", { class: "session-title" }, title),
        el("span", { class: "session-when" }, busy ? el("span", { class: "pulse" }) : null, busy ? "answering" : `${relative(session.updated_at)} · ${counted(session.turns, "turn")}`),
      ),
      chosen ? el("div", { class: "session-actions" }, button("Rename", () => this.name(true), { class: "ghost small rename", "aria-label": `Rename ${title}` }), busy ? null : this.deletion(session.session_id, title)) : null,
    );
  }

  deletion(session, title) {
    const changed = async (gone) => {
      if (gone) location.hash = "#/chat";
      else this.deletions.delete(session);
      await this.load().catch(noticed);
      this.deletions.get(session)?.querySelector("button")?.focus();
    };
    if (!this.deletions.has(session)) this.deletions.set(session, deletion({ session_ids: [session] }, changed, title));
    return this.deletions.get(session);
  }

  name(naming) {
    this.naming = naming;
    this.draw();
    this.node.querySelector(naming ? ".session-name" : ".rename")?.focus();
  }

  nameField(session, title) {
    const done = async (value) => {
      this.naming = false;
      try {
        if (value !== title) Object.assign(session, await post("/sessions/rename", { session_id: session.session_id, title: value, tenant: tenant() }));
      } catch (error) {
        noticed(error);
      }
      this.name(false);
    };
    const keys = { Enter: (field) => done(field.value.trim()), Escape: () => done(title) };
    return el("input", { class: "session-name", value: title, maxlength: "200", "aria-label": "Name of the conversation", onkeydown: (event) => keys[event.key] && (event.preventDefault(), event.stopPropagation(), keys[event.key](event.target)) });
  }
}

/** [period, conversations] in the order of the list, which is newest first. */
function byPeriod(list) {
  const groups = new Map();
  for (const session of list) {
    const name = period(session.updated_at);
    groups.set(name, [...(groups.get(name) ?? []), session]);
  }
  return [...groups];
}

/** Adds conversations without stored turns; `records` are their failed turns, newest first. */
function withLost(sessions, records) {
  const all = [...sessions];
  for (const { session_id, status, message, started_at } of records) {
    if (!["CUT_OFF", "CANCELLED", "FAILED"].includes(status) || !message) continue;
    const known = all.find((one) => one.session_id === session_id);
    if (!known) all.push({ session_id, title: firstLine(message), updated_at: started_at, turns: 1, lost: true });
    else if (known.lost) Object.assign(known, { title: firstLine(message), turns: known.turns + 1 });
  }
  return all.sort((one, other) => Date.parse(other.updated_at) - Date.parse(one.updated_at));
}
