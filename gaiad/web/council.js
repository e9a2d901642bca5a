// The council live: roles and heartbeats, votes, escalations, and the messages.

import { post } from "./api.js";
import { hear, noticed, onReturn } from "./connection.js";
import { CouncilFeed } from "./council_feed.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { ballots, stageMarks } from "./turn_steps.js";
import { stepsOfRecord } from "./turn_model.js";
import { clockTime, dateTime, duration, firstLine, modelName, relative, roleName, tookMs } from "./words.js";

const DUTIES = { plan: "plans", refine: "refines", act: "answers", verify: "verifies", observe: "reads along" };
const ORDER = ["plan", "refine", "act", "observe", "verify"];
const PAUSE_MS = 250;
const TURNS = 12;
const LONGEST_TURN_MS = 15 * 60_000; // a turn left by a killed daemon never ends
const QUOTING = "extractive";

export class Council {
  constructor() {
    this.roles = el("div", { class: "roles" });
    this.quorum = el("p", { class: "quorum" });
    this.now = el("div", { class: "council-now" });
    this.turns = el("div", { class: "council-turns" });
    this.rows = new Map(); // turn id -> {json, node}
    this.feed = new CouncilFeed();
    this.node = el(
      "div",
      { class: "page wide" },
      el("header", { class: "page-head" }, el("h1", {}, "Council"), this.quorum),
      this.roles,
      this.now,
      el("div", { class: "columns" }, el("section", { class: "panel" }, el("h2", {}, "What is said"), this.feed.node), el("section", { class: "panel" }, el("h2", {}, "How turns went"), this.turns)),
    );
  }

  open() {
    this.stops = [hear("council", (message) => this.heard(message)), onReturn(() => this.load())];
    this.beat = setInterval(() => this.drawRoles(), 1000);
    this.load();
  }

  close() {
    for (const stop of this.stops) stop();
    clearInterval(this.beat);
    clearTimeout(this.soon);
    this.soon = null;
  }

  async load() {
    await this.refresh(true);
    this.feed.load().catch(noticed);
  }

  heard(message) {
    this.feed.add(message);
    if (message.type === "HEARTBEAT") this.beaten = { role: message.sender, at: Date.now() };
    this.late ||= message.type !== "HEARTBEAT";
    this.soon ??= setTimeout(() => {
      this.soon = null;
      this.refresh(this.late);
      this.late = false;
    }, PAUSE_MS);
  }

  async refresh(withTurns) {
    try {
      const asked = [post("/council/status", { tenant: tenant() })];
      if (withTurns) asked.push(post("/turns/list", { tenant: tenant(), limit: TURNS }));
      const [status, turns] = await Promise.all(asked);
      this.status = status;
      this.draw();
      if (turns) this.drawTurns(turns.turns);
    } catch (error) {
      noticed(error);
      if (!this.status) fill(this.quorum, error.message);
    }
    if (this.unended || this.status?.turns.length || this.status?.open_proposals.length) this.heardNothing();
  }

  /** Polls while a turn runs: stages change without an event. */
  heardNothing() {
    this.soon ??= setTimeout(() => {
      this.soon = null;
      this.refresh(this.unended);
    }, 4 * PAUSE_MS);
  }

  draw() {
    const { status } = this;
    const able = status.roles.filter((role) => role.can_vote).length;
    const quoting = status.roles.every((role) => role.kind === QUOTING);
    const verdict = status.quorum ? ["verified", "can decide"] : quoting ? ["", "quotes only"] : ["broken", "too few can vote"];
    const more = quoting ? " · no role has a model that writes; set [roles] to have one" : status.quorum ? "" : " · answers continue and say so; actions and governance wait";
    fill(this.quorum, el("span", { class: `verdict ${verdict[0]}` }, verdict[1]), ` ${able} of ${status.roles.length} can vote · depth ${status.depth}${more}`);
    this.drawRoles();
    fill(this.now, status.turns.map(running), status.open_proposals.map(proposal), status.escalations.map(escalation));
  }

  drawRoles() {
    if (this.status) fill(this.roles, this.status.roles.map((role) => this.card(role)));
  }

  card(role) {
    const busy = this.status.turns.find((turn) => turn.role === role.role);
    const beating = this.beaten?.role === role.role && Date.now() - this.beaten.at < 1500;
    const duties = [...role.stages].sort((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other)).map((stage) => DUTIES[stage] ?? stage);
    return el(
      "section",
      { class: "role", data: { role: role.role, state: role.state } },
      el("h2", {}, roleName(role.role), el("span", { class: `state ${role.state}` }, busy ? `at ${busy.stage}` : role.state)),
      el("p", { class: "role-model" }, role.kind === QUOTING ? "no model, only quotes" : modelName(role.model), role.kind && ![role.model, QUOTING].includes(role.kind) ? ` · ${role.kind}` : ""),
      el("p", { class: "role-duties" }, `${duties.join(", ")}${role.can_vote ? " · votes" : " · cannot vote"}`),
      el("p", { class: `beat ${beating ? "beating" : ""}` }, el("span", { class: "heart", "aria-hidden": "true" }, "♥"), role.last_heartbeat ? ` ${relative(role.last_heartbeat)}` : " never heard"),
      role.reason ? el("p", { class: "note" }, role.reason) : null,
    );
  }

  /** Unchanged rows keep their element, and so stay expanded. */
  drawTurns(turns) {
    const rows = new Map(turns.map((turn) => [turn.turn_id, this.rows.get(turn.turn_id)]));
    for (const turn of turns) {
      const json = JSON.stringify(turn);
      if (rows.get(turn.turn_id)?.json !== json) rows.set(turn.turn_id, { json, node: turnRow(turn) });
    }
    this.rows = rows;
    this.unended = turns.some((turn) => !turn.ended_at && Date.now() - Date.parse(turn.started_at) < LONGEST_TURN_MS);
    fill(this.turns, turns.length ? [...rows.values()].map(({ node }) => node) : el("p", { class: "quiet" }, "No turn yet. Ask something in the chat."));
  }
}

function running(turn) {
  return el("p", { class: "now-row" }, el("span", { class: "pulse", "aria-hidden": "true" }), `${roleName(turn.role)} is at ${turn.stage} (${turn.depth} depth) in `, el("a", { href: `#/chat/${encodeURIComponent(turn.session_id)}` }, "this conversation"));
}

function proposal(open) {
  return el("p", { class: "now-row" }, el("strong", {}, "Voted on now: "), firstLine(open.subject, 200), ` · ${open.ballots} of 3 ballots, open until ${clockTime(open.closes_at)}`);
}

function escalation(record) {
  const where = record.turn_id ? el("span", { class: "quiet" }, ` · ${dateTime(record.at)}`) : null;
  const answer = record.session_id ? el("p", {}, "What you say next in its conversation answers it. ", el("a", { href: `#/chat/${encodeURIComponent(record.session_id)}` }, "Answer there")) : null;
  return el("p", { class: "now-row escalated" }, el("strong", {}, record.to === "person" ? "Needs your word: " : `${roleName(record.raised_by)} asks ${roleName(record.to)}: `), record.why, where, answer);
}

/** A turn on one line, expandable to its stages and ballots. */
function turnRow(turn) {
  const took = tookMs(turn);
  const body = el("div", {});
  const open = () => {
    if (!row.open || body.childNodes.length) return;
    fill(body, turn.depth_why ? el("p", { class: "quiet" }, turn.depth_why) : null, stageTable(turn), turn.votes.map(ballots), turn.escalations.map(escalation), turn.notes.map((note) => el("p", { class: "note" }, note)), el("p", {}, button("Open the conversation", () => (location.hash = `#/chat/${encodeURIComponent(turn.session_id)}`), { class: "small" })));
  };
  const row = el(
    "details",
    { class: "turn-row", ontoggle: open },
    el("summary", {}, el("span", { class: "turn-message" }, firstLine(turn.message, 110)), el("span", { class: "turn-facts" }, el("span", { class: "stage-marks" }, stageMarks({ steps: stepsOfRecord(turn) })), el("span", {}, `${turn.status.toLowerCase().replaceAll("_", " ")} · ${duration(took)} · ${relative(turn.started_at)}`))),
    body,
  );
  return row;
}

function stageTable(turn) {
  const head = ["Stage", "Role", "Verdict", "Time", "Read", "Written"];
  const rows = turn.stages.map((stage) => [stage.stage, roleName(stage.role), stage.verdict.replaceAll("_", " "), duration(stage.ms), String(stage.prompt_tokens), String(stage.tokens)]);
  return el(
    "table",
    { class: "table" },
    el("caption", { class: "unseen" }, "Stages of this turn"),
    el("thead", {}, el("tr", {}, head.map((name, column) => el("th", { scope: "col", class: column > 2 ? "number" : null }, name)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, column) => el("td", { class: column > 2 ? "number" : null }, cell))))),
  );
}
