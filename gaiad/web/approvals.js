// Commands waiting for approval: the exact arguments, their hash and expiry; approve or deny.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { hear, noticed, onReturn } from "./connection.js";
import { button, el, fill, icon } from "./dom.js";
import { tenant } from "./state.js";
import { dateTime, duration, relative, roleName } from "./words.js";

const SHOWN = 30;

export class Approvals {
  constructor() {
    this.refusal = el("p", { class: "problem", hidden: true });
    this.waiting = el("div", { class: "approvals" });
    this.decided = el("div", { class: "approvals decided" });
    this.node = el(
      "div",
      { class: "page" },
      el("header", { class: "page-head" }, el("h1", {}, "Approvals"), el("p", { class: "quiet" }, "A command runs only when you approve exactly these arguments, and then in a sandbox without a network.")),
      this.refusal,
      this.waiting,
      el("h2", { class: "label decided-label" }, "Decided"),
      this.decided,
    );
    this.asked = new Set(); // ids for which "approve" was pressed once
    this.problems = new Map();
  }

  /** With `turn` in the address, the decision about that turn's command is expanded. */
  open(query) {
    this.wanted = query.get("turn");
    this.shown = "";
    this.stops = [hear("approvals", () => this.load()), onReturn(() => this.load())];
    this.ticks = setInterval(() => this.tick(), 1000);
    this.load();
  }

  close() {
    for (const stop of this.stops) stop();
    clearInterval(this.ticks);
    this.asked.clear();
  }

  async load() {
    try {
      const [{ approvals, refusal }, all] = await Promise.all([post("/approvals/list", { tenant: tenant() }), post("/approvals/list", { tenant: tenant(), all: true, limit: SHOWN })]);
      this.refusal.hidden = !refusal;
      this.refusal.textContent = refusal ? `Nothing can be run: ${refusal}` : "";
      const now = JSON.stringify([approvals, all, [...this.problems]]);
      if (now === this.shown) return; // keeps what is expanded or focused
      this.shown = now;
      this.found = approvals;
      this.drawWaiting();
      const past = all.approvals.filter((one) => one.state !== "waiting");
      const open = new Set([...this.decided.querySelectorAll("details[open]")].map((node) => node.dataset.id));
      const asked = past.find((one) => one.turn_id === this.wanted && one.state !== "running");
      fill(this.decided, past.length ? past.map((one) => decidedCard(one, one === asked || open.has(one.id))) : el("p", { class: "quiet" }, "Nothing was decided yet."));
      if (!asked) return;
      this.wanted = null;
      this.decided.querySelector(`[data-id="${CSS.escape(asked.id)}"]`).scrollIntoView({ block: "nearest" });
    } catch (error) {
      noticed(error);
      if (!this.found) fill(this.waiting, el("p", { class: "problem" }, error.message));
    }
  }

  drawWaiting() {
    fill(this.waiting, this.found.length ? this.found.map((one) => this.card(one)) : el("p", { class: "quiet empty" }, icon("approvals"), "No command waits for you."));
  }

  card(approval) {
    const problem = this.problems.get(approval.id);
    return el(
      "article",
      { class: `approval risk-${approval.risk_level}`, "aria-label": `Command ${approval.command.join(" ")}`, data: { id: approval.id } },
      argv(approval.command),
      el("p", { class: "approval-why" }, `${roleName(approval.proposed_by)}: ${approval.why || "no reason given"}`),
      el(
        "dl",
        { class: "facts" },
        fact("SHA-256", el("code", { class: "hash" }, approval.sha256)),
        fact("Risk", { low: "low", med: "medium", high: "high" }[approval.risk_level] ?? approval.risk_level),
        fact("Votes", approval.votes.map((vote) => el("span", { class: `vote-chip ${vote.vote}`, title: vote.reason }, `${roleName(vote.role)} ${vote.vote}`))),
        fact("Expires", el("time", { class: "expires", datetime: approval.expires_at, title: dateTime(approval.expires_at) }, relative(approval.expires_at))),
        fact("From", el("a", { href: `#/chat/${encodeURIComponent(approval.session_id)}` }, "the conversation"), ` ${relative(approval.asked_at)}`),
      ),
      approval.redacted || approval.votes.some((vote) => vote.redacted) ? el("p", { class: "note" }, "Of what was said about it, words were left out on this channel; the arguments are exact.") : null,
      problem ? el("p", { class: "problem", role: "alert" }, problem) : null,
      this.asked.has(approval.id)
        ? el("p", { class: "decide" }, el("strong", {}, `Run it now, under hash ${approval.sha256.slice(0, 12)}…?`), button("Yes, run it", () => this.approve(approval), { class: "danger" }), button("Not yet", () => this.ask(approval, false)))
        : el("p", { class: "decide" }, button("Approve…", () => this.ask(approval, true), { class: "strong" }), button("Deny", () => this.deny(approval))),
    );
  }

  ask(approval, asked) {
    if (asked) this.asked.add(approval.id);
    else this.asked.delete(approval.id);
    this.drawWaiting();
    this.waiting.querySelector(`[data-id="${CSS.escape(approval.id)}"] .decide button`)?.focus();
  }

  approve(approval) {
    this.wanted = approval.turn_id; // its output is shown as soon as it arrives
    return this.decide(approval, "/approvals/approve", { id: approval.id, sha256: approval.sha256, wait: false, tenant: tenant() }, "Approved; it runs now.");
  }

  deny(approval) {
    return this.decide(approval, "/approvals/deny", { id: approval.id, tenant: tenant() }, "Denied; nothing was run.");
  }

  async decide(approval, path, body, words) {
    this.asked.delete(approval.id);
    try {
      await post(path, body);
      this.problems.delete(approval.id);
      announce(words);
    } catch (error) {
      noticed(error);
      this.problems.set(approval.id, error.message);
    }
    await this.load();
  }

  tick() {
    for (const node of this.waiting.querySelectorAll(".expires")) node.textContent = relative(node.dateTime);
  }
}

/** Each argument in its own frame, so that spaces and quotes cannot hide anything. */
function argv(command) {
  return el("p", { class: "argv" }, command.map((argument, number) => el("code", { class: number ? "" : "program" }, visible(argument))));
}

/** Empty arguments, unprintable characters and spaces at the ends are shown as visible signs. */
export function visible(argument) {
  if (argument === "") return "∅";
  return argument
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length))
    .replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function decidedCard(approval, open) {
  const { execution } = approval;
  const how = execution ? ` · ${execution.stopped || `status ${execution.exit_status}`} · ${duration(execution.took_ms)}` : "";
  return el(
    "details",
    { class: "approval-past", open, data: { id: approval.id } },
    el("summary", {}, el("span", { class: `state ${approval.state}` }, approval.state), argv(approval.command), el("span", { class: "quiet" }, `${relative(approval.changed_at)}${how}`)),
    approval.note ? el("p", {}, approval.note) : null,
    execution?.output ? el("pre", { class: "code", tabindex: "0" }, execution.output) : null,
    el("p", { class: "quiet" }, "SHA-256 ", el("code", { class: "hash" }, approval.sha256), approval.work ? ` · ran in ${approval.work}` : ""),
  );
}
