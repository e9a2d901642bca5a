"""What stays of a turn: the packet that was sent with its reply, in the log, and what was said, in the memory."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import NotFound
from gaiad.ids import short
from gaiad.ledger.cognition_log import CognitionLog, Record
from gaiad.logs import get_logger
from gaiad.memory_schemas import SessionTurn
from gaiad.ports import Archive, Call
from gaiad.tasks import TaskGroup
from prompts.packet import CognitionPacket, Manifest

_logger = get_logger("gaiad.cognition")


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What the cognition log keeps of one call: everything a replay needs, and what came back (decision 9).

    `failure` says why nothing came back whole, "" when it did.
    """

    packet: CognitionPacket
    manifest: Manifest
    request: dict[str, Any]
    reply: dict[str, Any]
    failure: str = ""


class Keeper:
    """Writes both; neither is lost when the person has gone meanwhile."""

    def __init__(self, archive: Archive, log: CognitionLog, clock: Clock) -> None:
        self._archive = archive
        self._log = log
        self._clock = clock
        self._tasks = TaskGroup("keeper")

    async def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` to its end, also when whoever waits for it is cancelled meanwhile."""
        await asyncio.shield(self._tasks.start("keep", work))

    async def close(self) -> None:
        """Wait for what is being kept."""
        await self._tasks.wait()

    async def keep(self, session_id: str, sent: Sent, tenant: str) -> None:
        """Into the cognition log; durable when this returns."""
        packet = sent.packet
        row = Record(
            full_id=packet.full_id,
            short_id=short(packet.full_id),
            turn_id=packet.turn_id,
            session_id=session_id,
            body=msgspec.json.encode(sent),
        )
        await self._log.add(tenant, row)

    async def remember(self, turn: SessionTurn, tenant: str) -> None:
        """Into the memory, whether or not anybody still waits for the answer."""
        await self._archive.remember_turn(turn, Call(tenant=tenant))

    async def last_packet(self, session_id: str, tenant: str) -> CognitionPacket | None:
        """The last one of a session, None when there is none that can be read: it serves reuse only."""
        last = await self._log.newest(tenant, 1, session_id)
        try:
            return decode_sent(last[0]).packet if last else None
        except NotFound as error:
            _logger.warning("last_packet_not_used", session_id=session_id, reason=error.message)
            return None

    def now(self) -> str:
        """UTC in ISO 8601."""
        return to_iso(self._clock.now())


def decode_sent(record: Record) -> Sent:
    """What was kept of a call. Raises NotFound when a newer version wrote it in a way that this one does not know."""
    try:
        return msgspec.json.decode(record.body, type=Sent)
    except msgspec.DecodeError as error:
        raise NotFound(f"{record.full_id}: was kept by another version of gaiad ({error})") from error
