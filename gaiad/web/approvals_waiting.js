// Pending commands and recent decisions, for the badge in the sidebar and for turns that ended in a command.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { hear, noticed, onReturn } from "./connection.js";
import { tenant } from "./state.js";

const SHOWN = 50; // newest commands whose turns show the decision
let turns = new Set();
let decided = new Map(); // turn id -> its decided approval

/** Whether the turn ended in a command that is still pending. */
export const waitsFor = (turnId) => turns.has(turnId);

/** The decided approval of the turn's command; undefined if pending or old. */
export const decidedOf = (turnId) => decided.get(turnId);

/** Calls `onCount` with the number of pending commands, now and on each change. */
export function watchApprovals(onCount) {
  const count = async () => {
    try {
      const [{ approvals }, all] = await Promise.all([post("/approvals/list", { tenant: tenant() }), post("/approvals/list", { tenant: tenant(), all: true, limit: SHOWN })]);
      decided = new Map(all.approvals.filter((one) => one.state !== "waiting").map((one) => [one.turn_id, one]));
      turns = new Set(approvals.map((one) => one.turn_id));
      onCount(approvals.length);
    } catch (error) {
      noticed(error);
    }
  };
  hear("approvals", (approval) => {
    if (approval.state === "waiting") announce(`A command waits for your approval: ${approval.command.join(" ")}`);
    count();
  });
  onReturn(count);
  count();
}
