"""What a stage's reply means: the struct in it and the outcome that decides what happens next (GCP 6). Pure.

A reply under a grammar is JSON that fits. Of models without one, numbered lists, `confidence=x` and `VERIFY: fail ...`
are read too, and a reply cut at its limit gives what was whole; the notes say so. Nothing is guessed: what has no plan
is `missing`, and only a first word of success or fail is a verdict.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, cast

import msgspec

from council.observer_rules import without_secrets
from council.roles import CouncilStage
from council.stages import (
    MOST_ARGUMENTS,
    MOST_STEPS,
    STEP_CHARACTERS,
    SUMMARY_CHARACTERS,
    Command,
    Observation,
    Plan,
    RefinedPlan,
    Response,
    Verification,
)
from gaiad.base.marker_forms import MARKERS, Fences, Marker, Mode
from gaiad.base.markers import MarkedOutput, read_blocks


class MarkedBody(NamedTuple):
    """`marker` as GCP spells it, "" for text before the first one; `body` without space around it."""

    marker: str
    body: str


class MarkedText(NamedTuple):
    """The blocks in order, and what was tolerated."""

    blocks: list[MarkedBody]
    notes: list[str]

    def bodies(self, marker: str) -> list[str]:
        """The bodies of one marker's blocks that are not empty, in order."""
        return [block.body for block in self.blocks if block.marker == marker and block.body]


def read_marked(text: str, own: str) -> MarkedText:
    """The blocks of a reply whose stage writes `own` blocks: one of the six markers, or a judgement's own."""
    output = _marked(text, own, "strict")
    if all(block.marker != own for block in output.blocks):
        output = _marked(text, own, "tolerant")
    blocks = [MarkedBody(block.marker, block.text) for block in output.blocks if not block.thought]
    return MarkedText(blocks, output.notes)


def _marked(text: str, own: str, mode: Mode) -> MarkedOutput:
    """An unmarked answer is one RESPONSE as soon as it begins, so that "Response:" and "Plan:" in it are words."""
    default: Marker | None = "RESPONSE" if own == "RESPONSE" and mode == "tolerant" else None
    others = () if own in MARKERS else (own,)
    return read_blocks(text, mode, default, preamble_characters=0, others=others)


def without_fence(body: str) -> str:
    """A body that is one fenced block, without its fence."""
    lines: Sequence[str] = body.strip().splitlines()
    if len(lines) >= 2 and Fences().begin(lines[0]) and lines[-1].strip() in ("```", "~~~"):
        return "\n".join(lines[1:-1]).strip()
    return body.strip()


_SHELL = frozenset("|&;<>()$`\\*?[]{}~!#\n")


def read_command(body: str, notes: list[str]) -> Command | None:
    """The command of JSON that fits, or of one plain line without anything a shell would expand; None with a note."""
    try:
        return msgspec.json.decode(body, type=Command)
    except msgspec.DecodeError as error:
        if body.lstrip().startswith("{"):
            notes.append(f"an EXECUTE block is cut or does not fit its form ({error}); it was left out")
            return None
    if found := sorted(set(body) & _SHELL):
        notes.append(
            f"an EXECUTE block needs a shell ({' '.join(map(repr, found))}); it was left out, write plain argv"
        )
        return None
    try:
        argv = tuple(shlex.split(body))
    except ValueError as error:
        notes.append(f"an EXECUTE block cannot be read ({error}); it was left out")
        return None
    if len(argv) > MOST_ARGUMENTS or any(len(part) > STEP_CHARACTERS for part in argv):
        notes.append(
            f"an EXECUTE block has more than {MOST_ARGUMENTS} arguments of {STEP_CHARACTERS} characters: left out"
        )
        return None
    return Command(argv=argv, why="")


Outcome = Literal[
    "ok", "missing", "low_confidence", "interrupt", "unreadable", "empty", "interrupted", "exec_error", "success",
    "unproven", "fail", "lost",
]  # fmt: skip
Value = Plan | RefinedPlan | Observation | Response | Verification
T = TypeVar("T", bound=Value)
_STEP = re.compile(r"\s*(?:\d{1,3}\s*[.):]|[-*•+]|step\s+\d{1,3}\s*[.):-])\s+(\S.*)", re.IGNORECASE)
_STEP_WORD = re.compile(r"\w+")
_JSON_STRING = r'"(?:[^"\\]|\\.)*"'
_CUT_STEPS = re.compile(rf'"steps"\s*:\s*\[((?:\s*{_JSON_STRING}(?:\s*,)?)*)')
_STRINGS = re.compile(_JSON_STRING)
_CONFIDENCE = re.compile(
    r"confidence(?:\s+(?:is|of))?[\s=:*_\"]{0,6}(\d{1,3}(?:[.,]\d{1,20})?|\.\d{1,20})\s*(%|/\s*100?\b|/\s*1\b)?",
    re.IGNORECASE,
)
_VERDICT = re.compile(
    r"\W{0,4}(success|succeeded|passed|pass|fail|failed|failure)\W{0,4}(?=[.:,;!\n\u2013\u2014-]|\Z)", re.IGNORECASE
)
_CUT_VERDICT = re.compile(r'\{\s*"outcome"\s*:\s*"(success|fail)"')
_CUT_INTERRUPT = re.compile(r'\{\s*"interrupt"\s*:\s*(true|false)\b')
_CUT_TEXT = re.compile(r'"(?:summary|reason)"\s*:\s*"((?:[^"\\]|\\.)*)')
_DENIED = re.compile(r"\W*(?:no|none|false|nothing|not needed)\W*", re.IGNORECASE)
_NOTHING = re.compile(r"\W*(?:ok|okay|continue|none|nothing|no interrupt(?:ion)?)?\W*", re.IGNORECASE)


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply is; `value` is None where the outcome is missing or unreadable. `notes` are for logs."""

    stage: CouncilStage
    outcome: Outcome
    value: Value | None = None
    notes: tuple[str, ...] = ()


def read_output(stage: CouncilStage, text: str, confidence_below: float) -> ParsedReply:
    """Read a finished reply; a refined plan below `confidence_below` is `low_confidence`. Never raises.

    What shows a secret is withheld: of a plan the step, of a verification or an observation its words. A plan whose
    steps mostly repeat one another is none.
    """
    reading = _read(stage, text, confidence_below)
    value = _withheld(reading.value)
    if isinstance(value, Plan | RefinedPlan):
        return _without_repeats(reading, value)
    return msgspec.structs.replace(reading, value=value)


def _without_repeats(reading: ParsedReply, plan: Plan | RefinedPlan) -> ParsedReply:
    """Each step once and without a number of its own."""
    plain = [_unnumbered(step) for step in plan.steps]
    steps: dict[str, str] = {}
    for step in plain:
        steps.setdefault(" ".join(_STEP_WORD.findall(step.lower())) or step, step)
    if len(steps) * 2 <= len(plain) and len(plain) > 1:
        notes = (*reading.notes, "its steps repeat one another")
        return ParsedReply(stage=reading.stage, outcome="missing", notes=notes)
    return msgspec.structs.replace(reading, value=msgspec.structs.replace(plan, steps=tuple(steps.values())))


def _unnumbered(step: str) -> str:
    """A step without the numbers and dashes before it; unless there is nothing else."""
    while found := _STEP.fullmatch(step):
        step = found[1]
    return step


def without_success(reading: ParsedReply) -> ParsedReply:
    """The verdict on a command that did not end with status 0: a model's "success" fails, whatever it says."""
    value = reading.value
    if not isinstance(value, Verification) or value.outcome == "fail":
        return reading
    summary = f"it did not end with status 0, though the verifying role says: {value.summary}"[:SUMMARY_CHARACTERS]
    return msgspec.structs.replace(reading, outcome="fail", value=Verification(outcome="fail", summary=summary))


def without_proof(reading: ParsedReply) -> ParsedReply:
    """The verdict of a model that has not shown that it can verify: its "success" says nothing."""
    return msgspec.structs.replace(reading, outcome="unproven") if reading.outcome == "success" else reading


def _withheld(value: Value | None) -> Value | None:
    if isinstance(value, Plan | RefinedPlan):
        return msgspec.structs.replace(value, steps=tuple(map(without_secrets, value.steps)))
    if isinstance(value, Verification):
        return msgspec.structs.replace(value, summary=without_secrets(value.summary))
    if isinstance(value, Observation):
        return msgspec.structs.replace(value, reason=without_secrets(value.reason))
    return value


def _read(stage: CouncilStage, text: str, confidence_below: float) -> ParsedReply:
    text = text.encode("utf-8", "replace").decode()  # half a pair of UTF-16 can stand in a Python text
    if stage == "observe":
        return _observation(text)
    own = {"plan": "PLAN", "refine": "PLAN", "act": "RESPONSE", "verify": "VERIFY"}[stage]
    marked = read_marked(text, own)
    if stage == "act":
        return _response(marked)
    bodies = [without_fence(body) for body in marked.bodies(own)]
    notes = list(marked.notes)
    if not bodies and marked.blocks:
        bodies = [without_fence(marked.blocks[0].body)]
        notes.append(f"there is no {own} marker; the text was read without it")
    if any(body.startswith(("```", "~~~")) for body in marked.bodies(own)):
        notes.append("its body is inside a code fence")
    if len(bodies) > 1:
        notes.append(f"{len(bodies)} {own} blocks; the last that can be read counts, and any fail before a success")
    values = [value for body in reversed(bodies) if (value := _READERS[stage](body, notes)) is not None]
    if values:
        value = next((one for one in values if _outcome(one, confidence_below) == "fail"), values[0])
        return ParsedReply(stage=stage, outcome=_outcome(value, confidence_below), value=value, notes=(*notes,))
    notes.append(f"nothing in it can be read as {own}" if text.strip() else "it is empty")
    return ParsedReply(stage=stage, outcome="missing", notes=(*notes,))


def _outcome(value: Value, confidence_below: float) -> Outcome:
    if isinstance(value, RefinedPlan) and value.confidence < confidence_below:
        return "low_confidence"
    return value.outcome if isinstance(value, Verification) else "ok"


def _plan(body: str, notes: list[str]) -> Plan | None:
    if (whole := _json(body, Plan)) is not None:
        return whole
    steps = _steps(body, notes)
    return Plan(steps=steps) if steps else None


def _refined(body: str, notes: list[str]) -> RefinedPlan | None:
    if (whole := _json(body, RefinedPlan)) is not None:
        return whole
    steps, confidence = _steps(body, notes), _confidence(body, notes)
    if not steps:
        return None
    if confidence is None:
        notes.append("it gives no confidence from 0 to 1")
        return None
    return RefinedPlan(confidence=confidence, steps=steps)


def _verification(body: str, notes: list[str]) -> Verification | None:
    if (whole := _json(body, Verification)) is not None:
        return whole
    if found := _CUT_VERDICT.match(body):
        notes.append("its JSON is incomplete")
        said, rest = found[1], _cut_text(body)
    elif found := _VERDICT.match(body):
        notes.append("it is plain text")
        said, rest = found[1].lower(), body[found.end() :].strip(" \n.:,;!-\u2013\u2014*_")
    else:
        return None
    outcome: Literal["success", "fail"] = "success" if said in ("success", "succeeded", "passed", "pass") else "fail"
    return Verification(outcome=outcome, summary=rest[:SUMMARY_CHARACTERS] or "no summary was given")


def _observation(text: str) -> ParsedReply:
    """A judgement as JSON, `INTERRUPT: reason`, or nothing to say."""
    marked = read_marked(text, "INTERRUPT")
    notes = [*marked.notes]
    first = without_fence(marked.blocks[0].body) if marked.blocks else ""
    value = _json(first, Observation)
    if value is None and (found := _CUT_INTERRUPT.match(first)):
        notes.append("its JSON is incomplete")
        value = Observation(interrupt=found[1] == "true", reason=_cut_text(first)[:SUMMARY_CHARACTERS])
    if value is None and any(block.marker == "INTERRUPT" for block in marked.blocks):
        reason = " ".join(marked.bodies("INTERRUPT"))[:SUMMARY_CHARACTERS] or "no reason was given"
        value = Observation(interrupt=not _DENIED.fullmatch(reason), reason=reason)
    if value is None and _NOTHING.fullmatch(first):
        value = Observation(interrupt=False, reason="")
    if value is None:
        notes.append("it is neither an INTERRUPT nor empty")
        return ParsedReply(stage="observe", outcome="unreadable", notes=(*notes,))
    return ParsedReply(stage="observe", outcome="interrupt" if value.interrupt else "ok", value=value, notes=(*notes,))


def _response(marked: MarkedText) -> ParsedReply:
    """RESPONSE blocks joined. An unreadable command is left out."""
    notes = list(marked.notes)
    texts = marked.bodies("RESPONSE")
    if marked.bodies(""):
        notes.append("text before the first marker was left out")
    commands = [read_command(without_fence(body), notes) for body in marked.bodies("EXECUTE")]
    value = Response(
        text="\n\n".join(texts),
        commands=tuple(command for command in commands if command is not None and command.argv),
        seeds=tuple(marked.bodies("THOUGHT_SEED")),
    )
    outcome: Outcome = "ok" if value.text or value.commands else "empty"
    return ParsedReply(stage="act", outcome=outcome, value=value, notes=(*notes,))


def _steps(body: str, notes: list[str]) -> tuple[str, ...]:
    """The whole steps of JSON that is cut, or the items of a list. At most MOST_STEPS, each cut to its length."""
    if found := _CUT_STEPS.search(body):
        notes.append("its JSON is incomplete")
        steps = [str(msgspec.json.decode(text)) for text in _STRINGS.findall(found[1]) if _decodes(text)]
    else:
        steps = [found[1] for line in body.splitlines() if (found := _STEP.fullmatch(line.strip()))]
        steps = [step for step in steps if not _CONFIDENCE.match(step)]
        notes += ["it is a list in plain text"] if steps else []
    steps = [step.strip() for step in steps if step.strip()]
    if len(steps) > MOST_STEPS or any(len(step) > STEP_CHARACTERS for step in steps):
        notes.append(f"the plan was shortened to {MOST_STEPS} steps of {STEP_CHARACTERS} characters")
    return tuple(step[:STEP_CHARACTERS] for step in steps[:MOST_STEPS])


def _confidence(body: str, notes: list[str]) -> float | None:
    """The last confidence that is written out, as a share; percent and tenths are understood."""
    every = list(_CONFIDENCE.finditer(body))
    if not every:
        return None
    found = every[-1]
    value, unit = float(found[1].replace(",", ".")), (found[2] or "").replace(" ", "")
    value /= {"%": 100.0, "/100": 100.0, "/10": 10.0}.get(unit, 1.0)
    if unit:
        notes.append(f"confidence was written as {found[0].strip()!r}")
    return value if 0 <= value <= 1 else None


def _cut_text(body: str) -> str:
    found = _CUT_TEXT.search(body)
    text = f'"{found[1]}"' if found else '""'
    return str(msgspec.json.decode(text)) if _decodes(text) else ""


def _decodes(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _json(body: str, kind: type[T]) -> T | None:
    """The body as `kind` when it is just that."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        return None


_READERS = cast(
    dict[CouncilStage, Callable[[str, list[str]], Value | None]],
    {"plan": _plan, "refine": _refined, "verify": _verification},
)
