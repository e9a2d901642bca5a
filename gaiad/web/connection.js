// The connection to the daemon: one event stream, its state, and the banner shown when it is down.

import { announce } from "./announce.js";
import { button, el, fill } from "./dom.js";
import { follow } from "./stream.js";
import { tenant } from "./state.js";

const listeners = new Map(); // kind -> functions of an event's data
const returns = new Set(); // called when the daemon is back
let stream = null;
let state = "connecting";
let ticking = 0;

/** Subscribes to events of one kind (`council`, `approvals`, `jobs`); returns the unsubscribe function. */
export function hear(kind, listener) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(listener);
  return () => listeners.get(kind).delete(listener);
}

export function onReturn(listener) {
  returns.add(listener);
  return () => returns.delete(listener);
}

export const isAway = () => state === "away";

/** Follows the chosen tenant's events from now on. */
export function connect() {
  stream?.stop();
  stream = follow(`/events?tenant=${encodeURIComponent(tenant())}`, { onEvent: dispatch, onState: changed });
}

/** Handles a failed request: signed out, or the daemon is unreachable. */
export function noticed(error) {
  if (error.signedOut) changed("refused", error);
  else if (error.away) changed("away", { nextTryAt: Date.now() });
}

function dispatch(event) {
  if (event.name === "missed") for (const listener of returns) listener(); // reload what is shown
  else for (const listener of listeners.get(event.name) ?? []) listener(event.data.data ?? event.data);
  return false;
}

function changed(next, detail) {
  const before = state;
  if (before === "refused" && next !== "open") return;
  state = next;
  document.body.dataset.link = next;
  document.getElementById("link").dataset.state = next;
  document.getElementById("link-words").textContent = { open: "connected", away: "away", refused: "signed out", connecting: "connecting" }[next];
  clearInterval(ticking);
  if (next === "away") {
    away(detail.nextTryAt);
    if (before === "open") announce("gaiad is not answering. What you type is kept.", { urgent: true });
  } else if (next === "refused") {
    banner(`${detail.signedOut ? "Your sign-in has ended" : detail.message}. Run `, el("code", {}, "gaiad web"), " for a new link; what you typed stays here.");
    announce("Your sign-in has ended. Run gaiad web for a new link.", { urgent: true });
  } else {
    banner();
    if (before === "away") {
      announce("gaiad is back.");
      for (const listener of returns) listener();
    }
  }
}

function away(nextTryAt) {
  const words = el("span", {});
  const again = button("Try now", () => stream?.now(), { class: "small" });
  const tick = () => {
    const seconds = Math.max(0, Math.ceil((nextTryAt - Date.now()) / 1000));
    words.textContent = `gaiad is not answering. What you type is kept. ${seconds ? `Trying again in ${seconds} s. ` : "Trying again… "}`;
  };
  tick();
  ticking = setInterval(tick, 500);
  banner(words, again);
}

function banner(...words) {
  const node = document.getElementById("banner");
  node.hidden = !words.length;
  fill(node, ...words);
}
