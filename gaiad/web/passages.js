// Finds the passage that an answer quotes in a packet's pages, or else the nearest sentence. Pure.

const QUOTED = /[“"„«]([^“”"„«»]{8,})[”"“»]/g;
const OUTERMOST = /[“"„«]([\s\S]{8,})[”"“»]/;
const SENTENCE = /[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)/g;
const WORD = /[\p{L}\p{N}]{3,}/gu;
const TOKEN = /```[\w+-]*|(?<![^\s"“„«#>*_-])\d{1,4}[.)](?=[\s*])|([\p{L}\p{N}]+)/gu; // a word; list numbers and code languages, which rendering removes, are skipped
const FEWEST_LETTERS = 8; // of a passage that is matched verbatim
const LEAST_SHARED = 0.34;

/**
 * {page, start, end, exact} in `pages` for a passage, or null; with `whole` when the passage is an entire page.
 *
 * `passage` is {page_id, start, end, quote} (characters of a page, from a citation), {page_id} alone, or {said}: the text before
 * a citation, searched for its quoted parts first; `instead` is the fallback passage.
 */
export function findPassage(pages, passage) {
  if (!passage) return null;
  const named = pages.find((page) => page.page_id === passage.page_id);
  if (named && passage.end !== undefined && named.redacted) return inScrubbed(named, passage);
  if (named && passage.end !== undefined) {
    const characters = [...named.text];
    const start = characters.slice(0, passage.start).join("").length;
    return { page: named, start, end: start + characters.slice(passage.start, passage.end).join("").length, exact: true };
  }
  if (named) return { page: named, start: 0, end: named.text.length, exact: true, whole: true };
  return (passage.said ? ofSaid(pages, passage.said) : null) ?? findPassage(pages, passage.instead);
}

/** Joins overlapping pages; `places` maps each page id to the start of its text. */
export function joined(pages) {
  const found = [];
  for (const page of pages) {
    const last = found.at(-1);
    const shared = last?.section === page.section && last.speaker === page.speaker ? sharedEnd(last.text, page.text, last.end - page.start) : 0;
    if (shared) {
      last.places.set(page.page_id, last.text.length - shared);
      Object.assign(last, { text: last.text + page.text.slice(shared), end: page.end });
    } else found.push({ ...page, places: new Map([[page.page_id, 0]]) });
  }
  return found;
}

/** Length of the overlap between the end of one text and the start of the next, at most `most`. */
function sharedEnd(before, after, most) {
  for (let size = Math.min(after.length, most); size > 0; size -= 1) if (before.endsWith(after.slice(0, size))) return size;
  return 0;
}

function ofSaid(pages, said) {
  const claim = claimOf(said);
  const last = (claim.match(SENTENCE) ?? [claim]).at(-1).trim();
  const quotes = [...claim.matchAll(QUOTED)].map((match) => match[1]).reverse();
  const whole = OUTERMOST.exec(claim)?.[1].split("…").sort((a, b) => b.length - a.length)[0];
  for (const words of [whole, ...quotes, claim, last]) {
    const found = verbatim(pages, words);
    if (found) return found;
  }
  return nearest(pages, last) ?? nearest(pages, claim);
}

/** Offsets are wrong in a redacted page, so the equally redacted quote is searched for. */
function inScrubbed(page, { quote, start }) {
  let best = -1;
  for (let at = quote ? page.text.indexOf(quote) : -1; at >= 0; at = page.text.indexOf(quote, at + 1)) {
    if (best < 0 || Math.abs(at - start) < Math.abs(best - start)) best = at;
  }
  if (best >= 0) return { page, start: best, end: best + quote.length, exact: true };
  return verbatim([page], quote) ?? nearest([page], quote) ?? { page, start: 0, end: page.text.length, exact: true, whole: true };
}

/** The text between the previous citation and this one, without emphasis. */
function claimOf(said) {
  const parts = said.split(/\[Packet:[^\]\n]*\]/).map((part) => part.replace(/[*`]/g, "").trim());
  return parts.filter((part) => part.length >= 8).at(-1) ?? "";
}

/** Where these words follow each other in a page, ignoring punctuation and white space. */
function verbatim(pages, words) {
  const wanted = tokens(words ?? "").map(({ word }) => word);
  if (wanted.join("").length < FEWEST_LETTERS) return null;
  for (const page of pages) {
    const found = tokens(page.text);
    const at = placeOf(wanted, found.map(({ word }) => word)); // prettier-ignore
    if (at >= 0) return { page, start: found[at].start, end: found[at + wanted.length - 1].end, exact: true };
  }
  return null;
}

function tokens(text) {
  return [...text.matchAll(TOKEN)].filter((match) => match[1]).map((match) => ({ word: match[0].toLowerCase(), start: match.index, end: match.index + match[0].length }));
}

function placeOf(wanted, words) {
  for (let at = words.indexOf(wanted[0]); at >= 0; at = words.indexOf(wanted[0], at + 1)) {
    if (wanted.every((word, number) => words[at + number] === word)) return at;
  }
  return -1;
}

/** The citation whose quote `said` ends with, else contains, else quotes a part of; undefined when none. */
export function citationOf(said, citations) {
  const plain = (text) => ` ${tokens(text).map(({ word }) => word).join(" ")} `; // prettier-ignore
  const text = plain(said);
  const quoted = citations.map((one) => [one, plain(one.quote)]).filter(([, quote]) => quote.trim());
  const claim = plain(OUTERMOST.exec(claimOf(said))?.[1] ?? claimOf(said));
  const fits = [([, quote]) => text.endsWith(quote), ([, quote]) => text.includes(quote), ([, quote]) => claim.trim() && quote.includes(claim)];
  return fits.map((fit) => quoted.findLast(fit)?.[0]).find(Boolean);
}

function nearest(pages, claim) {
  const wanted = wordsOf(claim);
  if (wanted.size < 3) return null;
  let best = null;
  for (const page of pages) {
    for (const match of page.text.matchAll(SENTENCE)) {
      const words = wordsOf(match[0]);
      const shared = [...words].filter((word) => wanted.has(word)).length;
      const score = shared / Math.sqrt(wanted.size * Math.max(words.size, 1));
      if (shared >= 3 && score > (best?.score ?? LEAST_SHARED)) {
        const lead = match[0].length - match[0].trimStart().length;
        best = { score, page, start: match.index + lead, end: match.index + match[0].trimEnd().length, exact: false };
      }
    }
  }
  return best && { page: best.page, start: best.start, end: best.end, exact: false };
}

const wordsOf = (text) => new Set((text.toLowerCase().match(WORD) ?? []).map((word) => word.replace(/(ing|ed|es|s)$/, "")));
