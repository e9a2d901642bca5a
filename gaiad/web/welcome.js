// The empty conversation: questions to try from the archive's content, or an invitation to import.

import { get, post } from "./api.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";

const ANYWHERE = "What did we decide last week, and what is still open?";
const LONGEST = 80;
const NO_TITLE = /(…|\.\.\.)$|[[\]{}<>/\\_]|^\W*\w*\W*$/; // truncated, a file name, an id, or one word
const LOOKED_AT = 100; // newest packets, since chat turns among them have no topic

/** Returns its node; calls `put(words)` for the chosen question. */
export function welcome(put) {
  const tries = el("ul", {}, tryOf(ANYWHERE, put));
  const node = el("div", { class: "welcome" }, el("h2", {}, "What would you like to know?"), el("p", {}, "The answer comes from what is remembered and names its packets, and what is said here is remembered too."), tries);
  return { node, greet: () => greet(node, tries, put) };
}

/** Suggests questions about the archive's content, or an import when it is empty. */
async function greet(node, tries, put) {
  const { packets } = await get(`/status?tenant=${encodeURIComponent(tenant())}`);
  if (!packets) return void fill(node, el("h2", {}, "Nothing is remembered yet."), el("p", {}, el("a", { href: "#/archive" }, "Import your conversations"), " from ChatGPT, Claude and others. What is said here is remembered too."));
  const { packets: newest } = await post("/packets/list", { limit: LOOKED_AT, tenant: tenant() });
  const questions = questionsOn(newest);
  if (questions.length) fill(tries, questions.map((words) => tryOf(words, put)));
}

const tryOf = (words, put) => el("li", {}, button(words, () => put(words), { class: "try" }));

/** Questions that these packets, newest first, can answer. */
export function questionsOn(packets) {
  const named = packets.filter((packet) => packet.topic);
  const titled = named.filter(({ topic, dialect }) => dialect !== "note" && topic.length <= LONGEST && !NO_TITLE.test(topic));
  const [latest, earlier] = titled.length ? titled : named;
  if (!latest) return [];
  const month = latest.timestamp && new Date(latest.timestamp).toLocaleDateString("en", { month: "long", year: "numeric" });
  return [`What is “${latest.topic}” about?`, earlier && `When did we first discuss “${earlier.topic}”?`, month && `Show me all conversations from ${month}.`].filter(Boolean);
}
