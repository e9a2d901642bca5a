"""Writes down what happens in a turn: messages of the council, the audit, the turn log, the memory.

What cannot be written is named in the answer's notes and in the log; it costs neither the answer nor the rest.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from council.execute_review import Considered
from council.observer import ObserverCheck
from council.quorum import Seat
from council.roles import voters
from council.stage_output import ParsedReply
from council.stages import Command, RefinedPlan
from council.state_machine import Escalation, StageTask, TurnStateMachine
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.ids import short
from gaiad.base.ports import RequestContext
from gaiad.ledger.turn_log import RUNNING
from gaiad.turn.acting import Acting
from gaiad.turn.services import TurnServices, present
from gaiad.turn.stage_call import StageCall
from gaiad.turn.turn_state import CANCELLED, FAILED, TurnState, command_line
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.council import EscalationRecord, StageRecord
from gaiad.wire.governance import Approval, ApprovalWish
from prompts.packet import RiskLevel

REFUSED, REVERTED = "REFUSED", "REVERTED"


class TurnRecorder:
    """Of one turn. `may_execute` is whether its Act may ask for commands, `waiting` are those that a person decides."""

    def __init__(
        self, services: TurnServices, turn_store: TurnStore, turn_state: TurnState, tenant: str, *, may_execute: bool
    ) -> None:
        self.may_execute = may_execute
        self.services = services
        self._turn_store = turn_store
        self.turn_state = turn_state
        self._tenant = tenant
        self._names = turn_state.gathered.names
        self._raised = 0
        self.waiting: list[Approval] = []
        self._beside: list[asyncio.Task[str]] = []

    def seats(self) -> list[Seat]:
        """Who can do a stage now."""
        return present(self.services.room)

    def beside(self, otherwise: str, work: Coroutine[Any, Any, Any]) -> None:
        """Write something while the turn goes on; `otherwise` is said if that fails."""
        self._beside.append(self._turn_store.begin(self._turn_store.attempt(otherwise, work)))

    # -- stages

    def begin(self) -> None:
        """The turn is in the log from now on, should the daemon end before it does."""
        running = msgspec.structs.replace(self.turn_state.record(""), status=RUNNING)
        self.beside("not in the turn log", self.services.turn_log.put(self._tenant, running))

    def called(self, stage: StageCall) -> None:
        """A stage call is over, however: its packet and the turn so far are kept. One that was cut off has its row."""
        if not any(row.packet_id == stage.built.packet.full_id for row in self.turn_state.stages):
            self.turn_state.stages.append(stage.record("cancelled"))
        if stage.reply is not None:
            self.services.rates.observe(stage.model.name, stage.reply)
        self.beside(
            "its packet was not kept", self._turn_store.keep(self._names.session_id, stage.sent(), self._tenant)
        )
        self.begin()

    async def thought(self, stage: StageCall, reading: ParsedReply, wrote: str) -> None:
        """A stage that only the council reads has ended; `wrote` is its block, "" for none."""
        value = reading.value
        content = wrote or f"{stage.task.stage}: {reading.outcome} ({'; '.join(stage.notes)})"
        confidence = value.confidence if isinstance(value, RefinedPlan) else None
        await self._say(stage.task.role, stage.task.duty, content, confidence=confidence)
        self._reflect(stage.task, reading.outcome, confidence)

    async def acted(self, stage: StageCall, outcome: str, acting: Acting) -> None:
        """An answer is written; its words are the person's, the council hears that there is one and what else came."""
        content = f"RESPONSE of {len(acting.shown)} characters, {stage.tokens} tokens: {outcome}"
        loose = [body.strip() for marker, body in acting.others if marker == "" and body.strip()]
        content += "".join(f"\nbefore it: {text}" for text in loose)
        await self._say(stage.task.role, stage.task.duty, content)
        for seed in acting.seeds:
            await self._say(stage.task.role, stage.task.duty, f"THOUGHT_SEED: {seed}")

    async def interrupted(self, stage: StageCall, reason: str, observer: str) -> None:
        """The observer stopped the text."""
        await self._say(observer, "observer", f"INTERRUPT: {reason}", risk_level="med")
        body = {"turn_id": self._names.turn_id, "role": stage.task.role, "reason": reason}
        await self._audit("council.interrupt", observer, body)

    async def lost(self, task: StageTask, error: GaiadError, stage: StageCall | None) -> None:
        """A role died, stopped, was too slow, or its model could not take the packet."""
        if stage is not None:
            stage.failure = stage.failure or error.message
        row = _unsent(task, error) if stage is None else stage.record("lost")
        self.turn_state.stages.append(row)
        self._reflect(task, "lost", None)
        await self._say(task.role, task.duty, f"{task.stage} was lost: {error.message}")

    def _reflect(self, task: StageTask, outcome: str, confidence: float | None) -> None:
        """Refine and Verify are what the stability score is made of (GCP 3.3)."""
        if task.stage in ("refine", "verify"):
            self.beside("not reflected on", self.services.reflect(task.stage, outcome, confidence))

    def look(self, look: ObserverCheck) -> StageRecord:
        """One look of the observing model, as a stage of the turn."""
        said = look.said
        return StageRecord(
            stage="observe",
            role=look.role,
            packet_id="" if said is None else said.packet_id,
            tokens=look.tokens,
            cached_tokens=0 if said is None else said.cached_tokens,
            ms=round(look.ms, 3),
            verdict=look.outcome,
            why=f"it read along at {look.characters} characters",
            model="" if said is None else said.model,
            task_instruction="observer_window",
            prompt_tokens=0 if said is None else said.prompt_tokens,
            prompt_sha256="" if said is None else said.prompt_sha256,
            seed=0 if said is None else said.seed,
            fingerprint="" if said is None else said.fingerprint,
            queue_ms=0.0 if said is None else round(said.queue_ms, 3),
            prefill_ms=0.0 if said is None else round(said.prefill_ms, 3),
            decode_ms=0.0 if said is None else round(said.decode_ms, 3),
            notes=[look.why] if look.why else [],
        )

    async def consider(self, commands: Sequence[Command], stage: StageCall, call: RequestContext) -> list[Considered]:
        """What the council says to the commands that Act wants; the person learns of it in any case."""
        found = await self.services.review.consider(
            commands,
            stage.task.role,
            call,
            request=self.turn_state.request.message,
            turn_id=self._names.turn_id,
            session_id=self._names.session_id,
        )
        for one in found:
            self.turn_state.votes.append(one.vote)
            self.turn_state.notes.append(await self._queued(one, stage, call) if one.may_ask else one.told)
        return found

    async def _queued(self, one: Considered, stage: StageCall, call: RequestContext) -> str:
        """Put a command that was agreed to in the queue; what the person reads of it."""
        wish = ApprovalWish(
            command=one.command.argv,
            sha256=one.sha256,
            proposed_by=stage.task.role,
            votes=one.vote.ballots,
            risk_level=self.turn_state.risk,
            turn_id=self._names.turn_id,
            session_id=self._names.session_id,
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

    def what_waits(self) -> str:
        """The commands in the queue, and how the person decides."""
        return ". ".join(f"{command_line(one)} is agreed to. {_how_to_decide(one)}" for one in self.waiting)

    async def escalations(self, machine: TurnStateMachine) -> list[EscalationRecord]:
        """Those that are new since it was asked last: posted, audited and shown in status."""
        fresh, self._raised = machine.escalations[self._raised :], len(machine.escalations)
        return [await self._escalate(one) for one in fresh]

    async def _escalate(self, found: Escalation) -> EscalationRecord:
        risk: RiskLevel = "high" if "high_risk" in found.triggers else "med"
        content = f"To {found.to}: {found.why}"
        message_id = await self._say(found.raised_by, "member", content, type="ESCALATION", risk_level=risk)
        record = EscalationRecord(
            message_id=message_id,
            raised_by=found.raised_by,
            to=found.to,
            triggers=list(found.triggers),
            why=found.why,
            turn_id=self._names.turn_id,
            at=self._turn_store.now(),
        )
        self.turn_state.escalations.append(record)
        await self._audit("council.escalation", found.raised_by, msgspec.to_builtins(record))
        room = self.services.room
        await self._attempt(
            "not shown in status", room.escalated(self._tenant, record, session_id=self._names.session_id)
        )
        return record

    # -- the end

    def _thoughts(self) -> None:
        """Thoughts of an answer that holds are kept for later."""
        if self.turn_state.status in (CANCELLED, FAILED, REFUSED, REVERTED):
            return
        for told in self.turn_state.blocks:
            if told.marker == "THOUGHT_SEED":
                work = self.services.add_seed(self._tenant, told.text, self._names.turn_id)
                self.beside("a thought was not kept", work)

    def reduced(self) -> bool:
        """Whether fewer roles than a quorum can vote as their hearts beat now (decision 10)."""
        return len(voters(self.services.room.seats())) < self.services.rules.quorum.quorum_roles

    async def close(self) -> None:
        """Keep all of it, also when the turn is cancelled meanwhile. A turn that failed is in the turn log alone; one
        that was left is remembered as heard.
        """
        await self._turn_store.finish(self._close())

    async def _close(self) -> None:
        turn_state = self.turn_state
        self._thoughts()
        for words in await asyncio.gather(*self._beside):
            self._note(words)
        heard = turn_state.status == CANCELLED and bool(turn_state.shown.strip())
        if heard or turn_state.status not in (CANCELLED, FAILED, REFUSED):
            turn = turn_state.turn(self._turn_store.now())
            await self._attempt("not remembered", self._turn_store.remember(turn, self._tenant))
        record = turn_state.record(self._turn_store.now())
        await self._attempt("not in the turn log", self.services.turn_log.put(self._tenant, record))

    async def _say(
        self,
        sender: str,
        role: str,
        content: str,
        *,
        type: str = "INFO",
        confidence: float | None = None,
        risk_level: RiskLevel | None = None,
    ) -> str:
        """Post it; the message's full id, "" when it could not be kept."""
        posted: list[str] = []

        async def post() -> None:
            envelope = await self.services.room.post(
                self._tenant,
                sender=sender,
                role=role,
                type="ESCALATION" if type == "ESCALATION" else "INFO",
                content=content,
                turn_id=self._names.turn_id,
                confidence=confidence,
                risk_level=risk_level,
            )
            posted.append(envelope.full_id)

        await self._attempt("not in the council's log", post())
        return posted[0] if posted else ""

    async def _audit(self, kind: str, actor: str, body: dict[str, Any]) -> None:
        work = self.services.audit.append(kind, actor, body, RequestContext(self._tenant))
        await self._attempt("not in the audit", work)

    async def _attempt(self, otherwise: str, work: Coroutine[Any, Any, Any]) -> None:
        self._note(await self._turn_store.attempt(otherwise, work))

    def _note(self, said: str) -> None:
        if said and said not in self.turn_state.notes:
            self.turn_state.notes.append(said)


def _how_to_decide(approval: Approval) -> str:
    digits, until = short(approval.id), approval.expires_at[:19].replace("T", " ")
    return f"It waits for you until {until} UTC: gaiad approve {digits}, or gaiad deny {digits}"


def _unsent(task: StageTask, error: GaiadError) -> StageRecord:
    return StageRecord(
        stage=task.stage,
        role=task.role,
        packet_id="",
        tokens=0,
        cached_tokens=0,
        ms=0.0,
        verdict="lost",
        why=task.why,
        stands_in_for=task.stands_in_for or "",
        task_instruction=task.task_instruction,
        notes=[error.message],
    )
