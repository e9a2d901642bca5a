"""What happened in a turn, gathered while it happens, told at its end: to the person, the memory and the turn log."""

import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from council.depth import DepthChoice
from council.state_machine import End, Rulebook
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.acting import RESPONSE, Acting
from gaiad.turn.beside import SurfacingPass, as_metadata, shown_in
from gaiad.turn.cognition import Prepared
from gaiad.turn.gathering import CHOSEN_PERSONA, CHOSEN_PROJECT, Gathered
from gaiad.turn.stage_call import CUT, StageCall
from gaiad.wire.chat import Also, ChatAnswer, ChatBlock, ChatRequest
from gaiad.wire.council import EscalationRecord, StageRecord, TurnRecord, VoteRecord
from gaiad.wire.governance import Approval
from gaiad.wire.memory import NOTHING_FOUND, SessionTurn, TurnBlock, TurnMessage
from gaiad.wire.schemas import Citation
from prompts.budget import Built
from prompts.packet import RiskLevel

_CUT = "\n[... {} characters left out ...]\n"


class Executed(NamedTuple):
    """`revert` puts the work directory back: "" when that was done, else why not. It may raise Unavailable."""

    approval: Approval
    revert: Callable[[], Coroutine[Any, Any, str]]


def command_line(approval: Approval) -> str:
    """The arguments as a shell would take them; what hides or moves text on a screen is spelled out."""
    line = shlex.join(approval.command)
    return f"`{line if line.isprintable() else ' '.join(map(ascii, approval.command))}`"


def how_it_ended(approval: Approval) -> str:
    """In a few words."""
    execution = approval.execution
    if execution is None:
        return "was not run"
    return f"was stopped: {execution.stopped}" if execution.stopped else f"ended with status {execution.exit_status}"


def result_text(approval: Approval, shown_characters: int) -> str:
    """What Verify reads of it: the command, how it ended, what it wrote."""
    execution = approval.execution
    output = "" if execution is None else execution.output.strip()
    lines = [
        f"{command_line(approval)} was approved by the person and {how_it_ended(approval)}.",
        "It ran in a sandbox without network; only its work directory /work could be changed.",
        f"It wrote:\n{shortened(output, shown_characters)}" if output else "It wrote nothing.",
    ]
    return "\n".join(lines)


def shortened(text: str, characters: int) -> str:
    """Beginning and end, where it is longer."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}{_CUT.format(len(text) - 2 * half)}{text[-half:]}"


AWAITING_APPROVAL = "AWAITING_APPROVAL"
STATUS_OF = {
    "unverified": "UNVERIFIED",
    "asks_person": "ASKS_PERSON",
    "awaits_approval": AWAITING_APPROVAL,
    "reverted": "REVERTED",
    "refused": "REFUSED",
}
CANCELLED, FAILED = "CANCELLED", "FAILED"
UNANSWERED = "unanswered"  # in a turn's metadata


class WrittenBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One marked block of the turn and the role that wrote it."""

    marker: str
    text: str
    role: str


class TurnState:
    """`shown` is the answer as the person sees it now, or with `answered` False what is said in place of one; `model`
    and `packet_id` are those of the last Act. `executed` is the command that a continuation turn verifies, `beside`
    the look for an earlier packet to name below. `kept` is how the memory keeps blocks, by marker (decision 16).
    """

    def __init__(
        self,
        gathered: Gathered,
        choice: DepthChoice,
        rules: Rulebook,
        started: str,
        risk: RiskLevel,
        kept: Mapping[str, str],
    ) -> None:
        self.request: ChatRequest = gathered.request
        self.gathered = gathered
        self.rules = rules
        self.kept = kept
        self.choice = choice
        self.started = started
        self.risk = risk
        self.shown = ""
        self.answered = True
        self.cited: list[str] = []
        self.blocks: list[WrittenBlock] = []
        self.stages: list[StageRecord] = []
        self.votes: list[VoteRecord] = []
        self.escalations: list[EscalationRecord] = []
        self.notes: list[str] = []
        self.act_notes: list[str] = []
        self.confidence: float | None = None
        self.model: PooledModel | None = None
        self.base: Prepared | None = None
        self.packet_id = ""
        self.acted: Built | None = None
        self.executed: Executed | None = None
        self.also: Also | None = None
        self.beside: SurfacingPass | None = None
        self.status = CANCELLED
        self.end: End | None = None

    def block(self, marker: str, text: str, role: str) -> WrittenBlock:
        """A block that is there to stay."""
        told = WrittenBlock(marker=marker, text=text, role=role)
        self.blocks.append(told)
        return told

    def show(self, text: str) -> str:
        """More of the answer, as the person sees it."""
        self.shown += text
        return text

    def acts(self, stage: StageCall) -> None:
        """This call writes the answer; what was to be said of one before it is void."""
        self.act_notes = []
        self.model, self.acted = stage.model, stage.built
        self.packet_id = stage.built.packet.packet_id

    def citable(self) -> set[str]:
        """The packets that a text may cite: those in its context, and those the research cites."""
        context = [] if self.acted is None else self.acted.packet.context
        found = self.gathered.found
        return {item.packet_id for item in context} | {c.packet_id for c in (found.citations if found else ())}

    def read(self, stage: StageCall, acting: Acting) -> None:
        """What is to be said of how the answer was written."""
        stage.notes += acting.notes
        if acting.removed:
            named = ", ".join(dict.fromkeys(acting.removed))
            self.act_notes.append(f"citations of packets that were not in the context were removed: {named}")
        if stage.reply is not None and stage.reply.reason == "length":
            self.act_notes.append(f"the reply ended at its limit of {stage.asked.max_tokens} tokens")
        if stage.failure == CUT and not acting.stopped:
            self.act_notes.append(CUT)

    def sizes(self, stage: StageCall) -> dict[str, Any]:
        """The packet of a stage, for whoever watches."""
        manifest = stage.built.manifest
        return {
            "packet_id": stage.built.packet.packet_id,
            "stage": stage.task.stage,
            "mtu": manifest.mtu,
            "total_tokens": manifest.total_tokens,
            "persona": self.gathered.persona,
            "engine": engine_name(stage.model.name, stage.model.kind),
            "history": self.gathered.note,
        }

    def ended(self, end: End) -> None:
        """How it came out; an answer has the status of what was found in the archive, if that was asked, and one that
        was cut at its deadline is PARTIAL.
        """
        self.end = end
        found = self.gathered.note.status or "SUCCESS"
        found = "PARTIAL" if CUT in self.act_notes and found == "SUCCESS" else found
        self.status = STATUS_OF.get(end.ending, found)

    def sources(self) -> list[str]:
        """The packets that the answer cites; what only stood in the context is not a source. None without an answer."""
        return self.cited if self.answered else []

    def citations(self) -> list[Citation]:
        """What was found in the sources, word for word: a page opens there."""
        found, sources = self.gathered.found, self.sources()
        return [] if found is None else [one for one in found.citations if one.packet_id in sources]

    def turn(self, ended_at: str) -> SessionTurn:
        """What the memory keeps: what was said, and the blocks that become pages."""
        names = self.gathered.names
        texts = [told for told in self._in_order() if self.kept.get(told.marker) == "page" and told.text]
        model = self.model
        return SessionTurn(
            session_id=names.session_id,
            turn_id=names.turn_id,
            messages=[
                TurnMessage(role="user", content=self.request.message),
                *self._said(),
            ],
            started_at=self.started,
            ended_at=ended_at,
            persona=self.gathered.persona,
            model="" if model is None else model.name,
            fingerprint="" if model is None else model.fingerprint,
            status=self.status,
            blocks=[TurnBlock(marker=told.marker, text=told.text, role=told.role) for told in texts],
            sources=self.sources(),
            classification=self.gathered.labels.classification,
            policy_tags=self.gathered.labels.policy_tags,
            metadata={**self._chosen(), **self._events(), **as_metadata(self.also, self._surfaced())},
        )

    def _surfaced(self) -> list[str]:
        """All earlier packets that the session has shown by now."""
        return shown_in(self.gathered.turns) if self.beside is None else self.beside.surfaced

    def _said(self) -> list[TurnMessage]:
        """The answer. A model without weights that quotes nothing says that nothing was found: that is not evidence."""
        nothing = self.model is not None and self.model.kind == "extractive" and not self.cited
        said = TurnMessage(role="assistant", content=self.shown, marker=NOTHING_FOUND if nothing else "")
        return [said] if self.shown else []

    def _chosen(self) -> dict[str, Any]:
        """What a person chose for the session, so that its next turn has it too."""
        chosen = {CHOSEN_PERSONA: self.gathered.chosen_persona, CHOSEN_PROJECT: self.gathered.chosen_project}
        return {what: name for what, name in chosen.items() if name}

    def _events(self) -> dict[str, Any]:
        """An INTERRUPT is remembered as an event and not as a page (decision 16), and so is that there is no answer."""
        reasons = [told.text for told in self.blocks if told.marker == "INTERRUPT" and "INTERRUPT" in self.kept]
        unanswered = {} if self.answered else {UNANSWERED: True}
        return {**({"interrupts": reasons} if reasons else {}), **unanswered}

    def record(self, ended_at: str) -> TurnRecord:
        """What the turn log keeps."""
        names, end = self.gathered.names, self.end
        return TurnRecord(
            turn_id=names.turn_id,
            session_id=names.session_id,
            depth=self.choice.depth,
            depth_why=self.choice.why,
            stages=self.stages,
            votes=self.votes,
            status=self.status,
            end_why="" if end is None else end.why,
            reduced_quorum=end is not None and end.reduced_quorum,
            message=self.request.message,
            persona=self.gathered.persona,
            started_at=self.started,
            ended_at=ended_at,
            risk_level=self.risk,
            escalations=self.escalations,
            blocks=[msgspec.to_builtins(told) for told in self._in_order()],
            notes=[*self.gathered.notes, *self.act_notes, *self.notes],
            history=self.gathered.note,
        )

    def answer(self) -> ChatAnswer:
        """What the person gets."""
        names, end, base = self.gathered.names, self.end, self.base
        return ChatAnswer(
            session_id=names.session_id,
            turn_id=names.turn_id,
            packet_id=self.packet_id,
            blocks=[ChatBlock(marker=told.marker, text=told.text) for told in self._in_order() if told.text],
            answer=self.shown,
            sources=self.sources(),
            status=self.status,
            engine="" if self.model is None else engine_name(self.model.name, self.model.kind),
            persona=self.gathered.persona,
            history=self.gathered.note,
            timings={
                "prepare_ms": round(self.gathered.took_ms + (base.took_ms if base else 0.0), 3),
                **times_of(self.stages),
            },
            tokens=tokens_of(self.stages),
            notes=[*self.gathered.notes, *self.act_notes, *self.notes],
            depth=self.choice.depth,
            depth_why=self.choice.why,
            reduced_quorum=end is not None and end.reduced_quorum,
            answered=self.answered,
            end_why="" if end is None else end.why,
            votes=self.votes,
            escalations=self.escalations,
            also=self.also,
            citations=self.citations(),
        )

    def _in_order(self) -> list[WrittenBlock]:
        """The last plan, and the answer where Act was: before its thoughts for later and what was verified of it."""
        plans = [told for told in self.blocks if told.marker == "PLAN"]
        blocks = [told for told in self.blocks if told.marker != "PLAN" or told is plans[-1]]
        answer = [WrittenBlock(marker=RESPONSE, text=self.shown, role=self._actor())] if self.shown else []
        place = next((i for i, told in enumerate(blocks) if told.marker in _AFTER_ANSWER), len(blocks))
        return [*blocks[:place], *answer, *blocks[place:]]

    def _actor(self) -> str:
        return next((row.role for row in reversed(self.stages) if row.stage == "act"), self.request.role)


VERY_SMALL = "SmolLM2-135M"
"""The model that a checkout starts with (`make run`)."""
_AFTER_ANSWER = ("THOUGHT_SEED", "VERIFY")
_TIMES = ("queue_ms", "prefill_ms", "decode_ms")


def times_of(stages: Sequence[StageRecord]) -> dict[str, float]:
    """Milliseconds of all stages together, by what they went into."""
    return {name: round(sum(getattr(row, name) for row in stages), 3) for name in _TIMES}


def tokens_of(stages: Sequence[StageRecord]) -> dict[str, int]:
    """Tokens of all stages together: read, found in the cache, written."""
    return {
        "prompt": sum(row.prompt_tokens for row in stages),
        "cached": sum(row.cached_tokens for row in stages),
        "reply": sum(row.tokens for row in stages),
    }


def engine_name(name: str, kind: str) -> str:
    """What wrote the answer, for its footer (decision 4)."""
    if name == VERY_SMALL:
        return f"{name}, a very small model; `gaiad models use` for a better one"
    return name if name == kind else f"{name} ({kind})"


def risk_of(word: str) -> RiskLevel:
    """A risk as it was written down; what cannot be read is high."""
    known: dict[str, RiskLevel] = {"low": "low", "med": "med"}
    return known.get(word, "high")


def as_event(told: WrittenBlock) -> dict[str, Any]:
    """A block on its way to the person."""
    found: dict[str, Any] = msgspec.to_builtins(told)
    return found
