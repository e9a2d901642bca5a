"""One new turn from its message to its last event: what is gathered, who takes it, how deep, and what is kept of it.

Whatever happens on the way, the turn is in the turn log with how it ended.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from msgspec import structs

from council.state_machine import PRIME
from gaiad.base.clock import Clock
from gaiad.base.errors import Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.ledger.turn_log import RUNNING
from gaiad.turn.also import Surfacing, SurfacingPass
from gaiad.turn.cognition import Assembler
from gaiad.turn.council_turn import CouncilTurn, Event
from gaiad.turn.gathering import Gathered, Names
from gaiad.turn.prefix_warmup import PrefixWarmup
from gaiad.turn.recorder import TurnRecorder
from gaiad.turn.services import TurnServices, acting_role, choose, may_execute, present
from gaiad.turn.stage_packets import StagePackets, room_for_work
from gaiad.turn.turn_state import CANCELLED, FAILED, TurnState
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import RunningTurn, TurnRecord
from gaiad.wire.memory import SessionTurn

T = TypeVar("T")
ReportProgress = Callable[[str, dict[str, Any]], None]


class _Ended(Generic[T]):
    """What the work came to: its result, or the error it raised."""

    def __init__(self, result: T | None = None, error: Exception | None = None) -> None:
        self.result, self.error = result, error


class WorkStream(Generic[T]):
    """One piece of work. Read `events()` to the end and `result` is there; closing it early cancels the work."""

    def __init__(self, name: str, work: Callable[[ReportProgress], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._heard: asyncio.Queue[Event | _Ended[T]] = asyncio.Queue()
        self.result: T

    async def events(self) -> AsyncGenerator[Event, None]:
        """(name, data) as the work tells them. Raises what the work raises, after what it told before."""
        async with TaskGroup("turn") as tasks:
            tasks.start(self._name, self._run())
            while not isinstance(event := await self._heard.get(), _Ended):
                yield event
            if event.error is not None:
                raise event.error
            self.result = event.result  # type: ignore[assignment]

    async def _run(self) -> None:
        ended = _Ended[T](error=Cancelled(f"{self._name} was cancelled"))
        try:
            ended = _Ended(await self._work(lambda name, data: self._heard.put_nowait((name, data))))
        except Exception as error:  # noqa: BLE001  (raised where the events are read)
            ended.error = error
        finally:
            self._heard.put_nowait(ended)


_MEMOS_SHARE = 0.1  # of the turn's time


class WholeTurns:
    """Takes turns for a TurnTaker, which sees to it that a session has one at a time."""

    def __init__(
        self,
        assembler: Assembler,
        turn_store: TurnStore,
        services: TurnServices,
        ids: IdMaker,
        clock: Clock,
        ahead: PrefixWarmup,
        surfacing: Surfacing,
    ) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._services = services
        self._ids = ids
        self._clock = clock
        self._ahead = ahead
        self._surfacing = surfacing

    def longest_s(self, request: ChatRequest) -> float:
        """Seconds that a turn may take while its depth is not known yet."""
        return self._seconds(request.depth or self._services.config.depth)

    def _seconds(self, depth: str) -> float:
        config = self._services.config
        return config.deadline_s if depth == "fast" else config.full_deadline_s

    async def take(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: RequestContext
    ) -> AsyncGenerator[Event, None]:
        """The turn's events; see TurnTaker.take."""
        yield "turn", {"session_id": names.session_id, "turn_id": names.turn_id}
        await self._ahead.stop_session(call.tenant, names.session_id)
        running = RunningTurn(turn_id=names.turn_id, session_id=names.session_id, depth="", stage="", role=request.role)
        self._services.room.begin(call.tenant, running)
        try:
            async with aclosing(self._told(request, names, turns, call)) as events:
                async for event in events:
                    yield event
        finally:
            self._services.room.end(names.turn_id)

    async def _told(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: RequestContext
    ) -> AsyncGenerator[Event, None]:
        """The research as it happens, then the turn through the council."""
        record = _record(request, names, self._turn_store.now())
        began, convened = self._clock.monotonic(), False
        await self._log(call.tenant, record)
        gathering = WorkStream("gather", lambda tell: self._assembler.gather(request, names, turns, call, tell))
        status, why = CANCELLED, ""
        try:
            async with aclosing(gathering.events()) as heard:
                async for event in heard:
                    yield event
            turn_state, turn = await self._convene(gathering.result, record.started_at, began, call)
            convened = True
        except Cancelled:
            raise
        except Exception as error:
            status, why = FAILED, error.message if isinstance(error, GaiadError) else repr(error)
            raise
        finally:
            if not convened:
                ended = structs.replace(record, status=status, end_why=why, ended_at=self._turn_store.now())
                await self._turn_store.finish(self._log(call.tenant, ended))
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event
        if turn_state.acted is not None and turn_state.model is not None:
            self._ahead.begin(
                turn_state.acted.packet, turn_state.shown, turn_state.model, call.tenant, names.session_id
            )

    async def _log(self, tenant: str, record: TurnRecord) -> None:
        await self._turn_store.attempt("not in the turn log", self._services.turn_log.put(tenant, record))

    async def _convene(
        self, gathered: Gathered, started: str, began: float, call: RequestContext
    ) -> tuple[TurnState, CouncilTurn]:
        """Who takes the turn, how deep it goes, and by when it ends."""
        services, request = self._services, gathered.request
        resolved = services.room.resolved(call.tenant, gathered.names.session_id)
        await self._turn_store.attempt("an escalation is still shown as open", resolved)
        await services.room.settled(call)
        seats = present(services.room)
        choice, asked = choose(services, request, seats)
        rules = services.rules
        if request.role != PRIME:
            rules = structs.replace(rules, roles=acting_role(rules.roles, request.role))
        turn_state = TurnState(gathered, choice, rules, started, asked.risk, services.kept)
        allowed = may_execute(services, choice, asked, seats, granted=gathered.may_execute)
        if allowed and (refusal := services.approvals.refusal):
            allowed = False
            turn_state.notes.append(f"no command can be run here: {refusal}")
        recorder = TurnRecorder(services, self._turn_store, turn_state, call.tenant, may_execute=allowed)
        full = choice.depth == "full"
        until = call.until(began + self._seconds(choice.depth))
        packets = StagePackets(
            self._assembler,
            self._turn_store,
            gathered,
            rules.stages,
            room_for_work(rules.stages, self._assembler.reserve_tokens) if full else 0,
            self._ids,
            self._clock,
        )
        memos = await self._memos(gathered, until) if full else []
        turn_state.beside = self._look_beside(gathered, until)
        return turn_state, CouncilTurn(
            services, packets, self._turn_store, turn_state, recorder, self._clock, until, memos
        )

    def _look_beside(self, gathered: Gathered, call: RequestContext) -> SurfacingPass | None:
        """The look for an earlier packet that bears on the message; None when it is switched off.

        What any channel does not see is never named: the turn may be read on another than its own.
        """
        if not self._assembler.proactive_context:
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
