"""One turn: message -> packet -> model -> checked answer -> memory. The council's stages are one here: Act.

A turn is a stream of events, the last one `done`. What was said is remembered, also when the person leaves in the
middle; what was sent is in the cognition log, also when the model fails.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from gaiad.answering import Answering, Event, engine_name
from gaiad.chat_schemas import ChatAnswer, ChatBlock, ChatRequest, HistoryNote, Rendering
from gaiad.cognition import Assembler, Names, Prepared, rendering_of
from gaiad.errors import BadInput, Conflict, NotFound
from gaiad.ids import IdMaker
from gaiad.logs import log_context
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Archive, Call
from gaiad.reading_ahead import ReadAhead
from gaiad.remembering import Keeper

_SESSION_LIMIT = 100
_ALL = 1_000_000
_BROKEN_OFF = "CANCELLED"


class TurnTaker:
    """Takes turns in sessions; one at a time in each, as the person said them."""

    def __init__(
        self,
        assembler: Assembler,
        archive: Archive,
        keeper: Keeper,
        ids: IdMaker,
        history_turns: int,
        ahead: ReadAhead,
    ) -> None:
        self._assembler = assembler
        self._archive = archive
        self._keeper = keeper
        self._ids = ids
        self._history_turns = history_turns
        self._ahead = ahead
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        """Events: turn, those of the research, packet, delta (text), done (ChatAnswer).

        Raises BadInput, NotFound, Conflict, TokenBudgetError, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        request = _named(request, self._ids)
        lock = self._sessions.setdefault((call.tenant, request.session_id), asyncio.Lock())
        async with lock, aclosing(self._take(request, call)) as events:
            async for event in events:
                yield event

    async def _take(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        turns = await self._begin(request, call)
        turn_id, known = await self._turn_of(request, turns, call)
        if known is not None:
            yield "done", _as_before(known)
            return
        names = Names(request.session_id, turn_id, self._ids.make("cog"))
        with log_context(tenant=call.tenant, session_id=names.session_id, turn_id=turn_id):
            async with aclosing(self._new(request, names, turns, call)) as events:
                async for event in events:
                    yield event

    async def _new(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: Call
    ) -> AsyncGenerator[Event, None]:
        yield "turn", {"session_id": names.session_id, "turn_id": names.turn_id}
        await self._ahead.stop_session(call.tenant, names.session_id)
        started = self._keeper.now()
        heard: deque[Event] = deque()
        prepared = await self._prepare(request, names, turns, call, heard)
        while heard:
            yield heard.popleft()
        yield "packet", {**_sizes(prepared), "history": prepared.history}
        answering = Answering(self._keeper, request, names, prepared, started, call)
        async with aclosing(answering.events()) as events:
            async for event in events:
                yield event
        if isinstance(event[1], ChatAnswer):
            packet, answer = prepared.built.packet, event[1].answer
            self._ahead.begin(packet, answer, prepared.model, call.tenant, names.session_id)

    async def render(self, request: ChatRequest, call: Call) -> Rendering:
        """What `take` would send, without sending or remembering anything."""
        request = _named(request, self._ids)
        turns = await self._begin(request, call)
        names = Names(request.session_id, self._ids.make("turn"), self._ids.make("cog"))
        return rendering_of(await self._prepare(request, names, turns, call, deque()))

    def use_history(self, turns: int) -> None:
        """How many turns a packet may look back on, from the next turn on."""
        self._history_turns = turns

    async def _begin(self, request: ChatRequest, call: Call) -> list[SessionTurn]:
        """The session's last turns."""
        if not request.message.strip():
            raise BadInput("the message is empty; say something")
        session_id = request.session_id
        if len(session_id) > _SESSION_LIMIT:
            raise BadInput(f"session_id has {len(session_id)} characters; at most {_SESSION_LIMIT} are allowed")
        if not session_id.isprintable() or session_id != " ".join(session_id.split()):
            raise BadInput(f"session_id {session_id!r}: use printable characters, single spaces, none at the ends")
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
            return self._ids.make("turn"), None
        attempt = 0
        while True:
            turn_id = _keyed(session_id, key, attempt)
            known = await self._known(session_id, turn_id, turns, call)
            if known is None:
                return turn_id, None
            if known.user != request.message:
                raise Conflict(
                    f"idempotency_key {key!r} came with another message in session {session_id!r}; use a new key"
                )
            if known.status != _BROKEN_OFF:
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

    async def _prepare(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: Call, heard: deque[Event]
    ) -> Prepared:
        previous = await self._keeper.last_packet(names.session_id, call.tenant) if turns else None
        return await self._assembler.prepare(
            request, names, turns, previous, call, lambda name, data: heard.append((name, data))
        )


def _sizes(prepared: Prepared) -> dict[str, Any]:
    manifest = prepared.built.manifest
    return {
        "packet_id": prepared.built.packet.packet_id,
        "mtu": manifest.mtu,
        "total_tokens": manifest.total_tokens,
        "persona": prepared.persona,
        "engine": engine_name(prepared.model.name, prepared.model.kind),
    }


def _as_before(turn: SessionTurn) -> ChatAnswer:
    """The answer a turn with this idempotency key had."""
    return ChatAnswer(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        packet_id="",
        blocks=[ChatBlock(marker=block.marker, text=block.text) for block in turn.blocks],
        answer=turn.answer,
        sources=turn.sources,
        status=turn.status,
        engine=turn.model,
        persona=turn.persona,
        history=HistoryNote(sought=False, why="this turn was taken before", packets=turn.sources),
        timings={},
        tokens={},
    )


def _keyed(session_id: str, key: str, attempt: int) -> str:
    """The turn id that the same key in the same session always has, at its first attempt and at later ones."""
    again = f"again {attempt} " if attempt else ""
    digest = hashlib.sha256(f"{again}{len(session_id)} {session_id}{key}".encode()).hexdigest()
    return f"turn_{digest[:26].upper()}"


def _named(request: ChatRequest, ids: IdMaker) -> ChatRequest:
    """With a session: a new one when none is named."""
    return structs.replace(request, session_id=request.session_id or ids.make("ses"))
