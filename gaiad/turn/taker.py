"""One turn: message -> research -> packets -> council -> checked answer -> memory.

A turn is a stream of events, the last one `done`. What was said is remembered, also when the person leaves halfway;
what was sent is in the cognition log, also when the model fails.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import structs

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Cancelled, Conflict, DeadlineExceeded, NotFound, Unavailable
from gaiad.base.events import EventStream, NamedEvent
from gaiad.base.ids import IdMaker, short
from gaiad.base.journal import JournalOf
from gaiad.base.logs import log_context
from gaiad.base.ports import Archive, RequestContext
from gaiad.ledger.turn_log import CUT_OFF, RUNNING
from gaiad.turn.beside import PrefixWarmup, Surfacing, remembered
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import Names
from gaiad.turn.services import TurnServices
from gaiad.turn.turn import CANCELLED, Executed
from gaiad.turn.turn_record import UNANSWERED, engine_name, times_of, tokens_of
from gaiad.turn.turn_store import TurnStore
from gaiad.turn.turns import Turns
from gaiad.wire.chat import ChatAnswer, ChatBlock, ChatRequest, Rendering
from gaiad.wire.council import HistoryNote, TurnRecord
from gaiad.wire.generation import out_of_range
from gaiad.wire.memory import SessionTurn

_SESSION_LIMIT = 100
_LIMITS = {"message": 200_000, "persona": 200, "project": 200, "idempotency_key": 200}  # characters
_HIGHEST_SEED = 2**32 - 1


def check_asked(request: ChatRequest) -> None:
    """Raises BadInput that names the value and the remedy."""
    if not request.message.strip():
        raise BadInput("the message is empty; say something")
    for name, limit in _LIMITS.items():
        if (length := len(getattr(request, name))) > limit:
            raise BadInput(f"{name} has {length} characters; at most {limit} are allowed")
    session_id = request.session_id
    if len(session_id) > _SESSION_LIMIT:
        raise BadInput(f"session_id has {len(session_id)} characters; at most {_SESSION_LIMIT} are allowed")
    if not session_id.isprintable() or session_id != " ".join(session_id.split()):
        raise BadInput(f"session_id {session_id!r}: use printable characters, single spaces, none at the ends")
    if request.seed is not None and not 0 <= request.seed <= _HIGHEST_SEED:
        raise BadInput(f"seed is {request.seed}; give a number from 0 to {_HIGHEST_SEED}")
    if request.temperature is not None and (problem := out_of_range("temperature", request.temperature)):
        raise BadInput(problem)
    if min(request.mtu, request.max_tokens) < 0:
        raise BadInput(f"mtu {request.mtu} and max_tokens {request.max_tokens}: give 0, for as set, or more")
    if request.now:
        _check_moment(request.now)


def _check_moment(now: str) -> None:
    try:
        datetime.fromisoformat(now)
    except ValueError as error:
        raise BadInput(f"now = {now!r}: write it as ISO 8601, 2025-12-15T12:00:00Z") from error


def named(request: ChatRequest, tenant: str, ids: IdMaker) -> ChatRequest:
    """With a session. When none is named it is a new one, but the same at every time for the same idempotency key."""
    if request.session_id:
        return request
    key = request.idempotency_key
    return structs.replace(request, session_id=_id_of("ses", tenant, key) if key else ids.make("ses"))


def turn_of_key(tenant: str, session_id: str, key: str, attempt: int) -> str:
    """The turn id that the same key in the same session always has, at its first attempt and at later ones."""
    return _id_of("turn", tenant, session_id, key, str(attempt))


def _id_of(prefix: str, *parts: str) -> str:
    digest = hashlib.sha256("".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()
    return f"{prefix}_{digest[:26].upper()}"


def as_before(turn: SessionTurn, record: TurnRecord | None, kind: str) -> ChatAnswer:
    """`record` is the turn's in the log, None when there is none (any longer); `kind` is that of its model, "" when the
    model is gone.
    """
    stages = [] if record is None else record.stages
    acted = next((row.packet_id for row in reversed(stages) if row.stage == "act" and row.packet_id), "")
    answer = ChatAnswer(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        packet_id=short(acted) if acted else "",
        blocks=[ChatBlock(marker=block.marker, text=block.text) for block in turn.blocks],
        answer=turn.answer,
        sources=turn.sources,
        status=turn.status,
        engine=engine_name(turn.model, kind or turn.model),
        persona=turn.persona,
        history=HistoryNote(sought=False, why="this turn was taken before", packets=turn.sources),
        timings=times_of(stages) if stages else {},
        tokens=tokens_of(stages) if stages else {},
        answered=not turn.metadata.get(UNANSWERED, False),
        also=remembered(turn),
    )
    return answer if record is None else _with_record(answer, record)


def _with_record(answer: ChatAnswer, record: TurnRecord) -> ChatAnswer:
    return msgspec.structs.replace(
        answer,
        notes=record.notes,
        depth=record.depth,
        depth_why=record.depth_why,
        reduced_quorum=record.reduced_quorum,
        end_why=record.end_why,
        votes=record.votes,
        escalations=record.escalations,
    )


_ALL = 1_000_000


class TurnTaker:
    """Takes turns in sessions; one at a time in each, as the person said them."""

    def __init__(
        self,
        assembler: Assembler,
        archive: Archive,
        turn_store: TurnStore,
        services: TurnServices,
        ids: IdMaker,
        clock: Clock,
        history_turns: int,
        warmup: PrefixWarmup,
        journal_of: JournalOf | None = None,
    ) -> None:
        """With `journal_of` a turn that is taken again asks no model for what it has."""
        self._assembler = assembler
        self._archive = archive
        self._services = services
        self._ids = ids
        self._clock = clock
        self._history_turns = history_turns
        self._journal_of = journal_of
        self._under_way = turn_store.under_way
        self._turns = Turns(assembler, turn_store, services, clock, warmup, Surfacing(archive, clock.zone))
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, request: ChatRequest, call: RequestContext) -> AsyncGenerator[NamedEvent, None]:
        """Events: turn, those of the research, depth, then of each stage: stage, packet, block, delta (text), retract
        (the answer so far is withdrawn), vote, stage_done; escalation; also (an earlier packet to name below it); last
        done (ChatAnswer).

        Raises BadInput, NotFound, Conflict, TokenBudgetError, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        async with aclosing(self._in_line(request.session_id, call, partial(self._take, request, call))) as events:
            async for event in events:
                yield event

    async def verify(self, executed: Executed, call: RequestContext) -> AsyncGenerator[NamedEvent, None]:
        """The turn after an approved command was run (decision 13), in its session's line; events as of `take`."""
        session_id = executed.approval.session_id
        async with aclosing(self._in_line(session_id, call, partial(self._verify, executed, call))) as events:
            async for event in events:
                yield event

    async def name(self, request: ChatRequest, call: RequestContext) -> tuple[ChatRequest, str]:
        """The request with its session, and the id that its turn will have; nothing is taken yet.

        A call with that `turn_id` takes it. Raises BadInput, and Conflict for a key that came with another message.
        """
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        turns = await self._history(request.session_id, call) if request.idempotency_key else []
        turn_id, _ = await self._turn_of(request, turns, call)
        return request, turn_id

    async def again(self, turn_id: str, call: RequestContext) -> ChatAnswer:
        """What a turn said that ended before.

        Raises NotFound, Conflict while it is being taken, and for one that came to nothing Cancelled or Unavailable.
        """
        record = await self._services.turn_log.find(call.tenant, turn_id)
        known = await self._known(record.session_id, record.turn_id, [], call)
        if known is not None:
            return await self._again(known, call)
        if record.status == RUNNING:
            raise Conflict(f"turn {turn_id!r} is still running; ask again when it has ended")
        broken_off = record.status in (CANCELLED, CUT_OFF)
        why = f"turn {turn_id!r} ended without an answer: {record.end_why or record.status.lower()}"
        raise Cancelled(why) if broken_off else Unavailable(why)

    async def _in_line(
        self, session_id: str, call: RequestContext, turn: Callable[[EventStream], Coroutine[Any, Any, None]]
    ) -> AsyncGenerator[NamedEvent, None]:
        """The events of `turn`, which begins when the session's earlier turns are through."""
        lock = self._sessions.setdefault((call.tenant, session_id), asyncio.Lock())
        with self._services.person():  # who waits for an earlier turn of the session is waiting too
            await self._wait_for(lock, session_id)
            try:
                stream = EventStream()
                async with aclosing(stream.read("turn", self._counted(turn(stream)))) as events:
                    async for event in events:
                        yield event
            finally:
                lock.release()

    async def _counted(self, turn: Coroutine[Any, Any, None]) -> None:
        with self._under_way.begun():
            await turn

    async def _wait_for(self, lock: asyncio.Lock, session_id: str) -> None:
        """No longer than a turn of full depth takes."""
        wait_s = self._services.config.full_deadline_s
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"session {session_id!r} was busy with earlier turns for {wait_s:g} s; ask again when they are done"
            ) from error

    async def _take(self, request: ChatRequest, call: RequestContext, stream: EventStream) -> None:
        call = call.until(self._clock.monotonic() + self._turns.longest_s(request))
        turns = await self._history(request.session_id, call)
        turn_id, known = await self._turn_of(request, turns, call)
        if known is not None:
            await stream.emit("done", await self._again(known, call))
            return
        if request.idempotency_key:  # else nothing takes it again
            call = self._journalled(call, turn_id)
        names = Names(request.session_id, turn_id, self._ids.make("cog"))
        with log_context(tenant=call.tenant, session_id=names.session_id, turn_id=turn_id):
            await self._turns.take(request, names, turns, call, stream)

    def _journalled(self, call: RequestContext, run_id: str) -> RequestContext:
        return call if self._journal_of is None else call.journalled(self._journal_of(call.tenant, run_id))

    async def _verify(self, executed: Executed, call: RequestContext, stream: EventStream) -> None:
        session_id = executed.approval.session_id
        call = self._journalled(call, executed.approval.id)
        turns = await self._history(session_id, call)
        proposed = await self._known(session_id, executed.approval.turn_id, turns, call.seeing_all())
        names = Names(session_id, self._ids.make("turn"), self._ids.make("cog"))
        with log_context(tenant=call.tenant, session_id=session_id, turn_id=names.turn_id):
            await self._turns.verify(executed, names, turns, proposed, call, stream)

    async def render(self, request: ChatRequest, call: RequestContext) -> Rendering:
        """What `take` would send first, without sending or remembering anything."""
        check_asked(request)
        request = named(request, call.tenant, self._ids)
        turns = await self._history(request.session_id, call)
        names = Names(request.session_id, self._ids.make("turn"), self._ids.make("cog"))
        return await self._turns.render(request, names, turns, call)

    def use_history(self, turns: int) -> None:
        """How many turns a packet may look back on, from the next turn on."""
        self._history_turns = turns

    def use_memory(self, kept: Mapping[str, str]) -> None:
        """How the memory keeps the blocks of a marker, from the next turn on."""
        self._services.kept = kept

    async def _again(self, known: SessionTurn, call: RequestContext) -> ChatAnswer:
        try:
            record = await self._services.turn_log.find(call.tenant, known.turn_id)
        except NotFound:
            record = None
        return as_before(known, record, self._assembler.factory.kind_of(known.model) if known.model else "")

    async def _history(self, session_id: str, call: RequestContext) -> list[SessionTurn]:
        """The session's last turns."""
        try:
            return await self._archive.session_turns(session_id, call, limit=self._history_turns, latest=True)
        except NotFound:  # a tenant begins with the first thing that is said in it
            return []

    async def _turn_of(
        self, request: ChatRequest, turns: list[SessionTurn], call: RequestContext
    ) -> tuple[str, SessionTurn | None]:
        """The turn's id, and the turn when it was taken before. One that was broken off is taken again, under an id
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

    async def _known(
        self, session_id: str, turn_id: str, turns: list[SessionTurn], call: RequestContext
    ) -> SessionTurn | None:
        """A turn that was taken, also when more were taken since than the history has."""
        if found := next((turn for turn in turns if turn.turn_id == turn_id), None):
            return found
        try:
            await self._archive.packet_summaries([turn_id], call)
        except NotFound:
            return None
        everything = await self._archive.session_turns(session_id, call, limit=_ALL)
        return next((turn for turn in everything if turn.turn_id == turn_id), None)
