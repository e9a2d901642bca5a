// Which commands wait for the person and what became of others, for the badge in the side and the turns that ended in one.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { hear, noticed, onReturn } from "./connection.js";
import { tenant } from "./state.js";

const SHOWN = 50; // newest commands whose turns show what became of them
let turns = new Set();
let decided = new Map(); // turn id -> its approval, which does not wait any more

/** Whether the turn ended in a command that still waits. */
export const waitsFor = (turnId) => turns.has(turnId);

/** The approval of the turn's command once it does not wait any more; undefined for one that is long ago. */
export const decidedOf = (turnId) => decided.get(turnId);

/** How many wait, told to `onCount` at once and whenever it changes. */
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
