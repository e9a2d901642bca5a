// Import: uploads chosen or dropped files and follows each until it is in the archive.

import { get, reach } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { counted, day } from "./words.js";

const EVERY_MS = 500;
const SHOWN_TROUBLES = 5;
const ENDED = ["done", "failed", "cancelled"];
const HEADERS = { "X-Gaiad": "page", "Content-Type": "application/json" }; // the only content type the daemon accepts from the page

/** A file button and a log of imports; calls `onDone()` after each file. */
export class ImportFiles {
  constructor(onDone) {
    this.onDone = onDone;
    this.chooser = el("input", { type: "file", multiple: true, hidden: true, onchange: () => this.take([...this.chooser.files]) });
    this.button = el("span", {}, button("Import…", () => this.chooser.click()), this.chooser);
    this.log = el("ul", { class: "imports", role: "status" });
  }

  /** Imports files dropped on `node`. */
  dropOn(node) {
    const over = (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      node.classList.add("dropping");
    };
    node.addEventListener("dragover", over);
    for (const name of ["dragleave", "drop"]) node.addEventListener(name, () => node.classList.remove("dropping"));
    node.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  async take(files) {
    this.chooser.value = "";
    for (const file of files) await this.send(file);
  }

  async send(file) {
    const line = el("li", {}, `Sending ${file.name}…`);
    this.log.append(line);
    try {
      const query = new URLSearchParams({ name: file.name, tenant: tenant() });
      const response = await reach(`/import?${query}`, { method: "POST", headers: HEADERS, body: file });
      let { job } = await response.json();
      while (!ENDED.includes(job.state)) {
        fill(line, `Importing ${file.name}: ${progress(job)}`);
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
        job = await get(`/jobs/${encodeURIComponent(job.job_id)}`);
      }
      fill(line, job.state === "done" ? ended(file.name, job.result, await troubles(job)) : el("span", { class: "problem" }, `${file.name}: ${job.note || job.state}`));
    } catch (error) {
      noticed(error);
      fill(line, el("span", { class: "problem" }, `${file.name}: ${error.message}`));
    }
    announce(line.textContent);
    this.onDone();
  }
}

const progress = (job) => (job.total ? `${Math.floor((100 * job.done) / job.total)} %` : counted(job.done, "conversation"));

/** The first files or records that were refused or could not be read. */
async function troubles(job) {
  const { refused = 0, failed = 0 } = job.result?.outcomes ?? {};
  if (!refused && !failed) return [];
  const { outcomes } = await get(`/jobs/${encodeURIComponent(job.job_id)}/outcomes?after=0`);
  return outcomes.filter((each) => each.outcome === "refused" || each.outcome === "failed").slice(0, SHOWN_TROUBLES);
}

const NEW = { accepted: "new", revised: "changed", duplicate: "known already", refused: "refused", failed: "failed" };

/** The result of an import: a sentence, refusals, what was left out, and questions to try. */
function ended(name, summary, refused) {
  const kinds = ["conversation", "note", "packet"];
  const got = kinds.map((kind) => summary[`${kind}s`] && counted(summary[`${kind}s`], kind)).filter(Boolean);
  const days = [...new Set([summary.first, summary.last].filter(Boolean).map(day))];
  const span = days.length ? `, ${days.join(" to ")}` : "";
  const states = Object.entries(NEW).filter(([kind]) => summary.outcomes?.[kind]).map(([kind, word]) => `${summary.outcomes[kind].toLocaleString()} ${word}`); // prettier-ignore
  const left = Object.entries(summary.left_out ?? {}).map(([reason, number]) => `${reason} (${number.toLocaleString()})`);
  const problems = refused.map((each) => el("p", { class: "problem" }, `${name}: ${each.reason.split("; take it")[0]}`)); // the way around it needs a terminal
  if (!got.length && problems.length) return problems;
  return [
    `${name}: ${got.join(", ") || "nothing was imported"}${span}${states.length ? ` (${states.join(", ")})` : ""}.`,
    problems,
    left.length ? el("details", {}, el("summary", {}, "Left out"), left.join("; ")) : null,
    summary.questions?.length ? el("div", {}, "Try asking:", el("ul", {}, summary.questions.map((question) => el("li", {}, el("a", { href: `#/chat?say=${encodeURIComponent(question)}` }, question))))) : null,
  ];
}
