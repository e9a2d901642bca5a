// The card of a citation: title, date, speaker and quote, shown while its mark is hovered or focused.

import { el, fill } from "./dom.js";
import { packetName } from "./packet_names.js";
import { day, unmarked } from "./words.js";

const LONGEST = 300;
let card = null;

/** Adds a card to `mark`; `exact()` resolves to the verified citation, or undefined without one. */
export function withCard(mark, packetId, exact) {
  const open = () => show(mark, packetId, exact);
  mark.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && open());
  mark.addEventListener("focus", () => mark.matches(":focus-visible") && open());
  for (const event of ["pointerleave", "blur", "click"]) mark.addEventListener(event, hide);
  return mark;
}

async function show(mark, packetId, exact) {
  hide();
  const mine = (card = el("div", { class: "card", role: "tooltip" }));
  const citation = await exact();
  const name = citation?.topic ? null : await packetName(packetId).catch(() => null); // the id is shown instead
  if (mine !== card) return;
  fill(
    mine,
    el("p", { class: "card-title" }, citation?.topic || name?.topic || packetId),
    el("p", { class: "card-facts" }, [citation?.timestamp ? day(citation.timestamp) : name?.day, citation?.speaker === "user" ? "you" : citation?.speaker].filter(Boolean).join(" · ")),
    citation?.quote ? el("p", { class: "stored" }, shortened(unmarked(citation.quote))) : null,
    citation?.quote ? el("p", { class: "card-facts verified-words" }, "✓ verified against the stored text") : null,
  );
  document.body.append(mine);
  place(mine, mark);
}

const shortened = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

function place(node, mark) {
  const { left, bottom, top } = mark.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = node;
  node.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
  node.style.top = `${bottom + height + 12 > window.innerHeight ? top - height - 6 : bottom + 6}px`;
}

function hide() {
  card?.remove();
  card = null;
}
