// The files that could not be read, with the reason; each can be read again or dropped.

import { get, post } from "./api.js";
import { announce } from "./announce.js";
import { noticed } from "./connection.js";
import { button, el, fill } from "./dom.js";
import { tenant } from "./state.js";
import { counted, day } from "./words.js";

/** `onRead()` after a file could be read. */
export class Quarantine {
  constructor(onRead) {
    this.onRead = onRead;
    this.summary = el("summary", {});
    this.rows = el("ul", { class: "quarantine" });
    this.node = el("details", { hidden: true }, this.summary, this.rows);
  }

  async load() {
    const { quarantined } = await get(`/quarantine?tenant=${encodeURIComponent(tenant())}`);
    this.node.hidden = !quarantined.length;
    fill(this.summary, `${counted(quarantined.length, "file")} could not be read`);
    fill(this.rows, quarantined.map((file) => this.row(file)));
  }

  row(file) {
    const name = file.path.split("/").at(-1);
    const act = (path, done) => async () => {
      try {
        const outcome = await post(path, { id: file.id, tenant: tenant() });
        announce(done(outcome));
        await this.load();
        (this.node.hidden ? document.getElementById("view") : this.summary).focus();
      } catch (error) {
        noticed(error);
        announce(error.message, { urgent: true });
      }
    };
    const read = ({ outcome, reason }) => {
      if (["quarantined", "failed", "ignored"].includes(outcome)) return `${name} still cannot be read: ${reason}`;
      this.onRead();
      return `${name} was read.`;
    };
    return el(
      "li",
      {},
      el("span", {}, el("strong", { title: file.path }, name), ` ${day(file.at)}`),
      el("span", { class: "quiet" }, file.line ? `line ${file.line}: ${file.reason}` : file.reason),
      el("span", {}, button("Try again", act("/quarantine/retry", read), { class: "small", "aria-label": `Read ${name} again` }), " ", button("Drop", act("/quarantine/drop", () => `${name} was dropped.`), { class: "small ghost", "aria-label": `Drop ${name}` })),
    );
  }
}
