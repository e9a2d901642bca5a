// Two buttons beside a source: it was useful for what was asked, or not. Search ranks by it; pressed again it is taken back.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";

const MOST_CHARACTERS = 4000; // of a question, as the daemon takes them
const WORDS = { useful: ["✓", "Useful"], "not-useful": ["✗", "Not useful"] };

/** The buttons for one packet of a turn; `turn.verdicts` keeps what was pressed while the page is open. */
export function verdictButtons(turn, packetId) {
  const node = el("span", { class: "verdicts" });
  const draw = () => fill(node, Object.keys(WORDS).map((verdict) => one(verdict)));
  const one = (verdict) => {
    const [mark, words] = WORDS[verdict];
    return button(mark, () => say(verdict), { class: "verdict", "aria-pressed": String(turn.verdicts[packetId] === verdict), "aria-label": `${words}: packet ${packetId}`, title: `${words} for this question` });
  };
  const say = async (verdict) => {
    const taken = turn.verdicts[packetId] === verdict;
    const about = { packet_id: packetId, query: turn.message.slice(0, MOST_CHARACTERS), tenant: tenant() };
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
