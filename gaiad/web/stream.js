// Server-sent events over fetch: resumes after the last id, and disconnects in hidden tabs.
//
// EventSource hides why it failed and holds one of the browser's six connections in every hidden tab.

import { reach, Refused } from "./api.js";

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8000;
const SILENCE_MS = 40000; // the daemon sends something at least every 15 s
const HIDDEN_MS = 30000;

/** The events of one response, as {name, id, data}. */
export async function* eventsOf(response, onBytes = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { name: "message", id: null, data: [] };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (event.data.length) yield { name: event.name, id: event.id, data: JSON.parse(event.data.join("\n")) };
        event = { name: "message", id: null, data: [] };
      } else readField(event, line);
    }
  }
}

function readField(event, line) {
  const colon = line.indexOf(":");
  const field = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (field === "event") event.name = value;
  else if (field === "data") event.data.push(value);
  else if (field === "id") event.id = value;
}

/**
 * Follows `path` until `onEvent` returns true, `stop` is called or the daemon refuses.
 *
 * `onState` is called with "open", "away" (and the time of the next try) or "refused" (and the error).
 */
export function follow(path, { onEvent, onState = () => {}, lastId = null }) {
  const run = new Following(path, onEvent, onState, lastId);
  run.loop();
  return run;
}

class Following {
  constructor(path, onEvent, onState, lastId) {
    this.path = path;
    this.onEvent = onEvent;
    this.onState = onState;
    this.lastId = lastId;
    this.ended = false;
    this.wake = () => {};
    this.seen = () => this.looked();
    document.addEventListener("visibilitychange", this.seen);
  }

  stop() {
    this.ended = true;
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.hiding);
    this.broken?.abort();
    this.wake();
  }

  /** Retries now instead of after the pause. */
  now() {
    this.wake();
  }

  async loop() {
    let pause = FIRST_PAUSE_MS;
    while (!this.ended) {
      if (document.hidden && this.let_go) await this.sleep(2 ** 30);
      if (this.ended) return;
      try {
        if (await this.read(() => (pause = FIRST_PAUSE_MS))) return this.stop();
      } catch (error) {
        if (this.ended) return;
        if (error instanceof Refused && !error.away && error.status < 500) {
          this.stop();
          return this.onState("refused", error);
        }
      }
      if (this.ended || (document.hidden && this.let_go)) continue;
      this.onState("away", { nextTryAt: Date.now() + pause });
      await this.sleep(pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  async read(wentWell) {
    this.broken = new AbortController();
    const headers = { Accept: "text/event-stream", "X-Gaiad": "page" };
    if (this.lastId !== null) headers["Last-Event-ID"] = this.lastId;
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => this.broken.abort(), SILENCE_MS);
    };
    heard();
    try {
      const response = await reach(this.path, { headers, signal: this.broken.signal });
      wentWell();
      this.onState("open");
      for await (const event of eventsOf(response, heard)) {
        if (event.id !== null) this.lastId = event.id;
        if (this.onEvent(event)) return true;
        if (this.ended) return true;
      }
    } finally {
      clearTimeout(silence);
    }
    return false;
  }

  looked() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.let_go = true;
        this.broken?.abort();
      }, HIDDEN_MS);
    } else {
      this.let_go = false;
      this.wake();
    }
  }

  sleep(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
