"""Takes one turn from its message to its last event: what is gathered, who takes it, how deep, and what is kept of it.

A turn is one of three: a new one; the one after an approved command was run, which verifies alone, with plan, answer
and result as its work (decision 13); and a rendering, which goes the same way to the same first packet and asks no
model. However a turn ends, its end is in the turn log.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import structs

from council.depth import DepthChoice, RequestSignals
from council.quorum import Seat
from council.roles import ROLES
from council.state_machine import PRIME, Rulebook, StageTask, TurnStateMachine
from gaiad.base.clock import Clock
from gaiad.base.errors import Cancelled, DeadlineExceeded, GaiadError, NotFound, Unavailable
from gaiad.base.events import EventStream
from gaiad.base.ports import RequestContext
from gaiad.ledger.turn_log import RUNNING
from gaiad.turn.beside import PrefixWarmup, Surfacing, SurfacingPass
from gaiad.turn.cognition import Assembler, Meta, Prepared, StagePackets, room_for_work
from gaiad.turn.council_turn import MEMO, CouncilTurn
from gaiad.turn.gathering import Gathered, Labels, labels_of
from gaiad.turn.prompt_factory import Names
from gaiad.turn.services import TurnServices, acting_role, choose, may_execute, present
from gaiad.turn.turn import CANCELLED, FAILED, Executed, Turn, command_line, result_text
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest, Rendering
from gaiad.wire.council import HistoryNote, RunningTurn, TurnRecord
from gaiad.wire.governance import Approval
from gaiad.wire.memory import SessionTurn
from prompts.packet import RiskLevel, WorkItem
from prompts.work import work_room

_MEMOS_SHARE = 0.1  # of the turn's time
_WHY = "a command that it proposed was approved and run"
_SHOWN_CHARACTERS = 3000
_RESULT_TOKENS = 1024
_RISKS: dict[str, RiskLevel] = {"low": "low", "med": "med"}  # what cannot be read is high


class TurnChoice(NamedTuple):
    """How a turn is taken: who is there, how deep it goes, by which rules, and what its message asks for."""

    seats: list[Seat]
    choice: DepthChoice
    asked: RequestSignals
    rules: Rulebook

    @property
    def full(self) -> bool:
        return self.choice.depth == "full"


class Turns:
    """Takes turns for a TurnTaker, which sees to it that a session has one at a time."""

    def __init__(
        self,
        assembler: Assembler,
        turn_store: TurnStore,
        services: TurnServices,
        clock: Clock,
        warmup: PrefixWarmup,
        surfacing: Surfacing,
    ) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._services = services
        self._clock = clock
        self._warmup = warmup
        self._surfacing = surfacing

    def longest_s(self, request: ChatRequest) -> float:
        """Seconds that a turn may take while its depth is not known yet."""
        return self._seconds(request.depth or self._services.config.depth)

    def _seconds(self, depth: str) -> float:
        config = self._services.config
        return config.deadline_s if depth == "fast" else config.full_deadline_s

    # -- a new turn

    async def take(
        self,
        request: ChatRequest,
        names: Names,
        turns: list[SessionTurn],
        call: RequestContext,
        stream: EventStream,
    ) -> None:
        """The research as it happens, then the turn through the council; see TurnTaker.take."""
        await stream.emit("turn", {"session_id": names.session_id, "turn_id": names.turn_id})
        await self._warmup.stop_session(call.tenant, names.session_id)
        with self._running(names, request.role, call.tenant):
            turn, council = await self._begun(request, names, turns, call, stream)
            await council.run()
            if turn.acted is not None and turn.model is not None:
                self._warmup.begin(turn.acted.packet, turn.shown, turn.model, call.tenant, names.session_id)

    @contextmanager
    def _running(self, names: Names, role: str, tenant: str) -> Generator[None]:
        """The room shows the turn as long as it is taken."""
        room = self._services.room
        room.begin(
            tenant, RunningTurn(turn_id=names.turn_id, session_id=names.session_id, depth="", stage="", role=role)
        )
        try:
            yield
        finally:
            room.end(names.turn_id)

    async def _begun(
        self,
        request: ChatRequest,
        names: Names,
        turns: list[SessionTurn],
        call: RequestContext,
        stream: EventStream,
    ) -> tuple[Turn, CouncilTurn]:
        """Gathered and convened. The turn is in the log from its first moment, and so is how it failed here."""
        began, record = self._clock.monotonic(), _record(request, names, self._turn_store.now())
        await self._log(call.tenant, record)
        status, why = CANCELLED, ""
        try:
            gathered = await self._assembler.gather(request, names, turns, call, stream.put, judges=self._judges())
            begun = await self._convene(gathered, record.started_at, began, call, stream)
            status = RUNNING
            return begun
        except Cancelled:
            raise
        except Exception as error:
            status, why = FAILED, error.message if isinstance(error, GaiadError) else repr(error)
            raise
        finally:
            if status != RUNNING:
                ended = structs.replace(record, status=status, end_why=why, ended_at=self._turn_store.now())
                await self._turn_store.finish(self._log(call.tenant, ended))

    async def _log(self, tenant: str, record: TurnRecord) -> None:
        await self._turn_store.attempt("not in the turn log", self._services.turn_log.put(tenant, record))

    async def _convene(
        self, gathered: Gathered, started: str, began: float, call: RequestContext, stream: EventStream
    ) -> tuple[Turn, CouncilTurn]:
        """Who takes the turn, how deep it goes, and by when it ends."""
        services = self._services
        resolved = services.room.resolved(call.tenant, gathered.names.session_id)
        await self._turn_store.attempt("an escalation is still shown as open", resolved)
        chosen = await self._choose(gathered.request, call)
        turn = Turn(
            services,
            self._turn_store,
            gathered,
            chosen.choice,
            chosen.rules,
            tenant=call.tenant,
            started=started,
            risk=chosen.asked.risk,
            may_execute=may_execute(services, chosen.choice, chosen.asked, chosen.seats, granted=gathered.may_execute),
        )
        if turn.may_execute and (refusal := services.approvals.refusal):
            turn.may_execute = False
            turn.notes.append(f"no command can be run here: {refusal}")
        if gathered.request.depth == "full" and not chosen.full:
            turn.notes.append(f"the council did not take this: {chosen.choice.why}")
        until = call.until(began + self._seconds(chosen.choice.depth))
        memos = await self._memos(gathered, until) if chosen.full else []
        turn.beside = self._look_beside(gathered, until)
        packets = self._packets(gathered, chosen)
        return turn, CouncilTurn(packets, turn, self._clock, until, stream.emit, memos)

    async def _choose(self, request: ChatRequest, call: RequestContext) -> TurnChoice:
        services = self._services
        await services.room.settled(call)
        seats = present(services.room)
        choice, asked = choose(services, request, seats)
        rules = services.rules
        if request.role != PRIME:
            rules = structs.replace(rules, roles=acting_role(rules.roles, request.role))
        return TurnChoice(seats, choice, asked, rules)

    def _packets(self, gathered: Gathered, chosen: TurnChoice) -> StagePackets:
        stages = chosen.rules.stages
        room = room_for_work(stages, self._assembler.factory.config.reserve_tokens) if chosen.full else 0
        return StagePackets(self._assembler, gathered, stages, room)

    def _look_beside(self, gathered: Gathered, call: RequestContext) -> SurfacingPass | None:
        """The look for an earlier packet that bears on the message; None when it is switched off.

        What any channel does not see is never named: the turn may be read on another than its own.
        """
        if not self._assembler.factory.config.proactive_context:
            return None
        found = [citation.packet_id for citation in gathered.found.citations] if gathered.found else []
        context = {*found, *(item.packet_id for item in gathered.context)}
        session_id = gathered.names.session_id
        return self._surfacing.begin(
            gathered.request.message, session_id, gathered.turns, context, call.without(call.guarded, ())
        )

    async def _memos(self, gathered: Gathered, call: RequestContext) -> list[str]:
        """What seeds the plan; a plan can do without."""
        try:
            return await self._assembler.memos(gathered, call.share(_MEMOS_SHARE, self._clock.monotonic()))
        except (Unavailable, DeadlineExceeded) as error:
            gathered.notes.append(f"the plan was made without memos: {error.message}")
            return []

    def _judges(self) -> bool:
        """Whether Prime's model has shown that it tells right from wrong, or may do all."""
        duties = self._services.room.duties(self._assembler.factory.model_of("prime").name)
        return duties is None or "verify" in duties

    # -- a rendering

    async def render(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: RequestContext
    ) -> Rendering:
        """What a turn's first stage would send at the depth it would have. Raises as Assembler.gather and pack."""
        chosen = await self._choose(request, call)
        gathered = await self._assembler.gather(
            request, names, turns, call, lambda _name, _data: None, judges=self._judges(), dry_run=True
        )
        first = TurnStateMachine(chosen.choice.depth, chosen.rules).begin(chosen.seats)
        if not isinstance(first, StageTask):
            raise Unavailable(f"no turn can be taken now: {first.why}", 5.0)
        packets = self._packets(gathered, chosen)
        reserve = 0 if first.stage == "act" else chosen.rules.stages.stages[first.stage].max_tokens
        memos = await self._assembler.memos(gathered, call) if chosen.full else []
        work = [WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else []
        built, _ = await packets.stage(first, work, Meta(), reserve, call)
        prepared, _ = await packets.base(first, call)
        choice = chosen.choice
        return structs.replace(
            rendering_of(prepared._replace(built=built)),
            depth=choice.depth,
            depth_why=choice.why,
            stage=first.stage,
            role=first.role,
        )

    # -- the turn after an approved command

    async def verify(
        self,
        executed: Executed,
        names: Names,
        turns: list[SessionTurn],
        proposed: SessionTurn | None,
        call: RequestContext,
        stream: EventStream,
    ) -> None:
        """`proposed` is the turn that proposed the command, as it is remembered: its plan and answer are given, so what
        is said of it is said of this turn too. Raises as TurnTaker.take.
        """
        await stream.emit("turn", {"session_id": names.session_id, "turn_id": names.turn_id})
        services, approval = self._services, executed.approval
        labels = labels_of([*turns, *([] if proposed is None else [proposed])], call.guarded)
        with self._running(names, "", call.tenant):
            record = await self._proposed_in(approval, call)
            gathered = self._given(approval, record, names, turns, labels)
            turn = Turn(
                services,
                self._turn_store,
                gathered,
                DepthChoice(depth="full", why=_WHY),
                _verifying(services.rules),
                tenant=call.tenant,
                started=self._turn_store.now(),
                risk=_RISKS.get(approval.risk_level, "high"),
                executed=executed,
            )
            stages = services.rules.stages.stages
            room = work_room([stages["refine"].max_tokens, stages["act"].max_tokens, _RESULT_TOKENS])
            council = CouncilTurn(
                StagePackets(self._assembler, gathered, turn.rules.stages, room),
                turn,
                self._clock,
                call.until(self._clock.monotonic() + services.config.full_deadline_s),
                stream.emit,
                work=_work(approval, record),
                acted_by=next((role for role in ROLES if role == approval.proposed_by), None),
            )
            await council.run()

    async def _proposed_in(self, approval: Approval, call: RequestContext) -> TurnRecord | None:
        """The turn that proposed the command; None when its log is gone."""
        try:
            return await self._services.turn_log.find(call.tenant, approval.turn_id)
        except NotFound:
            return None

    def _given(
        self, approval: Approval, record: TurnRecord | None, names: Names, turns: list[SessionTurn], labels: Labels
    ) -> Gathered:
        """Nothing is looked up: what counts is in the work. The persona is that turn's, as long as there is one."""
        registry = self._assembler.factory.registry
        known = record is not None and record.persona in registry.personas
        persona = record.persona if known and record else registry.persona_in_force()
        message = f"I approve {command_line(approval)}. Verify what it did."
        return Gathered(
            request=ChatRequest(message=message, session_id=names.session_id, persona=persona),
            names=names,
            turns=turns,
            registry=registry,
            persona=persona,
            chosen_persona="",
            chosen_project="",
            note=HistoryNote(sought=False, why="it continues after an approval"),
            needed=False,
            found=None,
            context=[],
            by_name=[],
            notes=[],
            may_execute=False,
            unasked=None,
            took_ms=0.0,
            labels=labels,
        )


def _record(request: ChatRequest, names: Names, started: str) -> TurnRecord:
    """The turn as the log has it from its first moment."""
    return TurnRecord(
        turn_id=names.turn_id,
        session_id=names.session_id,
        depth="",
        stages=[],
        votes=[],
        status=RUNNING,
        message=request.message,
        started_at=started,
    )


def _verifying(rules: Rulebook) -> Rulebook:
    """The rules of a turn that does nothing but verify."""
    return structs.replace(rules, stages=structs.replace(rules.stages, chains={"full": ("verify",)}))


def _work(approval: Approval, record: TurnRecord | None) -> list[WorkItem]:
    """Plan and answer of the turn that proposed it, and what the command did."""
    said = [] if record is None else record.blocks
    wanted = [block for block in said if block.get("marker") in ("PLAN", "RESPONSE")]
    work = [WorkItem(marker=block["marker"], text=block["text"], role=block["role"]) for block in wanted]
    return [*work, WorkItem(marker="EXECUTE", text=result_text(approval, _SHOWN_CHARACTERS), role="shell")]


def rendering_of(prepared: Prepared) -> Rendering:
    """What would be sent, for people and programs."""
    manifest = prepared.built.manifest
    return Rendering(
        packet_id=manifest.packet_id,
        mtu=manifest.mtu,
        model=manifest.model,
        tokenizer=manifest.tokenizer,
        fields=[
            {
                "field": row.field,
                "limit": row.limit,
                "original_tokens": row.original_tokens,
                "tokens": row.tokens,
                "method": row.method,
            }
            for row in manifest.fields
        ],
        total_tokens=manifest.total_tokens,
        reserve_tokens=manifest.reserve_tokens,
        dropped=manifest.dropped,
        prompt="".join(segment.text for segment in prepared.built.rendered),
        exact=prepared.model.tokenizer.exact,
        notes=[*prepared.gathered.notes, *prepared.notes],
    )
