// Unsent messages, kept across reloads, each under its idempotency key.

import { keep, outboxKey, recall } from "./state.js";

/** {key, session, text, options, state}: "sending", or "waiting" while the daemon is unreachable. */
export const unsent = () => recall(outboxKey(), []);

export function putIn(entry) {
  keep(outboxKey(), [...unsent().filter((one) => one.key !== entry.key), entry]);
}

export function takeOut(key) {
  keep(outboxKey(), unsent().filter((one) => one.key !== key)); // prettier-ignore
}

/** A new idempotency key. */
export const newKey = () => `page-${crypto.randomUUID()}`;
