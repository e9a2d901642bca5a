// Two buttons beside a source (useful for the question, or not: search ranks by it) and below an answer (good, or not:
// the council's reflection reads it). Pressing again takes it back.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill, icon } from "./dom.js";
import { tenant } from "./state.js";

const MOST_CHARACTERS = 4000; // of a question, the daemon's limit
const WORDS = { useful: [() => "✓", "Useful"], "not-useful": [() => "✗", "Not useful"] };
const RATINGS = { up: [() => icon("up"), "Good answer"], down: [() => icon("down"), "Not a good answer"] };

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
  const about = { packet_id: packetId, query: questionOf(turn), tenant: tenant() };
  return pair(WORDS, `packet ${packetId}`, "for this question", {
    given: () => turn.verdicts[packetId],
    give: (verdict) => post("/feedback", { ...about, verdict }).then(() => (turn.verdicts[packetId] = verdict)),
    take: () => post("/feedback/reset", about).then(() => delete turn.verdicts[packetId]),
  });
}

/** The buttons for a turn's answer; `turn.rating` says which is pressed. */
export function ratingButtons(turn) {
  const rate = (rating) => post("/turns/rate", { turn: turn.turnId, rating, tenant: tenant() }).then(() => (turn.rating = rating));
  return pair(RATINGS, "this answer", "; the council learns from it", { given: () => turn.rating, give: rate, take: () => rate("") });
}

/** Two buttons of which one at most is pressed; pressing it again takes it back. */
function pair(words, what, why, { given, give, take }) {
  const node = el("span", { class: "verdicts" });
  const draw = () => fill(node, Object.keys(words).map((verdict) => one(verdict)));
  const one = (verdict) => {
    const [mark, said] = words[verdict];
    return button(mark(), () => say(verdict), { class: "verdict", "aria-pressed": String(given() === verdict), "aria-label": `${said}: ${what}`, title: `${said} ${why}`.replace(" ;", ";") });
  };
  const say = async (verdict) => {
    const taken = given() === verdict;
    try {
      await (taken ? take() : give(verdict));
      announce(taken ? "Taken back." : `${words[verdict][1]}: noted.`);
    } catch (error) {
      noticed(error);
      announce(error.message, { urgent: true });
    }
    draw();
    node.querySelector(`[aria-label^="${words[verdict][1]}:"]`)?.focus();
  };
  draw();
  return node;
}
