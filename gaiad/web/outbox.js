// Messages that were typed and are not with the daemon yet: kept over reloads, each under the key it will be sent with.

import { keep, outboxKey, recall } from "./state.js";

/** {key, session, text, options, state}: "sending" once the person said so, "waiting" after it could not be reached. */
export const unsent = () => recall(outboxKey(), []);

export function putIn(entry) {
  keep(outboxKey(), [...unsent().filter((one) => one.key !== entry.key), entry]);
}

export function takeOut(key) {
  keep(outboxKey(), unsent().filter((one) => one.key !== key)); // prettier-ignore
}

/** A key that makes sending twice the same as sending once. */
export const newKey = () => `page-${crypto.randomUUID()}`;
