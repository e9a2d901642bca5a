// Deletes what the archive holds after confirmation, with undo.

import { post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { counted } from "./words.js";

/** A "Delete…" button that asks first; `what` names it for /forget, `changed` hears of the deletion and of its undo. */
export function deletion(what, changed = () => {}, name = "") {
  const node = el("p", { class: "deletion" });
  const request = { ...what, tenant: tenant() };
  const ask = async () => {
    const { pages, quoting_turns: turns } = await post("/forget", { ...request, dry_run: true });
    const also = turns ? ` and ${counted(turns, "chat turn")} quoting it` : "";
    next(`Delete ${counted(pages, "page")}${also}? `, button("Delete", () => run(remove), { class: "danger small" }), " ", button("Keep", again, { class: "small" }));
  };
  const remove = async () => {
    const { forget_id } = await post("/forget", request);
    next("Deleted; it can be restored for 24 hours. ", button("Undo", () => run(() => restore(forget_id)), { class: "small" }));
    announce("Deleted.");
    changed(true);
  };
  const restore = async (forgetId) => {
    await post("/forget/undo", { forget_id: forgetId, tenant: request.tenant });
    announce("Restored.");
    again();
    changed(false);
  };
  const next = (...children) => {
    fill(node, ...children);
    node.querySelector("button:last-of-type").focus(); // the button that had the focus is gone
  };
  const run = (step) => step().catch((error) => (noticed(error), fill(node, el("span", { class: "problem" }, error.message))));
  const start = button("Delete…", () => run(ask), { class: "ghost small", "aria-label": name ? `Delete ${name}` : null });
  const again = () => next(start);
  fill(node, start);
  return node;
}
