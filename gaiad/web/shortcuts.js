// Keyboard shortcuts, and their list under "?".

import { button, el, fill } from "./dom.js";

/** `keys` are {key, words, run}; with `always` one works while typing too. `run` returns false to ignore the key. */
export function useShortcuts(keys) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.metaKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") && !["?", "k"].includes(event.key)) return;
    const typing = event.target.matches?.("input, textarea, select, [contenteditable]");
    const name = `${event.ctrlKey ? "Ctrl+" : ""}${event.key}`;
    const found = keys.find((one) => one.key === name);
    if (!found || (typing && !found.always)) return;
    if (found.run() !== false) event.preventDefault();
  });
}

export function showHelp(keys) {
  const dialog = document.getElementById("help");
  if (dialog.open) return dialog.close();
  fill(
    dialog,
    el("h2", {}, "Keys"),
    el("dl", { class: "keys" }, keys.map((one) => [el("dt", {}, el("kbd", {}, one.shown ?? one.key)), el("dd", {}, one.words)])),
    el("p", { class: "quiet" }, "Letters work while nothing is typed. Every button is also reached with Tab."),
    el("form", { method: "dialog" }, button("Close", () => dialog.close(), { class: "strong" })),
  );
  dialog.showModal();
  return undefined;
}
