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
from gaiad.errors import BadInput, NotFound
from gaiad.ids import IdMaker
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Archive, Call
from gaiad.reading_ahead import ReadAhead
from gaiad.remembering import Keeper

_SESSION_LIMIT = 100


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

        Raises BadInput, NotFound, TokenBudgetError, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        request = _named(request, self._ids)
        lock = self._sessions.setdefault((call.tenant, request.session_id), asyncio.Lock())
        async with lock, aclosing(self._take(request, call)) as events:
            async for event in events:
                yield event

    async def _take(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        names, turns = await self._begin(request, call)
        known = next((turn for turn in turns if turn.turn_id == names.turn_id), None)
        if known is not None:
            yield "done", _as_before(known)
            return
        yield "turn", {"session_id": names.session_id, "turn_id": names.turn_id}
        await self._ahead.stop()
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
            self._ahead.begin(prepared.built.packet, event[1].answer, prepared.model, call.tenant)

    async def render(self, request: ChatRequest, call: Call) -> Rendering:
        """What `take` would send, without sending or remembering anything."""
        names, turns = await self._begin(_named(request, self._ids), call)
        return rendering_of(await self._prepare(request, names, turns, call, deque()))

    async def _begin(self, request: ChatRequest, call: Call) -> tuple[Names, list[SessionTurn]]:
        if not request.message.strip():
            raise BadInput("the message is empty; say something")
        session_id = request.session_id
        if len(session_id) > _SESSION_LIMIT:
            raise BadInput(f"session_id has {len(session_id)} characters; at most {_SESSION_LIMIT} are allowed")
        if not session_id.isprintable() or session_id != " ".join(session_id.split()):
            raise BadInput(f"session_id {session_id!r}: use printable characters, single spaces, none at the ends")
        turn_id = _keyed(session_id, request.idempotency_key) or self._ids.make("turn")
        turns = await self._turns(session_id, call)
        return Names(session_id, turn_id, self._ids.make("cog")), turns

    async def _turns(self, session_id: str, call: Call) -> list[SessionTurn]:
        try:
            return await self._archive.session_turns(session_id, call, limit=self._history_turns, latest=True)
        except NotFound:  # a tenant begins with the first thing that is said in it
            return []

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


def _keyed(session_id: str, key: str) -> str:
    """A turn id that the same key in the same session always has; "" without a key."""
    digest = hashlib.sha256(f"{len(session_id)} {session_id}{key}".encode()).hexdigest()
    return f"turn_{digest[:26].upper()}" if key else ""


def _named(request: ChatRequest, ids: IdMaker) -> ChatRequest:
    """With a session: a new one when none is named."""
    return structs.replace(request, session_id=request.session_id or ids.make("ses"))
