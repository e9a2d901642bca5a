"""Every message of the council, kept for good (heartbeats for some days), and the escalations nobody answered yet.

What a message says is the council's business (`council/envelope.py`); here it is bytes under an id that sorts by time.
What concerns the whole daemon is in state.db (`HOUSE`); every tenant reads it between its own messages.
"""

import heapq
import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.logs import get_logger
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import HOUSE, EscalationRecord, OpenEscalation, StoredMessage

_HEARTBEAT = "HEARTBEAT"
# The end of a proposal is in its own turn.
_END = """
SELECT 1 FROM council_messages AS ending
WHERE ending.turn_id = council_messages.turn_id AND ending.type = 'INFO'
AND instr(CAST(ending.body AS TEXT), '"parent_full_id":"' || council_messages.full_id || '"') > 0
"""
_log = get_logger("gaiad.council")


class CouncilLog:
    """The tables `council_messages` and `escalations`; the CouncilMessages port."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._clock = clock
        self._databases = databases

    # -- messages

    async def add(self, tenant: str, message: StoredMessage) -> None:
        """Keep the message; durable when this returns, unless the file is damaged. Raises BadInput, Unavailable."""
        row = msgspec.structs.astuple(message)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO council_messages VALUES (?, ?, ?, ?)", row)

        try:
            await self._databases.write(tenant, insert)
        except Damaged as error:  # the council goes on without this record
            _log.error("not_kept", what=f"council message {message.type}", error=error.message)

    async def after(self, tenant: str, full_id: str, limit: int, *, heartbeats: bool = True) -> list[StoredMessage]:
        """The first `limit` messages after `full_id` ("" is from the beginning), the tenant's own and the house's,
        oldest first.
        """
        found = await self._both(tenant, f"full_id > ?{_kinds(heartbeats)} ORDER BY full_id LIMIT ?", (full_id, limit))
        return list(itertools.islice(heapq.merge(*found, key=_by_id), limit))

    async def newest(self, tenant: str, limit: int, *, heartbeats: bool = True) -> list[StoredMessage]:
        """The last `limit` messages, the tenant's own and the house's, newest first."""
        where = f"full_id > ?{_kinds(heartbeats)} ORDER BY full_id DESC LIMIT ?"
        found = await self._both(tenant, where, ("", limit))
        return list(itertools.islice(heapq.merge(*found, key=_by_id, reverse=True), limit))

    async def of_turn(self, tenant: str, turn_id: str) -> list[StoredMessage]:
        """What was said in one turn, oldest first."""
        return await self._rows(tenant, "turn_id = ? AND turn_id != '' ORDER BY full_id", (turn_id,))

    async def prune_heartbeats(self, before_full_id: str) -> int:
        """Delete the house's heartbeats before this id (`gaiad.base.ids.lowest` gives one for a moment); how many."""

        def delete(connection: sqlite3.Connection) -> int:
            where = "DELETE FROM council_messages WHERE type = ? AND full_id < ?"
            return connection.execute(where, (_HEARTBEAT, before_full_id)).rowcount

        return await self._databases.write(HOUSE, delete)

    async def unended_proposals(self) -> list[tuple[str, StoredMessage]]:
        """Every tenant's PROPOSALs that no message of `gaiad` in answer to them has ended, oldest first."""
        found: list[tuple[str, StoredMessage]] = []
        for tenant in (HOUSE, *self._databases.tenants()):
            where = f"type = 'PROPOSAL' AND NOT EXISTS ({_END}) ORDER BY full_id"
            with suppress(Damaged):
                found += [(tenant, message) for message in await self._rows(tenant, where, ())]
        return found

    # -- escalations

    async def add_escalation(self, tenant: str, session_id: str, record: EscalationRecord) -> None:
        """Keep what went up to the person until it is answered; durable when this returns."""
        row = (record.message_id, session_id, "", msgspec.json.encode(record))

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO escalations VALUES (?, ?, ?, ?)", row)

        await self._databases.write(tenant, insert)

    async def answer_escalations(self, tenant: str, session_id: str) -> None:
        """The person spoke in this session: what was open in it is answered."""
        values = (to_iso(self._clock.now()), session_id)

        def update(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE escalations SET answered_at = ? WHERE session_id = ? AND answered_at = ''", values
            )

        with suppress(Damaged):
            await self._databases.write(tenant, update)

    async def open_escalations(self, limit: int) -> list[OpenEscalation]:
        """The last `limit` unanswered ones of every tenant, oldest first."""
        found: list[OpenEscalation] = []
        for tenant in (HOUSE, *self._databases.tenants()):
            with suppress(Damaged):
                found += await self._open_of(tenant, limit)
        return found

    async def _open_of(self, tenant: str, limit: int) -> list[OpenEscalation]:
        def select(connection: sqlite3.Connection) -> list[OpenEscalation]:
            where = "answered_at = '' ORDER BY message_id DESC LIMIT ?"
            rows = connection.execute(f"SELECT session_id, body FROM escalations WHERE {where}", (limit,)).fetchall()
            records = [(row[0], msgspec.json.decode(row[1], type=EscalationRecord)) for row in reversed(rows)]
            return [OpenEscalation(tenant=tenant, session_id=one[0], record=one[1]) for one in records]

        return await self._databases.read(tenant, select, [])

    async def _both(self, tenant: str, where: str, values: tuple[object, ...]) -> list[list[StoredMessage]]:
        return [await self._rows(name, where, values) for name in dict.fromkeys((tenant, HOUSE))]

    async def _rows(self, tenant: str, where: str, values: Sequence[object]) -> list[StoredMessage]:
        def select(connection: sqlite3.Connection) -> list[StoredMessage]:
            found = connection.execute(
                f"SELECT full_id, type, turn_id, body FROM council_messages WHERE {where}", values
            )
            return [StoredMessage(full_id=r[0], type=r[1], turn_id=r[2], body=bytes(r[3])) for r in found]

        return await self._databases.read(tenant, select, [])


def _kinds(heartbeats: bool) -> str:
    return "" if heartbeats else f" AND type != '{_HEARTBEAT}'"


def _by_id(message: StoredMessage) -> str:
    return message.full_id
