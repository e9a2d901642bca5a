"""One turn: message -> research -> packets -> council -> checked answer -> memory.

A turn is a stream of events, the last one `done`. What was said is remembered, also when the person leaves in the
middle; what was sent is in the cognition log, also when the model fails.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from weakref import WeakValueDictionary

from gaiad.chat_schemas import ChatAnswer, ChatRequest, Rendering
from gaiad.clock import Clock
from gaiad.errors import Cancelled, Conflict, DeadlineExceeded, NotFound, Unavailable
from gaiad.ids import IdMaker
from gaiad.ledger.turn_log import CUT_OFF, RUNNING
from gaiad.logs import log_context
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Archive, Call
from gaiad.turn.also import Surfacing
from gaiad.turn.asked import check_asked, named, turn_of_key
from gaiad.turn.cognition import Assembler
from gaiad.turn.company import Company
from gaiad.turn.continuation import Continuation
from gaiad.turn.council_turn import Event
from gaiad.turn.executed import Executed
from gaiad.turn.gathering import Names
from gaiad.turn.reading_ahead import ReadAhead
from gaiad.turn.remembering import Keeper
from gaiad.turn.rendering import Renderer
from gaiad.turn.repeating import as_before
from gaiad.turn.story import CANCELLED
from gaiad.turn.whole_turn import WholeTurns

_ALL = 1_000_000


class TurnTaker:
    """Takes turns in sessions; one at a time in each, as the person said them."""

    def __init__(
        self,
        assembler: Assembler,
        archive: Archive,
        keeper: Keeper,
        company: Company,
        ids: IdMaker,
        clock: Clock,
        history_turns: int,
        ahead: ReadAhead,
    ) -> None:
        self._assembler = assembler
        self._archive = archive
        self._keeper = keeper
        self._company = company
        self._ids = ids
        self._clock = clock
        self._history_turns = history_turns
        self._whole = WholeTurns(assembler, keeper, company, ids, clock, ahead, Surfacing(archive, clock.zone))
        self._renderer = Renderer(assembler, keeper, company, ids, clock)
        self._continuation = Continuation(assembler, keeper, company, ids, clock)
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        """Events: turn, those of the research, depth, then of each stage: stage, packet, block, delta (text), retract
        (the answer so far is void), vote, stage_done; escalation; also (an earlier packet to name below it); last
        done (ChatAnswer).

        Raises BadInput, NotFound, Conflict, TokenBudgetError, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        lock = self._sessions.setdefault((call.tenant, request.session_id), asyncio.Lock())
        with self._company.person():  # who waits for an earlier turn of the session is waiting too
            await self._in_line(lock, request.session_id)
            try:
                call = call.until(self._clock.monotonic() + self._whole.longest_s(request))
                async with aclosing(self._take(request, call)) as events:
                    async for event in events:
                        yield event
            finally:
                lock.release()

    async def name(self, request: ChatRequest, call: Call) -> tuple[ChatRequest, str]:
        """The request with its session, and the id that its turn will have; nothing is taken yet.

        A call with that `turn_id` takes it. Raises BadInput, and Conflict for a key that came with another message.
        """
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        turns = await self._history(request.session_id, call) if request.idempotency_key else []
        turn_id, _ = await self._turn_of(request, turns, call)
        return request, turn_id

    async def again(self, turn_id: str, call: Call) -> ChatAnswer:
        """What a turn said that ended before.

        Raises NotFound, Conflict while it is being taken, and for one that came to nothing Cancelled or Unavailable.
        """
        record = await self._company.turn_log.find(call.tenant, turn_id)
        known = await self._known(record.session_id, record.turn_id, [], call)
        if known is not None:
            return await self._again(known, call)
        if record.status == RUNNING:
            raise Conflict(f"turn {turn_id!r} is being taken for somebody else; ask again when it has ended")
        broken_off = record.status in (CANCELLED, CUT_OFF)
        why = f"turn {turn_id!r} ended without an answer: {record.end_why or record.status.lower()}"
        raise Cancelled(why) if broken_off else Unavailable(why)

    async def _in_line(self, lock: asyncio.Lock, session_id: str) -> None:
        """Wait for the session's earlier turns, no longer than one of full depth takes."""
        wait_s = self._company.config.full_deadline_s
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"session {session_id!r} was busy with earlier turns for {wait_s:g} s; ask again when they are done"
            ) from error

    async def _take(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        turns = await self._history(request.session_id, call)
        turn_id, known = await self._turn_of(request, turns, call)
        if known is not None:
            yield "done", await self._again(known, call)
            return
        names = Names(request.session_id, turn_id, self._ids.make("cog"))
        with log_context(tenant=call.tenant, session_id=names.session_id, turn_id=turn_id):
            async with aclosing(self._whole.take(request, names, turns, call)) as events:
                async for event in events:
                    yield event

    async def verify(self, executed: Executed, call: Call) -> AsyncGenerator[Event, None]:
        """The turn after an approved command was run (decision 13), in its session's line; events as of `take`."""
        session_id = executed.approval.session_id
        lock = self._sessions.setdefault((call.tenant, session_id), asyncio.Lock())
        with self._company.person():
            await self._in_line(lock, session_id)
            try:
                turns = await self._history(session_id, call)
                proposed = await self._known(session_id, executed.approval.turn_id, turns, call.seeing_all())
                names = Names(session_id, self._ids.make("turn"), self._ids.make("cog"))
                with log_context(tenant=call.tenant, session_id=session_id, turn_id=names.turn_id):
                    async with aclosing(self._continuation.events(executed, names, turns, proposed, call)) as events:
                        async for event in events:
                            yield event
            finally:
                lock.release()

    async def render(self, request: ChatRequest, call: Call) -> Rendering:
        """What `take` would send first, without sending or remembering anything."""
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        turns = await self._history(request.session_id, call)
        names = Names(request.session_id, self._ids.make("turn"), self._ids.make("cog"))
        return await self._renderer.render(request, names, turns, call)

    def use_history(self, turns: int) -> None:
        """How many turns a packet may look back on, from the next turn on."""
        self._history_turns = turns

    def use_memory(self, kept: Mapping[str, str]) -> None:
        """How the memory keeps the blocks of a marker, from the next turn on."""
        self._company.kept = kept

    async def _again(self, known: SessionTurn, call: Call) -> ChatAnswer:
        try:
            record = await self._company.turn_log.find(call.tenant, known.turn_id)
        except NotFound:
            record = None
        return as_before(known, record, self._assembler.kind_of(known.model) if known.model else "")

    async def _history(self, session_id: str, call: Call) -> list[SessionTurn]:
        """The session's last turns."""
        try:
            return await self._archive.session_turns(session_id, call, limit=self._history_turns, latest=True)
        except NotFound:  # a tenant begins with the first thing that is said in it
            return []

    async def _turn_of(
        self, request: ChatRequest, turns: list[SessionTurn], call: Call
    ) -> tuple[str, SessionTurn | None]:
        """The turn's id, and the turn when it was taken before. One that was broken off is taken anew, under an id
        that the same key has the next time too. Raises Conflict for a key that came with another message.
        """
        key, session_id = request.idempotency_key, request.session_id
        if not key:
            return call.turn_id or self._ids.make("turn"), None
        attempt = 0
        while True:
            turn_id = turn_of_key(call.tenant, session_id, key, attempt)
            known = await self._known(session_id, turn_id, turns, call)
            if known is None:
                return turn_id, None
            if known.user != request.message:
                raise Conflict(
                    f"idempotency_key {key!r} came with another message in session {session_id!r}; use a new key"
                )
            if known.status != CANCELLED:
                return turn_id, known
            attempt += 1

    async def _known(self, session_id: str, turn_id: str, turns: list[SessionTurn], call: Call) -> SessionTurn | None:
        """A turn that was taken, also when more were taken since than the history has."""
        if found := next((turn for turn in turns if turn.turn_id == turn_id), None):
            return found
        try:
            await self._archive.packet_summaries([turn_id], call)
        except NotFound:
            return None
        everything = await self._archive.session_turns(session_id, call, limit=_ALL)
        return next((turn for turn in everything if turn.turn_id == turn_id), None)
