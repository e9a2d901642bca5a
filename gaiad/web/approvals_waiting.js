// Which commands wait for the person now, for the badge in the side and the turns that ended in one.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { hear, noticed, onReturn } from "./connection.js";
import { tenant } from "./state.js";

let turns = new Set();

/** Whether the turn ended in a command that still waits. */
export const waitsFor = (turnId) => turns.has(turnId);

/** How many wait, told to `onCount` at once and whenever it changes. */
export function watchApprovals(onCount) {
  const count = async () => {
    try {
      const { approvals } = await post("/approvals/list", { tenant: tenant() });
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
