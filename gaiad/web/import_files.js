// Importing on the page: files chosen or dropped are sent to the daemon, and followed until they are in the archive.

import { get, reach } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { counted, day } from "./words.js";

const EVERY_MS = 500;
const ENDED = ["done", "failed", "cancelled"];
const HEADERS = { "X-Gaiad": "page", "Content-Type": "application/json" }; // the only kind that the daemon takes from the page, whatever the file is

/** A button that chooses files and a place that tells how their import goes; `onDone()` after each. */
export class ImportFiles {
  constructor(onDone) {
    this.onDone = onDone;
    this.chooser = el("input", { type: "file", multiple: true, hidden: true, onchange: () => this.take([...this.chooser.files]) });
    this.button = el("span", {}, button("Import…", () => this.chooser.click()), this.chooser);
    this.told = el("ul", { class: "imports", role: "status" });
  }

  /** Files dropped on `node` are imported. */
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
    this.told.append(line);
    try {
      const query = new URLSearchParams({ name: file.name, tenant: tenant() });
      const response = await reach(`/import?${query}`, { method: "POST", headers: HEADERS, body: file });
      let { job } = await response.json();
      while (!ENDED.includes(job.state)) {
        fill(line, `Importing ${file.name}: ${progress(job)}`);
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
        job = await get(`/jobs/${encodeURIComponent(job.job_id)}`);
      }
      fill(line, job.state === "done" ? ended(file.name, job.result) : el("span", { class: "problem" }, `${file.name}: ${job.note || job.state}`));
    } catch (error) {
      noticed(error);
      fill(line, el("span", { class: "problem" }, `${file.name}: ${error.message}`));
    }
    announce(line.textContent);
    this.onDone();
  }
}

const progress = (job) => (job.total ? `${Math.floor((100 * job.done) / job.total)} %` : counted(job.done, "conversation"));

/** What an import came to, in a sentence. */
function ended(name, summary) {
  const got = [summary.conversations && counted(summary.conversations, "conversation"), summary.notes && counted(summary.notes, "note")].filter(Boolean);
  const span = summary.first ? `, ${day(summary.first)} to ${day(summary.last)}` : "";
  const kinds = Object.entries(summary.outcomes ?? {}).filter(([, number]) => number).map(([kind, number]) => `${number} ${kind}`); // prettier-ignore
  return `${name}: ${got.join(" and ") || "nothing to import"}${span}${kinds.length ? ` (${kinds.join(", ")})` : ""}.`;
}
