// Why a hit ranks where it does: retriever ranks, score parts, matched words.

import { el } from "./dom.js";
import { meter } from "./charts.js";

const RETRIEVERS = { bm25: "words (BM25)", dense: "meaning (cosine)", page_id: "named", metadata: "metadata" };
const PARTS = {
  bm25: "its words",
  window: "words of the pages around it",
  before: "words of the pages before it",
  dense: "its meaning",
  near: "the meaning of pages beside it",
  session: "words of its session",
  session_dense: "the meaning of its session",
  name: "a person named",
  substance: "how much it says",
  time: "the time asked about",
  match: "model, topic or tag preferred",
};
const WORD = /[\p{L}\p{N}]+/gu;

export function whyThisHit(hit) {
  const { retrievers, boosts, matched_terms: terms } = hit.explanation;
  const parts = Object.entries(boosts).sort((one, other) => other[1] - one[1]);
  const ranks = Object.entries(retrievers).map(([name, { rank, score }]) => `rank ${rank} by ${RETRIEVERS[name] ?? name} (${score.toFixed(2)})`);
  return el(
    "details",
    { class: "why" },
    el("summary", {}, "Why this hit"),
    el("p", {}, `Score ${hit.score.toFixed(2)}. `, ranks.length ? `${capital(ranks.join("; "))}.` : "Found beside other hits."),
    parts.length
      ? el("table", { class: "table why-parts" }, el("caption", { class: "unseen" }, "What each part added to the score"), el("tbody", {}, parts.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, PARTS[name] ?? name.replaceAll("_", " ")), el("td", {}, meter(value, hit.score, name)), el("td", { class: "number" }, `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`)))))
      : null,
    terms.length ? el("p", {}, "Words that matched: ", terms.map((term) => [el("code", {}, term), " "]).flat()) : null,
  );
}

/** The text with matched words highlighted. */
export function marked(text, terms) {
  const wanted = terms.map((term) => term.toLowerCase()).filter((term) => term.length > 1);
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(WORD)) {
    const word = match[0].toLowerCase();
    if (!wanted.some((term) => word === term || (term.length > 3 && word.startsWith(term.replace(/(e|y|i)$/, "")) && word.length - term.length < 5))) continue;
    parts.push(text.slice(position, match.index), el("mark", {}, match[0]));
    position = match.index + match[0].length;
  }
  return [...parts, text.slice(position)];
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
