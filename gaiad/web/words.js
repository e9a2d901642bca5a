// Formats times, numbers, ids and roles for people.

const NAMES = { prime: "Prime", lite: "Lite", codemind: "CodeMind", person: "you", gaiad: "gaiad", archive: "Archive" };

export const roleName = (role) => NAMES[role] ?? role;

export function counted(number, noun, many = `${noun}s`) {
  return `${grouped(number)} ${number === 1 ? noun : many}`;
}

const REDACTED = {
  email: ["e-mail address", "e-mail addresses"], phone: ["phone number"], card: ["card number"], iban: ["IBAN"], ip: ["IP address", "IP addresses"],
  key: ["key or token", "keys or tokens"], home_path: ["home path"], name: ["name"], phrase: ["phrase"], slur: ["slur"], profanity: ["profanity", "profanities"], mention: ["mention"],
}; // prettier-ignore

const PACKET = "Transmission Packet";
const KINDS = {
  session_turn: "said here", generic: "other record", reference: PACKET, gam_appendix_b: PACKET, crtp: PACKET, irp_universal: PACKET, orchestrator: PACKET, orchestrator_handoff: PACKET, session_json: PACKET, chatgpt: "ChatGPT", claude_ai: "Claude", claude_code: "Claude Code", codex: "Codex",
  gemini_cli: "Gemini CLI", gemini_takeout: "Gemini", claude_project: "Claude project", claude_memory: "Claude memory", claude_design: "Claude design",
  open_webui: "Open WebUI", librechat: "LibreChat", chatbot_ui: "Chatbot UI", grok: "Grok", ai_studio: "AI Studio", llm: "llm command", aider: "aider",
  specstory: "SpecStory", transcript: "Transcript", note: "Note", thoughtstream: "GAIA thoughtstream", thought_seed: "GAIA thought seed",
}; // prettier-ignore

/** A page's speaker or section for people; "" for a note's text. */
export const speakerName = (page) => ({ user: "you" })[page.speaker] ?? (page.speaker || (page.section === "content" ? "" : page.section.replaceAll("_", " ")));
/** A model set by its path goes by the name of its file. */
export const modelName = (model) => (model === "extractive" ? "" : model.endsWith(".gguf") ? model.split("/").at(-1) : model);

/** A packet's source for people. */
export const sourceKind = (dialect) => KINDS[dialect] ?? dialect.replaceAll("_", " ");

/** A count of redactions of one kind. */
export function redacted(kind, count) {
  const [noun, many] = REDACTED[kind] ?? [kind.replaceAll("_", " ")];
  return counted(count, noun, many);
}

/** The redactions in a sentence; "" for none. */
export function leftOut(redactions) {
  return redactions?.length ? `Left out on this channel: ${redactions.map(({ kind, count }) => redacted(kind, count)).join(", ")}.` : "";
}

export const grouped = (number) => Number(number).toLocaleString("en-GB");

export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60000);
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60000) / 1000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A turn's duration including search and queueing; the sum of its stages while it runs. */
export function tookMs(record) {
  const staged = record.stages.reduce((sum, stage) => sum + stage.ms, 0);
  const whole = Date.parse(record.ended_at) - Date.parse(record.started_at);
  return Math.max(staged, Number.isNaN(whole) ? 0 : whole);
}

export function uptime(seconds) {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor((seconds % 86400) / 3600), Math.floor((seconds % 3600) / 60)];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = number / 1024;
  while (value >= 1024 && units.length > 1) {
    value /= 1024;
    units.shift();
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[0]}`;
}

/** A stored UTC time in local time; "" stays "". */
export function dateTime(iso) {
  const at = parsed(iso);
  return at ? at.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" }) : iso;
}

export function day(iso) {
  const at = parsed(iso);
  return at ? at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" }) : iso;
}

export function clockTime(iso) {
  const at = parsed(iso);
  return at ? at.toLocaleTimeString("en-GB") : iso;
}

/** "3 min ago", "in 12 min"; two days or more as a date. */
export function relative(iso, now = Date.now()) {
  const at = parsed(iso);
  if (!at) return iso ?? "";
  const seconds = Math.round((at.getTime() - now) / 1000);
  const away = Math.abs(seconds);
  if (away < 5) return "now";
  if (away >= 86400 * 2) return day(iso);
  const words = away < 60 ? `${away} s` : away < 3600 ? `${Math.round(away / 60)} min` : `${Math.round(away / 3600)} h`;
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

/** "Today", "Yesterday", "Previous 7 days", "Previous 30 days", then month and year. */
export function period(iso, now = Date.now()) {
  const at = parsed(iso);
  if (!at) return "Undated";
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - at.getTime()) / 86400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "Previous 7 days";
  return days <= 30 ? "Previous 30 days" : at.toLocaleDateString("en-GB", { month: "long", year: "numeric" });
}

/** Text without Markdown markers, for excerpts and quotes. */
export const unmarked = (text) => text.replace(/\*\*|`+|(^|\n)#{1,6} /g, "$1");

export function firstLine(text, longest = 90) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > longest ? `${line.slice(0, longest - 1)}…` : line;
}

function parsed(iso) {
  if (!iso) return null;
  const at = new Date(/[zZ]|[+-]\d\d:?\d\d$/.test(iso) || !iso.includes("T") ? iso : `${iso}Z`);
  return Number.isNaN(at.getTime()) ? null : at;
}
