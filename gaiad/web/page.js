// Entry point: the views, routing by the address, and the sidebar.

import { get, post, Refused } from "./api.js";
import { announce } from "./announce.js";
import { Approvals } from "./approvals.js";
import { watchApprovals } from "./approvals_waiting.js";
import { Archive } from "./archive.js";
import { Chat } from "./chat.js";
import { connect, hear, noticed, onReturn } from "./connection.js";
import { ContextView } from "./context.js";
import { Council } from "./council.js";
import { button, el, fill, icon } from "./dom.js";
import { closePacket, openPacket } from "./packet.js";
import { Palette } from "./palette.js";
import { Research } from "./research.js";
import { Sessions } from "./sessions.js";
import { showHelp, useShortcuts } from "./shortcuts.js";
import { chooseTenant, tenant } from "./state.js";
import { StatusView } from "./status.js";
import { applyTheme, nextTheme, theme } from "./theme.js";

const PLACES = [
  { name: "chat", words: "Chat" },
  { name: "council", words: "Council" },
  { name: "archive", words: "Archive" },
  { name: "research", words: "Research" },
  { name: "approvals", words: "Approvals" },
  { name: "status", words: "Status" },
  { name: "context", words: "Context" },
];

applyTheme();

const sessions = new Sessions(document.getElementById("sessions"));
const views = { chat: new Chat(sessions), council: new Council(), archive: new Archive(), research: new Research(), approvals: new Approvals(), status: new StatusView(), context: new ContextView() };
const palette = new Palette(PLACES, () => sessions.list);
let shown = null;
let waiting = 0;

/** Shows the view that the address names. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  if (name === "packet") openPacket(decodeURIComponent(rest.join("/")));
  const place = views[name] ? name : name === "packet" ? (shown ?? "archive") : "chat";
  const changed = shown !== place;
  if (changed) {
    if (shown) views[shown].close?.();
    fill(document.getElementById("view"), views[place].node);
    shown = place;
    drawPlaces();
  }
  document.title = `${PLACES.find((one) => one.name === place).words} · gaiad`;
  document.body.classList.remove("with-menu");
  if (name === "packet" && !changed) return;
  if (place === "chat") views.chat.open(name === "chat" ? decodeURIComponent(rest.join("/")) : "", new URLSearchParams(query).get("say") ?? "");
  else if (changed || place === "archive") views[place].open(new URLSearchParams(query));
}

function drawPlaces() {
  const places = document.getElementById("places");
  fill(
    places,
    PLACES.map(({ name, words }, number) => {
      const href = name === "chat" && views.chat.session ? `#/chat/${encodeURIComponent(views.chat.session)}` : `#/${name}`;
      const count = name === "approvals" && waiting ? el("span", { class: "badge", "aria-label": `${waiting} waiting` }, String(waiting)) : null;
      return el("li", {}, el("a", { href, "aria-current": shown === name ? "page" : null, title: `${words} (${number + 1})` }, icon(name), el("span", { class: "place-words" }, words), count));
    }),
    el("li", { class: "more" }, button([icon("list"), el("span", { class: "place-words" }, "More")], () => document.body.classList.toggle("with-menu"), { class: "place-button", "aria-label": "Conversations and tools" })),
  );
}

function drawTools(tenants) {
  const choose = el("select", { "aria-label": "Memory", onchange: () => moveTo(choose.value) }, tenants.map((name) => el("option", { value: name }, name)));
  choose.value = tenant();
  const look = button([icon("theme"), el("span", { id: "theme-words" }, themeWords())], turnTheme, { class: "ghost", title: "Dark or light (t)" });
  fill(
    document.getElementById("tools"),
    tenants.length > 1 ? el("label", { class: "tenant" }, el("span", { class: "label" }, "Memory"), choose) : null,
    el("div", { class: "tool-row" }, look, button([icon("help"), el("span", { class: "unseen" }, "Keys")], () => showHelp(KEYS), { class: "ghost", title: "Keys (?)" }), button([icon("leave"), el("span", { class: "unseen" }, "Log out")], logOut, { class: "ghost", title: "Log out" })),
  );
}

const themeWords = () => ({ system: "System", light: "Light", dark: "Dark" })[theme()];

function turnTheme() {
  nextTheme();
  document.getElementById("theme-words").textContent = themeWords();
  announce(`Colours: ${themeWords()}`);
}

/** Switches to another tenant and reloads. */
function moveTo(name) {
  chooseTenant(name);
  location.hash = "#/chat";
  location.reload();
}

async function logOut() {
  try {
    await post("/web/logout");
  } catch (error) {
    noticed(error);
    if (error instanceof Refused && error.away) return;
  }
  location.replace("/");
}

const KEYS = [
  ...PLACES.map(({ name, words }, number) => ({ key: String(number + 1), words, run: () => (location.hash = `#/${name}`) })),
  { key: "n", words: "New conversation", run: () => (location.hash = "#/chat") },
  { key: "/", words: "Go to the input field", run: () => focusField() },
  { key: "Ctrl+k", words: "Find anything", always: true, run: () => palette.open() },
  { key: "t", words: "Dark, light, or as the system has it", run: turnTheme },
  { key: "Ctrl+.", words: "Stop the answer that is being written", always: true, run: () => views.chat.stopWriting() },
  { key: "Escape", shown: "Esc", words: "Close the packet, or leave the field", always: true, run: () => closePacket() || leaveField() },
  { key: "?", words: "These keys", run: () => showHelp(KEYS) },
];

function focusField() {
  const field = document.querySelector("#view textarea, #view input:not([type=checkbox])");
  field?.focus();
  return Boolean(field);
}

/** Shortcuts work again; typed text stays, except in a search field, which the browser clears. */
function leaveField() {
  document.activeElement?.blur();
  return false;
}

async function begin() {
  drawPlaces();
  drawTools([tenant()]);
  window.addEventListener("hashchange", route);
  useShortcuts(KEYS);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names a place, not an element
    document.getElementById("view").focus();
  });
  route();
  connect();
  watchApprovals((count) => {
    waiting = count;
    drawPlaces();
    views.chat.redraw();
  });
  hear("council", (message) => message.type !== "HEARTBEAT" && later());
  onReturn(() => sessions.load().catch(noticed));
  try {
    await Promise.all([sessions.load(), get("/status").then(({ tenants }) => tenants.length && drawTools(tenants))]);
  } catch (error) {
    noticed(error);
  }
}

let soon = 0;

/** Reloads the lists after turns elsewhere. */
function later() {
  clearTimeout(soon);
  soon = setTimeout(() => Promise.all([sessions.load(), views.chat.refresh()]).catch(noticed), 1500);
}

begin();
