// Marks a span of Markdown in what is drawn from it: the ends are signed, the text is drawn, and what lies between is marked.

import { el } from "./dom.js";

const [OPEN, CLOSE] = ["\ufdd0", "\ufdd1"]; // noncharacters: no text that is exchanged has them
const MARKUP_BEFORE = /^(?:\s*```[^\n]*\n|\s+|[-*•>]\s+|#{1,6}\s+|\d{1,4}[.)]\s+|\||[*`]+)/;
const MARKUP_AFTER = /(?:\n\s*```|[\s*`|])$/;

/**
 * Draw `text` with `draw(text)` into `node` and mark its characters `start` to `end`, as `kind`. False when the ends were lost
 * in drawing, for example within the address of a link; nothing is marked then.
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

/** The span without list signs, fences and emphasis at its ends: what makes a block or a style must stay in its place. */
function withoutMarkup(text, start, end) {
  let [from, to] = [start, end];
  const atLineStart = () => /(^|\n)[\s>]*$/.test(text.slice(Math.max(0, from - 80), from));
  for (let found; from < to && (found = MARKUP_BEFORE.exec(text.slice(from, to))); from += found[0].length) {
    if (!atLineStart() && /^[-#>\d•]/.test(found[0])) break; // a number or a dash within a line
  }
  for (let found; from < to && (found = MARKUP_AFTER.exec(text.slice(from, to))); ) to -= found[0].length;
  return from < to ? [from, to] : [start, end];
}

/** The text nodes between the signs, which are taken out; null when one is missing. */
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
    if (inside) pieces.push(text);
  }
  return null;
}
