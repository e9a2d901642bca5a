// The chat: a session's turns, live updates of running turns, and messages sent exactly once.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { Composer } from "./composer.js";
import { isAway, noticed, onReturn } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { recallVerdicts } from "./feedback.js";
import { newKey, putIn, takeOut, unsent } from "./outbox.js";
import { tenant } from "./state.js";
import { follow } from "./stream.js";
import { apply, newTurn, rememberedTurn, withLost } from "./turn_model.js";
import { TurnView } from "./turn_view.js";
import { doingNow } from "./turn_steps.js";
import { welcome } from "./welcome.js";

const NEAR_END_PX = 120;
const SETTLING_MS = 1500;
const LOGGED = 200; // as many as /sessions/show returns

/** The chat view; `open(session, words)` shows a session ("" is a new one) and puts words into the field. */
export class Chat {
  constructor(sessions) {
    this.sessions = sessions;
    this.session = null;
    this.views = new Map(); // turn id -> TurnView
    this.streams = new Map(); // turn id -> Following
    this.sending = new Map(); // key of an outbox entry -> TurnView
    this.composer = new Composer((text, options) => this.say({ key: newKey(), session: this.session, text, options }));
    this.turns = el("div", { class: "turns" });
    this.waiting = el("div", { class: "waiting" });
    this.newest = button("Newest", () => this.toEnd(true), { class: "to-end small", hidden: true });
    this.scroller = el("div", { class: "scroller", onscroll: () => this.scrolled() }, el("div", { class: "column" }, this.turns, this.waiting));
    this.node = el("div", { class: "chat" }, el("h1", { class: "unseen" }, "Chat"), this.scroller, el("div", { class: "dock" }, this.newest, this.composer.node));
    this.atEnd = true;
    this.endedAt = 0;
    new ResizeObserver(() => this.grown()).observe(this.turns);
    onReturn(() => {
      this.drawWaiting();
      if (this.turns.querySelector(".unopened")) this.reopen();
    });
  }

  async open(session, words = "") {
    if (words) history.replaceState(null, "", session ? `#/chat/${encodeURIComponent(session)}` : "#/chat");
    if (session === this.session) return words ? this.composer.put(words) : this.composer.focus();
    this.leave();
    this.session = session;
    this.sessions.choose(session);
    this.composer.open(session);
    if (words) this.composer.put(words);
    const greeting = session ? null : welcome((question) => this.composer.put(question));
    fill(this.turns, greeting?.node ?? el("p", { class: "quiet" }, "Opening…"));
    this.drawWaiting();
    this.composer.focus();
    greeting?.greet().catch(noticed);
    try {
      const past = session ? await this.past(session) : [];
      const { turns: running } = await get(`/turns/running?tenant=${encodeURIComponent(tenant())}`);
      if (this.session !== session) return;
      if (session) fill(this.turns);
      const ids = new Set(running.map((one) => one.turn_id));
      for (const turn of past) if (!ids.has(turn.turnId)) this.add(turn);
      for (const one of running) {
        this.sessions.mark(one.session_id, true);
        if (one.session_id === session) this.listen(this.add(newTurn(one.message, { turnId: one.turn_id, sessionId: session, startedAt: one.started_at, running: true })));
      }
      this.toEnd(true);
      this.judged(past);
    } catch (error) {
      noticed(error);
      if (session && this.session === session) fill(this.turns, el("p", { class: "problem unopened" }, error.message, " ", button("Try again", () => this.reopen(), { class: "small" })));
    }
    this.resume();
  }

  reopen() {
    const { session } = this;
    this.session = null;
    return this.open(session);
  }

  leave() {
    for (const stream of this.streams.values()) stream.stop();
    this.streams.clear();
    this.views.clear();
  }

  /** A session's turns from memory, plus stopped or interrupted ones that only the turn log has. */
  async past(session) {
    const asked = [
      post("/sessions/show", { session_id: session, tenant: tenant() }).catch((error) => {
        if (error.status === 404) return { turns: [] }; // nothing stored yet
        throw error;
      }),
      post("/turns/list", { session_id: session, limit: LOGGED, tenant: tenant() }),
    ];
    const [{ turns }, { turns: records }] = await Promise.all(asked);
    const ratings = new Map(records.map((record) => [record.turn_id, record.rating]));
    return withLost(turns.map(rememberedTurn), records).map((turn) => Object.assign(turn, { rating: ratings.get(turn.turnId) ?? "" }));
  }

  /** Redraws turns whose pending commands may have changed. */
  redraw() {
    for (const view of this.views.values()) view.update();
  }

  /** Adds turns started elsewhere: after an approval, or from the command line. */
  async refresh() {
    const { session } = this;
    if (!session || this.streams.size) return;
    for (const turn of await this.past(session)) {
      if (this.session !== session || this.views.has(turn.turnId)) continue;
      const end = this.nearEnd();
      this.judged([this.add(turn).turn]);
      if (end) this.toEnd(true);
    }
  }

  /** Shows earlier feedback on the sources of these turns. */
  judged(turns) {
    const redraw = (turn) => this.views.get(turn.turnId)?.update();
    recallVerdicts(turns, redraw).catch(noticed); // the buttons still work without it
  }

  add(turn) {
    this.turns.querySelector(".welcome")?.remove();
    const view = new TurnView(turn, { onStop: (one) => this.stop(one), onAgain: (one) => this.again(one) });
    if (turn.turnId) this.views.set(turn.turnId, view);
    this.turns.append(view.node);
    return view;
  }

  // -- sending

  /** Sends an outbox entry, which is removed once the daemon has it. */
  async say(entry) {
    putIn({ ...entry, state: "sending" });
    const turn = newTurn(entry.text, { running: true, startedAt: new Date().toISOString(), key: entry.key, options: entry.options });
    const here = entry.session === this.session;
    const view = here ? this.add(turn) : null;
    this.sending.set(entry.key, view);
    this.drawWaiting();
    if (here) this.toEnd(true);
    try {
      const request = { message: entry.text, session_id: entry.session, idempotency_key: entry.key, tenant: tenant(), ...entry.options };
      const { turn_id, session_id } = await post("/turns/start", request);
      takeOut(entry.key);
      Object.assign(turn, { turnId: turn_id, sessionId: session_id });
      this.sessions.begin(session_id, entry.text);
      this.sessions.mark(session_id, true);
      if (view && entry.session === this.session) this.began(view, session_id);
      this.sessions.load().catch(noticed);
    } catch (error) {
      noticed(error);
      view?.node.remove();
      if (error.away || error.signedOut || error.status >= 500) putIn({ ...entry, state: "waiting" });
      else this.refused(entry, error);
    } finally {
      this.sending.delete(entry.key);
    }
    this.drawWaiting();
  }

  began(view, session) {
    const { turn } = view;
    if (this.views.has(turn.turnId)) view.node.remove(); // already sent and running
    else {
      this.views.set(turn.turnId, view);
      this.listen(view);
    }
    if (!this.session) {
      this.session = this.composer.session = session;
      if (/^(#\/chat\/?)?$/.test(location.hash)) history.replaceState(null, "", `#/chat/${encodeURIComponent(session)}`);
      this.sessions.choose(session);
    }
  }

  /** A refused message goes back into the input field. */
  refused(entry, error) {
    takeOut(entry.key);
    if (entry.session === this.session) this.composer.put(entry.text);
    this.turns.append(el("p", { class: "problem", role: "alert" }, error.message));
    this.toEnd(true);
  }

  /** Resends what a reload interrupted, but not what is on its way here; the idempotency key makes that harmless. */
  resume() {
    const lost = ({ key, state, session }) => state === "sending" && session === this.session && !this.sending.get(key)?.node.isConnected;
    for (const entry of unsent().filter(lost)) this.say(entry);
  }

  drawWaiting() {
    const entries = unsent().filter((entry) => entry.state === "waiting" && entry.session === this.session);
    fill(this.waiting, entries.map((entry) => this.unsentRow(entry)));
  }

  unsentRow(entry) {
    const drop = () => {
      takeOut(entry.key);
      this.drawWaiting();
    };
    const edit = () => {
      drop();
      this.composer.put(entry.text);
    };
    const send = () => {
      takeOut(entry.key);
      this.say(entry);
    };
    return el(
      "div",
      { class: "unsent" },
      el("p", { class: "asked" }, entry.text),
      el("p", { class: "unsent-row" }, el("span", {}, `${isAway() ? "Not sent: gaiad is away." : "Not sent yet."} It is sent only when you press Send.`), button("Send", send, { class: "small strong" }), button("Edit", edit, { class: "small" }), button("Discard", drop, { class: "small ghost" })),
    );
  }

  // -- running turns

  listen(view) {
    const { turn } = view;
    let announced = "";
    const path = `/turns/events?turn=${encodeURIComponent(turn.turnId)}&tenant=${encodeURIComponent(tenant())}&after=0`;
    const onEvent = ({ name, data }) => {
      apply(turn, name, data);
      view.update();
      const doing = name === "stage" ? `${doingNow(turn)}.` : "";
      if (doing && doing !== announced) announce((announced = doing));
      if (turn.running) return false;
      this.ended(view);
      return true;
    };
    const onState = (state, detail) => {
      if (state !== "refused") return;
      noticed(detail);
      if (detail.signedOut) return;
      const lost = detail.status === 404 ? "gaiad was restarted before this answer was whole." : detail.message;
      apply(turn, "error", { code: detail.code, message: lost });
      view.update();
      this.ended(view);
    };
    this.streams.set(turn.turnId, follow(path, { onEvent, onState }));
  }

  ended(view) {
    const { turn } = view;
    this.streams.delete(turn.turnId);
    this.endedAt = Date.now();
    this.sessions.mark(turn.sessionId, false);
    this.sessions.load().catch(noticed);
    this.judged([turn]);
    if (turn.broken) announce(turn.error?.message ?? "The answer ended before its end.", { urgent: true });
    else announce(`${turn.answered ? "Answer" : "No answer"}: ${turn.answer}`);
  }

  async stop(turn) {
    try {
      await post("/turns/cancel", { turn: turn.turnId, tenant: tenant() });
    } catch (error) {
      noticed(error);
      announce(error.message, { urgent: true });
    }
  }

  /** Stops the first running answer. Returns whether there was one. */
  stopWriting() {
    const running = [...this.views.values()].find((view) => view.turn.running);
    if (running) this.stop(running.turn);
    return Boolean(running);
  }

  again(turn) {
    this.say({ key: newKey(), session: turn.sessionId || this.session, text: turn.message, options: turn.options ?? { persona: "", depth: "" } });
  }

  // -- scrolling

  nearEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  toEnd(jump = false) {
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: jump ? "instant" : "auto" });
    this.scrolled();
  }

  scrolled() {
    this.atEnd = this.nearEnd();
    this.newest.hidden = this.atEnd;
  }

  /** Follows a growing answer if the reader is at the end; expanding existing content does not scroll. */
  grown() {
    if (this.atEnd && (this.streams.size || Date.now() - this.endedAt < SETTLING_MS)) this.toEnd();
    else this.newest.hidden = this.nearEnd();
  }
}
