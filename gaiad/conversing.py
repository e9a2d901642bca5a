"""What intake may ask of conversations: take a turn, see what a packet would hold or held. A part of `service`."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from gaiad.answering import Event
from gaiad.chat_schemas import ChatAnswer, ChatRequest, PacketRecord, Rendering, Replay
from gaiad.cognition import Assembler
from gaiad.config import CognitionConfig
from gaiad.errors import NotFound
from gaiad.ledger.cognition_log import CognitionLog, Record
from gaiad.logs import get_logger
from gaiad.memory_schemas import SessionSummary, SessionTurn
from gaiad.metrics import Metrics
from gaiad.models.pool.pool import ModelPool
from gaiad.ports import Archive, Call
from gaiad.remembering import decode_sent
from gaiad.replaying import replay
from gaiad.store.file import DatabaseFile
from gaiad.turn import TurnTaker

_log = get_logger("gaiad.cognition")


class Conversations:
    """Sessions and the packets of their turns."""

    def __init__(
        self,
        taker: TurnTaker,
        assembler: Assembler,
        archive: Archive,
        log: CognitionLog,
        pool: ModelPool,
        metrics: Metrics,
        notes: list[str],
    ) -> None:
        self._taker = taker
        self._archive = archive
        self._log = log
        self._assembler = assembler
        self._pool = pool
        self._metrics = metrics
        self._notes = notes

    def problems(self) -> list[str]:
        """What is wrong with personas and instructions, in words."""
        return [*self._notes, *self._assembler.problems()]

    def use_config(self, config: CognitionConfig) -> None:
        """Other sizes and another length of history, from the next turn on."""
        self._assembler.use_config(config)
        self._taker.use_history(config.history_turns)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup has to copy besides the memory."""
        return self._log.files()

    async def chat(self, request: ChatRequest, call: Call) -> AsyncGenerator[Event, None]:
        """A turn as it happens; the last event is `done` with a ChatAnswer. Raises as TurnTaker.take."""
        started = time.perf_counter()
        async with aclosing(self._taker.take(request, call)) as events:
            async for name, data in events:
                if isinstance(data, ChatAnswer):
                    self._metrics.observe_ms("turn", (time.perf_counter() - started) * 1000)
                    self._metrics.count("turns")
                yield name, data

    async def render(self, request: ChatRequest, call: Call) -> Rendering:
        """What a turn would send; nothing is sent or remembered."""
        return await self._taker.render(request, call)

    async def packet(self, name: str, call: Call) -> PacketRecord:
        """A packet that was sent, by its id, the digits shown, or its turn. Raises NotFound."""
        record = await self._log.find(call.tenant, name)
        return _decoded(record)

    async def packets(self, call: Call, limit: int, session_id: str = "") -> list[PacketRecord]:
        """The last ones, newest first; one that another version wrote is left out and logged."""
        found = []
        for record in await self._log.newest(call.tenant, limit, session_id):
            try:
                found.append(_decoded(record))
            except NotFound as error:
                _log.warning("a packet is left out of the list", packet=record.full_id, why=error.message)
        return found

    async def replay(self, name: str, call: Call, *, generate: bool) -> Replay:
        """Build a stored packet's prompt again, and with `generate` its reply in a fresh worker."""
        return await replay(decode_sent(await self._log.find(call.tenant, name)), self._pool, call, generate=generate)

    async def sessions(self, call: Call, limit: int) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        return await self._archive.sessions(call, limit)

    async def turns(self, session_id: str, call: Call, limit: int) -> list[SessionTurn]:
        """The last turns of a session, in order."""
        return await self._archive.session_turns(session_id, call, limit=limit, latest=True)


def _decoded(record: Record) -> PacketRecord:
    """Raises NotFound for one that another version wrote."""
    sent = decode_sent(record)
    values: dict[str, Any] = msgspec.to_builtins(sent)
    return PacketRecord(session_id=record.session_id, made_at=sent.packet.timestamp, **values)
