// Renders an answer's Markdown as elements: paragraphs, lists, tables, code, links, citations. Unchanged blocks are kept.

import { announce } from "./announce.js";
import { withCard } from "./citation_card.js";
import { button, el } from "./dom.js";
import { citationOf } from "./passages.js";

const INLINE = /\[Packet:\s*([^\]\n]{1,200})\]|`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])|\[([^\]\n]{1,200})\]\((https?:\/\/[^\s)]{1,2000})\)|(https?:\/\/[^\s<>"'\ufdd0\ufdd1]{4,2000}[^\s<>"'.,;:!?)\]\ufdd0\ufdd1])/g;
const BULLET = /^\s{0,3}[-*•]\s+/;
const NUMBER = /^\s{0,3}(\d{1,4})[.)]\s+/;
const HEADING = /^(#{1,4})\s+/;
const QUOTE = /^>\s?/;
const FENCE = /^\s{0,3}```/;
const ROW = /^\s{0,3}\|.*\|\s*$/;
const RULE = /^\s{0,3}\|[\s:|-]+\|\s*$/;
const LISTS = ["bullets", "numbers"];

/**
 * Renders `text` in `node`. Unchanged blocks keep their elements, so that a selection survives streaming.
 *
 * `onCite(packetId, passage)` opens a packet; `cited()` returns the answer's citations or a promise of them, on demand. If `ids`
 * is given, only those packets are rendered as citations.
 */
export function showText(node, text, onCite, cited = () => [], ids = null) {
  const blocks = split(text).map((block) => ({ ...block, source: `${ids ? JSON.stringify(ids) : ""}${block.source}` }));
  const before = node.shownBlocks ?? [];
  node.marks ??= new Map(); // packet id -> its number in this answer
  let same = 0;
  while (same < blocks.length && same < before.length && same < node.childNodes.length && blocks[same].source === before[same]) same += 1;
  while (node.childNodes.length > same) node.lastChild.remove();
  blocks.slice(same).forEach((block, number) => {
    const before = blocks.slice(0, same + number).map(({ lines }) => lines.join("\n")).join("\n"); // prettier-ignore
    node.append(drawn(block, { onCite, cited, ids, marks: node.marks, before }));
  });
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
    block ??= { kind, lines: [], indent: indentOf(line) };
    block.lines.push(line);
  };
  for (const line of text.split("\n")) {
    if (block?.kind === "code") {
      if (FENCE.test(line)) end();
      else block.lines.push(line);
    } else if (FENCE.test(line)) {
      end();
      block = { kind: "code", lines: [], indent: indentOf(line) };
    } else if (!line.trim()) {
      if (!LISTS.includes(block?.kind)) end();
    } else if (LISTS.includes(block?.kind) && indentOf(line) >= block.indent + 2) block.lines.push(`\u0000${line.slice(block.indent + 2)}`);
    else if (HEADING.test(line)) {
      end();
      begin("heading", line);
      end();
    } else if (BULLET.test(line)) begin("bullets", line);
    else if (NUMBER.test(line)) begin("numbers", line);
    else if (ROW.test(line)) begin("table", line);
    else if (QUOTE.test(line)) begin("quote", line.replace(QUOTE, ""));
    else begin("paragraph", line);
  }
  end();
  return blocks;
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

function drawn(block, context) {
  const { kind, lines } = block;
  if (kind === "code") return code(lines.map((line) => line.slice(Math.min(block.indent, indentOf(line)))).join("\n"));
  if (kind === "heading") return el("p", { class: "heading" }, inline(lines[0].replace(HEADING, ""), context));
  if (kind === "quote") return el("blockquote", {}, inline(lines.join("\n"), context));
  if (kind === "table" && lines.length > 1 && RULE.test(lines[1])) return table(lines, context);
  if (kind === "bullets") return el("ul", {}, list(items(lines, BULLET), context));
  if (kind === "numbers") {
    const start = Number(NUMBER.exec(lines[0])?.[1] ?? 1);
    return el("ol", { start: start === 1 ? null : start }, list(items(lines, NUMBER), context));
  }
  return el("p", {}, inline(lines.join("\n"), context));
}

/** List items with their nested blocks; a citation's context includes the items before it. */
function list(found, context) {
  return found.map((item, number) => {
    const before = [context.before, ...found.slice(0, number)];
    const parts = split(item).map((block) => {
      const here = { ...context, before: before.join("\n") };
      before.push(block.lines.join("\n"));
      return block.kind === "paragraph" ? inline(block.lines.join("\n"), here) : drawn(block, here);
    });
    return el("li", {}, parts);
  });
}

function code(text) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    announce("The code is copied.");
  };
  return el("div", { class: "code-box" }, el("pre", { class: "code", tabindex: "0" }, el("code", {}, text)), button("Copy", copy, { class: "ghost small code-copy", "aria-label": "Copy the code" }));
}

function table(lines, context) {
  const cells = (line) => line.trim().slice(1, -1).split("|").map((cell) => inline(cell.trim(), context)); // prettier-ignore
  const [head, , ...rows] = lines;
  return el(
    "div",
    { class: "wide-table", tabindex: "0", role: "region", "aria-label": "Table" },
    el("table", { class: "table" }, el("thead", {}, el("tr", {}, cells(head).map((cell) => el("th", { scope: "col" }, cell)))), el("tbody", {}, rows.map((row) => el("tr", {}, cells(row).map((cell) => el("td", {}, cell)))))),
  );
}

function items(lines, mark) {
  const found = [];
  for (const line of lines) {
    if (line.startsWith("\u0000") && found.length) found[found.length - 1] += `\n${line.slice(1)}`;
    else found.push(line.replace(mark, ""));
  }
  return found;
}

/** Inline elements of a text; a citation's context is the answer up to it. */
function inline(text, context) {
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > position) parts.push(text.slice(position, match.index));
    const [whole, packet, literal, strong, stressed, label, target, bare] = match;
    if (packet !== undefined) parts.push(context.ids?.includes(packet.trim()) === false ? whole : citation(packet.trim(), `${context.before}\n${text.slice(0, match.index)}`, context));
    else if (literal !== undefined) parts.push(el("code", {}, literal));
    else if (strong !== undefined) parts.push(el("strong", {}, strong));
    else if (stressed !== undefined) parts.push(el("em", {}, stressed));
    else parts.push(el("a", { href: target ?? bare, target: "_blank", rel: "noopener noreferrer", title: target ?? null }, label ?? bare));
    position = match.index + whole.length;
  }
  if (position < text.length) parts.push(text.slice(position));
  return parts;
}

/** A numbered citation mark; numbers are per packet within an answer. */
function citation(packetId, before, { onCite, cited, marks }) {
  if (!marks.has(packetId)) marks.set(packetId, marks.size + 1);
  const own = async () => (await cited()).filter((one) => one.packet_id === packetId);
  const exact = async () => citationOf(before, await own());
  const open = async () => onCite(packetId, (await exact()) ?? { said: before, instead: (await own())[0] });
  const mark = el("button", { type: "button", class: "cite", "aria-label": `Source ${marks.get(packetId)}: packet ${packetId}, open it at this passage`, data: { packet: packetId }, onclick: open }, String(marks.get(packetId))); // prettier-ignore
  return withCard(mark, packetId, exact);
}
