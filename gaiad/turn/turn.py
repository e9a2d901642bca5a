"""A turn while it happens: what was said and decided so far, each step written down as it is taken.

Messages of the council, votes, escalations and the audit are written here; what comes of the turn, its record, memory
and answer, is in `turn_record`. What cannot be written is named in the answer's notes and in the log; it costs neither
the answer nor the rest.
"""

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec

from council.depth import DepthChoice
from council.execute_review import Considered
from council.quorum import Seat
from council.roles import voters
from council.stage_output import ParsedReply
from council.stages import Command, RefinedPlan, Verification
from council.state_machine import End, Escalation, Rulebook, StageTask, TurnStateMachine
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.ids import short
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.acting import Acting
from gaiad.turn.beside import SurfacingPass
from gaiad.turn.gathering import Gathered
from gaiad.turn.services import TurnServices, present
from gaiad.turn.stage_call import CUT, StageCall, unsent
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import Also
from gaiad.wire.council import EscalationRecord, StageRecord, VoteRecord
from gaiad.wire.governance import Approval, ApprovalWish
from gaiad.wire.schemas import Citation
from prompts.budget import Built
from prompts.packet import RiskLevel

_CUT = "\n[... {} characters left out ...]\n"
CANCELLED, FAILED, REFUSED, REVERTED = "CANCELLED", "FAILED", "REFUSED", "REVERTED"
_STATUS_OF = {
    "unverified": "UNVERIFIED",
    "asks_person": "ASKS_PERSON",
    "awaits_approval": "AWAITING_APPROVAL",
    "reverted": REVERTED,
    "refused": REFUSED,
}


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


def succeeded(approval: Approval) -> bool:
    """Whether it ended by itself, with status 0."""
    return approval.execution is not None and approval.execution.exit_status == 0


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


class WrittenBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One marked block of the turn and the role that wrote it."""

    marker: str
    text: str
    role: str


class Turn:
    """`shown` is the answer as the person sees it now, or with `answered` False what is said in place of one; `model`
    and `packet_id` are those of the last Act. `executed` is the command that a continuation turn verifies, `beside`
    the look for an earlier packet to name below. `may_execute` is whether Act may ask for commands, `waiting` are those
    that a person decides.
    """

    def __init__(
        self,
        services: TurnServices,
        turn_store: TurnStore,
        gathered: Gathered,
        choice: DepthChoice,
        rules: Rulebook,
        *,
        tenant: str,
        started: str,
        risk: RiskLevel,
        may_execute: bool = False,
        executed: Executed | None = None,
    ) -> None:
        self.services = services
        self.turn_store = turn_store
        self.gathered = gathered
        self.request = gathered.request
        self.names = gathered.names
        self.choice = choice
        self.rules = rules
        self.kept = services.kept
        self.tenant = tenant
        self.started = started
        self.risk = risk
        self.may_execute = may_execute
        self.executed = executed
        self.shown = ""
        self.answered = True
        self.cited: list[str] = []
        self.blocks: list[WrittenBlock] = []
        self.stages: list[StageRecord] = []
        self.votes: list[VoteRecord] = []
        self.escalations: list[EscalationRecord] = []
        self.waiting: list[Approval] = []
        self.notes: list[str] = []
        self.act_notes: list[str] = []
        self.confidence: float | None = None
        self.model: PooledModel | None = None
        self.packed_ms = 0.0
        self.packet_id = ""
        self.acted: Built | None = None
        self.also: Also | None = None
        self.beside: SurfacingPass | None = None
        self.status = CANCELLED
        self.end: End | None = None
        self._raised = 0
        self._writing: list[asyncio.Task[str]] = []

    # -- what is known of it

    def seats(self) -> list[Seat]:
        """Who can do a stage now."""
        return present(self.services.room)

    def reduced(self) -> bool:
        """Whether fewer roles than a quorum can vote as their hearts beat now (decision 10)."""
        return len(voters(self.services.room.seats())) < self.services.rules.quorum.quorum_roles

    def last(self, marker: str) -> str:
        """The newest block of that marker, "" without one."""
        return next((block.text for block in reversed(self.blocks) if block.marker == marker), "")

    def citable(self) -> set[str]:
        """The packets that a text may cite: those in its context, and those the research cites."""
        context = [] if self.acted is None else self.acted.packet.context
        found = self.gathered.found
        return {item.packet_id for item in context} | {c.packet_id for c in (found.citations if found else ())}

    def sources(self) -> list[str]:
        """The packets that the answer cites; what only stood in the context is not a source. None without an answer."""
        return self.cited if self.answered else []

    def citations(self) -> list[Citation]:
        """What was found in the sources, word for word: a page opens there."""
        found, sources = self.gathered.found, self.sources()
        return [] if found is None else [one for one in found.citations if one.packet_id in sources]

    def all_notes(self) -> list[str]:
        """What the person is to know besides the answer."""
        return [*self.gathered.notes, *self.act_notes, *self.notes]

    def what_waits(self) -> str:
        """The commands in the queue, and how the person decides."""
        return ". ".join(f"{command_line(one)} is agreed to. {_how_to_decide(one)}" for one in self.waiting)

    # -- its text

    def block(self, marker: str, text: str, role: str) -> WrittenBlock:
        """A block that is there to stay."""
        written = WrittenBlock(marker=marker, text=text, role=role)
        self.blocks.append(written)
        return written

    def show(self, text: str) -> str:
        """More of the answer, as the person sees it."""
        self.shown += text
        return text

    def acts(self, stage: StageCall) -> None:
        """This call writes the answer; notes on an earlier one are dropped."""
        self.act_notes = []
        self.model, self.acted = stage.model, stage.built
        self.packet_id = stage.built.packet.packet_id

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

    def ended(self, end: End) -> None:
        """How it came out; an answer has the status of what was found in the archive, if that was asked, and one that
        was cut at its deadline is PARTIAL. Only a SUCCESS becomes UNVERIFIED: the others do not say that it is right.
        """
        self.end = end
        found = self.gathered.note.status or "SUCCESS"
        found = "PARTIAL" if CUT in self.act_notes and found == "SUCCESS" else found
        if end.ending != "unverified" or found == "SUCCESS":
            found = _STATUS_OF.get(end.ending, found)
        self.status = found

    # -- its stages, as the council and the audit hear of them

    async def thought(self, stage: StageCall, reading: ParsedReply, wrote: str) -> None:
        """A stage that only the council reads has ended; `wrote` is its block's text, "" for none."""
        value = reading.value
        content = f"VERIFY: {wrote}" if isinstance(value, Verification) else f"PLAN:\n{wrote}"
        if not wrote:
            content = f"{stage.task.stage}: {reading.outcome} ({'; '.join(stage.notes)})"
        confidence = value.confidence if isinstance(value, RefinedPlan) else None
        await self._say(stage.task.role, stage.task.duty, content, confidence=confidence)
        self._reflect(stage.task, reading.outcome, confidence)

    async def answer_written(self, stage: StageCall, outcome: str, acting: Acting) -> None:
        """Its words are the person's; the council hears that there is an answer and what else came."""
        content = f"RESPONSE of {len(acting.shown)} characters, {stage.tokens} tokens: {outcome}"
        loose = [body.strip() for marker, body in acting.others if marker == "" and body.strip()]
        content += "".join(f"\nbefore it: {text}" for text in loose)
        await self._say(stage.task.role, stage.task.duty, content)
        for marker, text in acting.beside:
            await self._say(stage.task.role, stage.task.duty, f"{marker}: {text}")

    async def interrupted(self, acted_by: str, reason: str, observer: str) -> None:
        """The observer stopped what this role wrote, or a command of its failed."""
        await self._say(observer, "observer", f"INTERRUPT: {reason}", risk_level="med")
        body = {"turn_id": self.names.turn_id, "role": acted_by, "reason": reason}
        await self._audit("council.interrupt", observer, body)

    async def lost(self, task: StageTask, error: GaiadError, stage: StageCall | None) -> None:
        """A role died, stopped, was too slow, or its model could not take the packet."""
        if stage is not None:
            stage.failure = stage.failure or error.message
        self.stages.append(unsent(task, error) if stage is None else stage.record("lost"))
        self._reflect(task, "lost", None)
        await self._say(task.role, task.duty, f"{task.stage} was lost: {error.message}")

    def _reflect(self, task: StageTask, outcome: str, confidence: float | None) -> None:
        """Refine and Verify are what the stability score is made of (GCP 3.3)."""
        if task.stage in ("refine", "verify"):
            self.write("not reflected on", self.services.reflect(task.stage, outcome, confidence))

    async def consider(self, commands: Sequence[Command], stage: StageCall, call: RequestContext) -> list[Considered]:
        """What the council says to the commands that Act wants; the person learns of it in any case."""
        found = await self.services.review.consider(
            commands,
            stage.task.role,
            call,
            request=self.request.message,
            turn_id=self.names.turn_id,
            session_id=self.names.session_id,
        )
        for one in found:
            self.votes.append(one.vote)
            self.notes.append(await self._queued(one, stage, call) if one.may_ask else one.told)
        return found

    async def _queued(self, one: Considered, stage: StageCall, call: RequestContext) -> str:
        """Put a command that was agreed to in the queue; what the person reads of it."""
        wish = ApprovalWish(
            command=one.command.argv,
            sha256=one.sha256,
            proposed_by=stage.task.role,
            votes=one.vote.ballots,
            risk_level=self.risk,
            turn_id=self.names.turn_id,
            session_id=self.names.session_id,
            why=one.command.why,
            told=one.told,
        )
        try:
            approval = await self.services.approvals.ask(wish, call)
        except Cancelled:
            raise
        except GaiadError as error:
            return f"{one.told}. It cannot wait for you: {error.message}"
        self.waiting.append(approval)
        return f"{one.told}. {_how_to_decide(approval)}"

    async def escalate(self, machine: TurnStateMachine) -> list[EscalationRecord]:
        """Those that are new since it was asked last: posted, audited and shown in status."""
        fresh, self._raised = machine.escalations[self._raised :], len(machine.escalations)
        return [await self._escalated(one) for one in fresh]

    async def _escalated(self, found: Escalation) -> EscalationRecord:
        risk: RiskLevel = "high" if "high_risk" in found.triggers else "med"
        content = f"To {found.to}: {found.why}"
        record = EscalationRecord(
            message_id=await self._say(found.raised_by, "member", content, type="ESCALATION", risk_level=risk),
            raised_by=found.raised_by,
            to=found.to,
            triggers=list(found.triggers),
            why=found.why,
            turn_id=self.names.turn_id,
            at=self.turn_store.now(),
        )
        self.escalations.append(record)
        await self._audit("council.escalation", found.raised_by, msgspec.to_builtins(record))
        shown = self.services.room.escalated(self.tenant, record, session_id=self.names.session_id)
        await self.attempt("not shown in status", shown)
        return record

    # -- writing

    def write(self, otherwise: str, work: Coroutine[Any, Any, Any]) -> None:
        """Write something while the turn goes on; `otherwise` is said if that fails."""
        self._writing.append(self.turn_store.begin(self.turn_store.attempt(otherwise, work)))

    async def written(self) -> None:
        """Wait until all that was begun is written."""
        for failure in await asyncio.gather(*self._writing):
            self._note(failure)

    async def attempt(self, otherwise: str, work: Coroutine[Any, Any, Any]) -> None:
        """Write something now; `otherwise` is noted if that fails."""
        self._note(await self.turn_store.attempt(otherwise, work))

    def _note(self, failure: str) -> None:
        if failure and failure not in self.notes:
            self.notes.append(failure)

    async def _say(self, sender: str, role: str, content: str, **told: Any) -> str:
        """Post it to the council; the message's full id, "" when it could not be kept."""
        posted: list[str] = []

        async def post() -> None:
            fields = {"type": "INFO", "turn_id": self.names.turn_id, **told}
            envelope = await self.services.room.post(self.tenant, sender=sender, role=role, content=content, **fields)
            posted.append(envelope.full_id)

        await self.attempt("not in the council's log", post())
        return posted[0] if posted else ""

    async def _audit(self, kind: str, actor: str, body: dict[str, Any]) -> None:
        work = self.services.audit.append(kind, actor, body, RequestContext(self.tenant))
        await self.attempt("not in the audit", work)


def _how_to_decide(approval: Approval) -> str:
    digits, until = short(approval.id), approval.expires_at[:19].replace("T", " ")
    return f"It waits for you until {until} UTC: gaiad approve {digits}, or gaiad deny {digits}"
