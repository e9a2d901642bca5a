// Two buttons beside a source: useful for the question, or not. Search ranks by it; pressing again withdraws it.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";

const MOST_CHARACTERS = 4000; // of a question, the daemon's limit
const WORDS = { useful: ["✓", "Useful"], "not-useful": ["✗", "Not useful"] };

/** Loads earlier feedback into `turn.verdicts`; `redraw` is called with each changed turn. */
export async function recallVerdicts(turns, redraw) {
  const asked = turns.map((turn) => ({ turn, packets: [...new Set([...turn.sources, turn.also?.packet_id].filter(Boolean))] })).filter(({ packets }) => packets.length);
  if (!asked.length) return;
  const judged = asked.map(({ turn, packets }) => ({ query: questionOf(turn), packet_ids: packets }));
  const { given } = await post("/feedback/given", { judged, tenant: tenant() });
  asked.forEach(({ turn }, place) => {
    Object.assign(turn.verdicts, given[place]);
    if (Object.keys(given[place]).length) redraw(turn);
  });
}

/** The question, cut to the daemon's limit between characters. */
const questionOf = (turn) => [...turn.message].slice(0, MOST_CHARACTERS).join("");

/** The buttons for one packet of a turn; `turn.verdicts` says which is pressed. */
export function verdictButtons(turn, packetId) {
  const node = el("span", { class: "verdicts" });
  const draw = () => fill(node, Object.keys(WORDS).map((verdict) => one(verdict)));
  const one = (verdict) => {
    const [mark, words] = WORDS[verdict];
    return button(mark, () => say(verdict), { class: "verdict", "aria-pressed": String(turn.verdicts[packetId] === verdict), "aria-label": `${words}: packet ${packetId}`, title: `${words} for this question` });
  };
  const say = async (verdict) => {
    const taken = turn.verdicts[packetId] === verdict;
    const about = { packet_id: packetId, query: questionOf(turn), tenant: tenant() };
    try {
      if (taken) await post("/feedback/reset", about);
      else await post("/feedback", { ...about, verdict });
      if (taken) delete turn.verdicts[packetId];
      else turn.verdicts[packetId] = verdict;
      announce(taken ? "Taken back." : `${WORDS[verdict][1]}: noted.`);
    } catch (error) {
      noticed(error);
      announce(error.message, { urgent: true });
    }
    draw();
    node.querySelector(`[aria-label^="${WORDS[verdict][1]}:"]`)?.focus();
  };
  draw();
  return node;
}
