// The state of a turn, built from live events or from its record. Pure.

/** A turn with only its message. */
export function newTurn(message, more = {}) {
  return {
    message,
    turnId: "",
    sessionId: "",
    startedAt: "",
    answer: "",
    answered: true,
    struck: null, // {text, reason} of a retracted answer
    steps: [],
    depth: "",
    depthWhy: "",
    running: false,
    broken: false, // ended early; its text is not an answer
    done: null,
    error: null, // {code, message}
    notes: [],
    redactions: [],
    reducedQuorum: false, // from the turn log, for stored turns
    sources: [],
    citations: [], // verified spans, from the answer
    also: null, // {packet_id, words} of a related earlier packet
    verdicts: {}, // packet id -> feedback
    rating: "", // of the answer: up, down or nothing
    ...more,
  };
}

/** Applies one event. */
export function apply(turn, name, data) {
  const take = EVENTS[name];
  if (take) take(turn, data);
  return turn;
}

const BROKEN = ["CANCELLED", "FAILED"];

const EVENTS = {
  turn: (turn, data) => Object.assign(turn, { turnId: data.turn_id, sessionId: data.session_id }),
  searching: (turn, data) => search(turn).lines.push(searchingLine(data)),
  found: (turn, data) => search(turn).lines.push(foundLine(data)),
  reflected: (turn, data) => search(turn).lines.push(reflectedLine(data)),
  synthesizing: (turn) => (search(turn).state = "ok"),
  depth: (turn, data) => {
    for (const step of turn.steps) if (step.kind === "search" && step.state === "now") step.state = "ok";
    Object.assign(turn, { depth: data.depth, depthWhy: data.why });
  },
  stage: (turn, data) => turn.steps.push({ kind: "stage", stage: data.stage, role: data.role, why: data.why, place: data.of > 1 ? `stage ${data.number} of ${data.of}` : "", state: "now", blocks: [], record: null }),
  packet: (turn, data) => Object.assign(current(turn) ?? {}, { packet: data }),
  block: (turn, data) => {
    addRedactions(turn, data.redactions);
    const step = current(turn);
    if (step) step.blocks.push({ marker: data.marker, text: data.text });
    else turn.steps.push({ kind: "block", marker: data.marker, role: data.role, text: data.text, state: "ok" });
  },
  delta: (turn, data) => (turn.answer += data.text),
  retract: (turn, data) => {
    if (turn.answer) turn.struck = { text: turn.answer, reason: data.reason };
    turn.answer = "";
    turn.steps.push({ kind: "retract", reason: data.reason, state: "bad" });
  },
  stage_done: (turn, data) => {
    const step = turn.steps.findLast((one) => one.kind === "stage" && one.stage === data.stage && one.state === "now");
    if (step) Object.assign(step, { state: data.verdict, record: data });
    else turn.steps.push(stageStep(data, []));
  },
  vote: (turn, data) => turn.steps.push({ kind: "vote", vote: data, state: data.passed ? "ok" : "bad" }),
  escalation: (turn, data) => turn.steps.push({ kind: "escalation", record: data, state: "bad" }),
  also: (turn, data) => (turn.also = data),
  missed: (turn) => turn.notes.push("The beginning of what happened in this turn is no longer kept."),
  done: (turn, data) => {
    Object.assign(turn, {
      running: false, done: data, answer: data.answer, answered: data.answered, depth: data.depth, depthWhy: data.depth_why,
      turnId: data.turn_id, sessionId: data.session_id, sources: data.sources, citations: data.citations ?? [], broken: BROKEN.includes(data.status),
    }); // prettier-ignore
    turn.also = data.also;
    turn.notes = [...turn.notes, ...data.notes];
    turn.redactions = [];
    addRedactions(turn, data.redactions);
    for (const step of turn.steps) if (step.state === "now") step.state = "ok";
  },
  error: (turn, data) => {
    Object.assign(turn, { running: false, error: data, broken: true });
    for (const step of turn.steps) if (step.state === "now") step.state = "bad";
  },
};

/** A turn from memory. */
export function rememberedTurn(stored) {
  const said = (role) => stored.messages.filter((message) => message.role === role).map((message) => message.content);
  const others = stored.messages.filter((message) => !["user", "assistant"].includes(message.role));
  const message = [...said("user"), ...others.map((one) => `${one.role}: ${one.content}`)].join("\n\n");
  return newTurn(message, {
    turnId: stored.turn_id,
    sessionId: stored.session_id,
    startedAt: stored.started_at ?? "",
    answer: said("assistant").join("\n\n"),
    answered: !stored.metadata?.unanswered,
    broken: BROKEN.includes(stored.status),
    sources: stored.sources ?? [],
    also: stored.metadata?.also ?? null,
    stored,
  });
}

const LOST = { CUT_OFF: "gaiad ended before this answer was complete.", CANCELLED: "Stopped before its end: this answer is incomplete." };

/** Stored `turns` merged with failed ones from the turn log, so that their messages are not lost. */
export function withLost(turns, records) {
  const known = new Set(turns.map((turn) => turn.turnId));
  const reduced = new Set(records.filter((record) => record.reduced_quorum).map((record) => record.turn_id));
  const runs = new Map(records.map((record) => [record.turn_id, record.history?.research_id]));
  for (const turn of turns) Object.assign(turn, { reducedQuorum: reduced.has(turn.turnId), researchId: runs.get(turn.turnId) });
  const all = [...turns];
  for (const record of records) {
    const lost = (LOST[record.status] || record.status === "FAILED") && record.message && !known.has(record.turn_id);
    if (!lost) continue;
    const error = { code: record.status.toLowerCase(), message: LOST[record.status] ?? `No answer came: ${record.end_why}` };
    const turn = newTurn(record.message, { turnId: record.turn_id, sessionId: record.session_id, startedAt: record.started_at, broken: true, error });
    const later = all.findIndex((one) => Date.parse(one.startedAt) > Date.parse(record.started_at));
    all.splice(later < 0 ? all.length : later, 0, turn);
  }
  return all;
}

/** The steps of a turn from its record in the turn log. */
export function stepsOfRecord(record) {
  const left = record.blocks.filter((block) => block.marker !== "RESPONSE");
  const steps = [...lookedBack(record.history), ...record.stages.map((stage) => stageStep(stage, []))];
  for (const block of left) {
    const stages = STAGES_OF[block.marker] ?? [];
    const step = steps.findLast((one) => stages.includes(one.stage) && (!block.role || one.role === block.role)) ?? steps.findLast((one) => stages.includes(one.stage));
    if (step) step.blocks.push(block);
    else steps.push({ kind: "block", marker: block.marker, role: block.role, text: block.text, state: "ok" });
  }
  for (const vote of record.votes) steps.push({ kind: "vote", vote, state: vote.passed ? "ok" : "bad" });
  for (const escalation of record.escalations) steps.push({ kind: "escalation", record: escalation, state: "bad" });
  return steps;
}

/** Why the archive was searched, with what result, and the research run; null when it was not. */
function lookedBack(history) {
  if (!history?.sought) return [];
  const run = history.research_id ? `; gaiad research show ${history.research_id}` : "";
  return [{ kind: "search", state: "ok", lines: [{ text: `${history.why}: ${history.status || "nothing of use"}${run}`, packets: history.packets }] }];
}

const STAGES_OF = { PLAN: ["refine", "plan"], VERIFY: ["verify"], THOUGHT_SEED: ["act"] };

const stageStep = (stage, blocks) => ({ kind: "stage", stage: stage.stage, role: stage.role, why: stage.why, state: stage.verdict, blocks, record: stage });

const current = (turn) => turn.steps.findLast((step) => step.kind === "stage" && step.state === "now");

function search(turn) {
  const last = turn.steps.at(-1);
  if (last?.kind === "search" && last.state === "now") return last;
  turn.steps.push({ kind: "search", lines: [], state: "now" });
  return turn.steps.at(-1);
}

export function searchingLine(data) {
  const how = data.refinements.length ? ` (${data.refinements.at(-1)})` : "";
  return { what: "searching", text: `${data.iteration > 1 ? "Searching again" : "Searching"}: ${data.query}${how}` };
}

export function foundLine(data) {
  const fresh = data.new_pages === undefined ? "" : `${data.new_pages} new ${data.new_pages === 1 ? "page" : "pages"}, `;
  const number = data.packets.length;
  return { what: "found", text: `${fresh}${number} relevant ${number === 1 ? "packet" : "packets"}`, packets: data.packets };
}

export function reflectedLine(data) {
  const missing = data.missing.length ? `; missing: ${data.missing.join(", ")}` : "";
  return { what: "reflected", text: `${data.sufficient ? "That is enough" : "Not enough yet"}, confidence ${data.confidence.toFixed(2)}${missing}` };
}

function addRedactions(turn, found) {
  for (const { kind, count } of found ?? []) {
    const known = turn.redactions.find((one) => one.kind === kind);
    if (known) known.count += count;
    else turn.redactions.push({ kind, count });
  }
}
