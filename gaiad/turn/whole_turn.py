"""One new turn from its message to its last event: what is gathered, who takes it, how deep, and what is kept of it.

Whatever happens on the way, the turn stands in the turn log with how it ended.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import structs

from council.escalation import PRIME
from gaiad.chat_schemas import ChatRequest
from gaiad.clock import Clock
from gaiad.council_schemas import RunningTurn, TurnRecord
from gaiad.errors import Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.ids import IdMaker
from gaiad.ledger.turn_log import RUNNING
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Call
from gaiad.turn.also import Pass, Surfacing
from gaiad.turn.as_it_happens import AsItHappens
from gaiad.turn.choosing import choose, may_execute
from gaiad.turn.cognition import Assembler
from gaiad.turn.company import Company, acting_role
from gaiad.turn.council_turn import CouncilTurn, Event
from gaiad.turn.gathering import Gathered, Names
from gaiad.turn.minutes import Minutes
from gaiad.turn.presence import present
from gaiad.turn.reading_ahead import ReadAhead
from gaiad.turn.remembering import Keeper
from gaiad.turn.stage_packets import StagePackets, room_for_work
from gaiad.turn.story import CANCELLED, FAILED, Story

_MEMOS_SHARE = 0.1  # of the turn's time


class WholeTurns:
    """Takes turns for a TurnTaker, which sees to it that a session has one at a time."""

    def __init__(
        self,
        assembler: Assembler,
        keeper: Keeper,
        company: Company,
        ids: IdMaker,
        clock: Clock,
        ahead: ReadAhead,
        surfacing: Surfacing,
    ) -> None:
        self._assembler = assembler
        self._keeper = keeper
        self._company = company
        self._ids = ids
        self._clock = clock
        self._ahead = ahead
        self._surfacing = surfacing

    def longest_s(self, request: ChatRequest) -> float:
        """Seconds that a turn may take while its depth is not known yet."""
        return self._seconds(request.depth or self._company.config.depth)

    def _seconds(self, depth: str) -> float:
        config = self._company.config
        return config.deadline_s if depth == "fast" else config.full_deadline_s

    async def take(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: Call
    ) -> AsyncGenerator[Event, None]:
        """The turn's events; see TurnTaker.take."""
        yield "turn", {"session_id": names.session_id, "turn_id": names.turn_id}
        await self._ahead.stop_session(call.tenant, names.session_id)
        running = RunningTurn(turn_id=names.turn_id, session_id=names.session_id, depth="", stage="", role=request.role)
        self._company.room.begin(call.tenant, running)
        try:
            async with aclosing(self._told(request, names, turns, call)) as events:
                async for event in events:
                    yield event
        finally:
            self._company.room.end(names.turn_id)

    async def _told(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: Call
    ) -> AsyncGenerator[Event, None]:
        """The research as it happens, then the turn through the council."""
        record = _record(request, names, self._keeper.now())
        began, convened = self._clock.monotonic(), False
        await self._log(call.tenant, record)
        gathering = AsItHappens("gather", lambda tell: self._assembler.gather(request, names, turns, call, tell))
        status, why = CANCELLED, ""
        try:
            async with aclosing(gathering.events()) as heard:
                async for event in heard:
                    yield event
            story, turn = await self._convene(gathering.result, record.started_at, began, call)
            convened = True
        except Cancelled:
            raise
        except Exception as error:
            status, why = FAILED, error.message if isinstance(error, GaiadError) else repr(error)
            raise
        finally:
            if not convened:
                ended = structs.replace(record, status=status, end_why=why, ended_at=self._keeper.now())
                await self._keeper.finish(self._log(call.tenant, ended))
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event
        if story.acted is not None and story.model is not None:
            self._ahead.begin(story.acted.packet, story.shown, story.model, call.tenant, names.session_id)

    async def _log(self, tenant: str, record: TurnRecord) -> None:
        await self._keeper.attempt("not in the turn log", self._company.turn_log.put(tenant, record))

    async def _convene(self, gathered: Gathered, started: str, began: float, call: Call) -> tuple[Story, CouncilTurn]:
        """Who takes the turn, how deep it goes, and by when it ends."""
        company, request = self._company, gathered.request
        resolved = company.room.resolved(call.tenant, gathered.names.session_id)
        await self._keeper.attempt("an escalation is still shown as open", resolved)
        await company.room.settled(call)
        seats = present(company.room)
        choice, asked = choose(company, request, seats)
        rules = company.rules
        if request.role != PRIME:
            rules = structs.replace(rules, roles=acting_role(rules.roles, request.role))
        story = Story(gathered, choice, rules, started, asked.risk, company.kept)
        allowed = may_execute(company, choice, asked, seats, granted=gathered.may_execute)
        if allowed and (refusal := company.approvals.refusal):
            allowed = False
            story.notes.append(f"no command can be run here: {refusal}")
        minutes = Minutes(company, self._keeper, story, call.tenant, may_execute=allowed)
        full = choice.depth == "full"
        until = call.until(began + self._seconds(choice.depth))
        packets = StagePackets(
            self._assembler,
            self._keeper,
            gathered,
            rules.stages,
            room_for_work(rules.stages, self._assembler.reserve_tokens) if full else 0,
            self._ids,
            self._clock,
        )
        memos = await self._memos(gathered, until) if full else []
        story.beside = self._look_beside(gathered, until)
        return story, CouncilTurn(company, packets, self._keeper, story, minutes, self._clock, until, memos)

    def _look_beside(self, gathered: Gathered, call: Call) -> Pass | None:
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

    async def _memos(self, gathered: Gathered, call: Call) -> list[str]:
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
