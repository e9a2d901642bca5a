// Highlights a span of Markdown after rendering: sentinels at its ends survive rendering and are then replaced by marks.

import { el } from "./dom.js";

const [OPEN, CLOSE] = ["\ufdd0", "\ufdd1"]; // noncharacters, which text never contains
const MARKUP_BEFORE = /^(?:\s*```[^\n]*\n|\s+|[-*•>]\s+|#{1,6}\s+|\d{1,4}[.)]\s+|\||[*`]+)/;
const MARKUP_AFTER = /(?:\n\s*```|[\s*`|])$/;

/**
 * Renders `text` into `node` with `draw(text)` and highlights characters `start` to `end` with class `kind`. Returns false, without
 * a highlight, when rendering lost an end, for example within a link's address.
 */
export function drawMarked(node, text, { start, end }, kind, draw) {
  const [from, to] = withoutMarkup(text, start, end);
  draw(text.slice(0, from) + OPEN + text.slice(from, to) + CLOSE + text.slice(to));
  const pieces = piecesBetween(node);
  if (!pieces) {
    draw(text);
    return false;
  }
  for (const piece of pieces) {
    const mark = el("mark", { class: kind });
    piece.replaceWith(mark);
    mark.append(piece);
  }
  return true;
}

/** The span without list markers, fences and emphasis at its ends, which a sentinel would break. */
function withoutMarkup(text, start, end) {
  let [from, to] = [start, end];
  const atLineStart = () => /(^|\n)[\s>]*$/.test(text.slice(Math.max(0, from - 80), from));
  for (let found; from < to && (found = MARKUP_BEFORE.exec(text.slice(from, to))); from += found[0].length) {
    if (!atLineStart() && /^[-#>\d•]/.test(found[0])) break; // a number or a dash within a line
  }
  for (let found; from < to && (found = MARKUP_AFTER.exec(text.slice(from, to))); ) to -= found[0].length;
  return from < to ? [from, to] : [start, end];
}

/** Removes the sentinels and returns the text nodes between them; null when one is missing. */
function piecesBetween(node) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const pieces = [];
  let inside = false;
  while (walker.nextNode()) {
    let text = walker.currentNode;
    const open = text.data.indexOf(OPEN);
    if (open >= 0) {
      text.deleteData(open, 1);
      if (open) walker.currentNode = text = text.splitText(open);
      inside = true;
    }
    const close = text.data.indexOf(CLOSE);
    if (close >= 0) {
      text.deleteData(close, 1);
      if (close < text.data.length) text.splitText(close);
      if (!inside) return null;
      return [...pieces, text].filter((piece) => piece.data.trim());
    }
    if (inside && !text.parentElement.closest("button")) pieces.push(text); // not the label of a copy button
  }
  return null;
}
