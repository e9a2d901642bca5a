// Shows the text of an answer: paragraphs, lists, code and citations, built as elements; unchanged blocks stay.

import { el } from "./dom.js";

const INLINE = /\[Packet:\s*([^\]\n]{1,200})\]|`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])/g;
const BULLET = /^\s{0,3}[-*•]\s+/;
const NUMBER = /^\s{0,3}(\d{1,4})[.)]\s+/;
const HEADING = /^(#{1,4})\s+/;
const QUOTE = /^>\s?/;
const FENCE = /^\s{0,3}```/;

/** Show `text` in `node`. Blocks that are as they were are left alone, so that a selection survives the stream. */
export function showText(node, text, onCite) {
  const blocks = split(text);
  const before = node.shownBlocks ?? [];
  let same = 0;
  while (same < blocks.length && same < before.length && same < node.childNodes.length && blocks[same].source === before[same]) same += 1;
  while (node.childNodes.length > same) node.lastChild.remove();
  for (const block of blocks.slice(same)) node.append(drawn(block, onCite));
  node.shownBlocks = blocks.map((block) => block.source);
}

/** Blocks {kind, lines, source} of a text. */
export function split(text) {
  const blocks = [];
  let block = null;
  const end = () => {
    if (block) blocks.push({ ...block, source: `${block.kind}\n${block.lines.join("\n")}` });
    block = null;
  };
  const begin = (kind, line) => {
    if (block?.kind !== kind) end();
    block ??= { kind, lines: [] };
    block.lines.push(line);
  };
  for (const line of text.split("\n")) {
    if (block?.kind === "code") {
      if (FENCE.test(line)) end();
      else block.lines.push(line);
    } else if (FENCE.test(line)) {
      end();
      block = { kind: "code", lines: [] };
    } else if (!line.trim()) {
      if (!["bullets", "numbers"].includes(block?.kind)) end();
    } else if (HEADING.test(line)) {
      end();
      begin("heading", line);
      end();
    } else if (BULLET.test(line)) begin("bullets", line);
    else if (NUMBER.test(line)) begin("numbers", line);
    else if (QUOTE.test(line)) begin("quote", line.replace(QUOTE, ""));
    else if (["bullets", "numbers"].includes(block?.kind) && /^\s{2,}/.test(line)) block.lines.push(`\u0000${line.trim()}`);
    else begin("paragraph", line);
  }
  end();
  return blocks;
}

function drawn(block, onCite) {
  const { kind, lines } = block;
  if (kind === "code") return el("pre", { class: "code", tabindex: "0" }, el("code", {}, lines.join("\n")));
  if (kind === "heading") return el("p", { class: "heading" }, inline(lines[0].replace(HEADING, ""), onCite));
  if (kind === "quote") return el("blockquote", {}, inline(lines.join("\n"), onCite));
  if (kind === "bullets") return el("ul", {}, items(lines, BULLET).map((item) => el("li", {}, inline(item, onCite))));
  if (kind === "numbers") {
    const start = Number(NUMBER.exec(lines[0])?.[1] ?? 1);
    return el("ol", { start: start === 1 ? null : start }, items(lines, NUMBER).map((item) => el("li", {}, inline(item, onCite))));
  }
  return el("p", {}, inline(lines.join("\n"), onCite));
}

function items(lines, mark) {
  const found = [];
  for (const line of lines) {
    if (line.startsWith("\u0000") && found.length) found[found.length - 1] += `\n${line.slice(1)}`;
    else found.push(line.replace(mark, ""));
  }
  return found;
}

/** Text with its emphasis, code and citations; a citation is told the text that stands before it in its block. */
function inline(text, onCite) {
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > position) parts.push(text.slice(position, match.index));
    const [whole, packet, code, strong, stressed] = match;
    if (packet !== undefined) parts.push(citation(packet.trim(), text.slice(0, match.index), onCite));
    else if (code !== undefined) parts.push(el("code", {}, code));
    else if (strong !== undefined) parts.push(el("strong", {}, strong));
    else parts.push(el("em", {}, stressed));
    position = match.index + whole.length;
  }
  if (position < text.length) parts.push(text.slice(position));
  return parts;
}

function citation(packetId, before, onCite) {
  return el(
    "button",
    { type: "button", class: "cite", title: `Open packet ${packetId}`, "aria-label": `Packet ${packetId}: open it at this passage`, onclick: () => onCite(packetId, { said: before }) },
    `[Packet: ${packetId}]`,
  );
}
