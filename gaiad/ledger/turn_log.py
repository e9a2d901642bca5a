"""One record a turn, stage by stage: `gaiad turns show` tells the turn from it.

A record is written when the turn begins and once more when it ends; an ended turn never changes.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.journal import drop_journal
from gaiad.wire.council import TurnRecord

RUNNING = "RUNNING"
"""The status of a turn that has not ended."""
CUT_OFF = "CUT_OFF"
_TAKEN_AGAIN = ("RUNNING", CUT_OFF, "FAILED")
"""The status of a turn in which the daemon itself ended."""


class TurnLog:
    """The table `turn_records` of every tenant. `at` is when a turn began."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._clock = clock
        self._databases = databases

    async def put(self, tenant: str, record: TurnRecord) -> None:
        """Keep the record, in the place of the one it had while it was running; durable when this returns.

        A turn that came to nothing may be taken again under its key. Raises Conflict when it came to its end already.
        """
        row = _row(record, to_iso(self._clock.now()))

        def insert(connection: sqlite3.Connection) -> None:
            if not connection.execute(_PUT, row).rowcount:
                raise Conflict(f"turn {record.turn_id!r} has ended already; its record is not written again")
            if record.status not in _TAKEN_AGAIN:
                drop_journal(connection, record.turn_id)

        await self._databases.write(tenant, insert)

    async def find(self, tenant: str, name: str) -> TurnRecord:
        """The turn called `name`: its id, or the eight digits shown for it. Raises NotFound, BadInput for several."""
        found = await self._rows(tenant, "turn_id = ?", (name,)) or await self._rows(tenant, "short_id = ?", (name,))
        if not found:
            raise NotFound(f"no turn is called {name!r}; `gaiad turns list` shows the newest")
        if len(found) > 1:
            choices = ", ".join(record.turn_id for record in found)
            raise BadInput(f"{name}: {len(found)} turns match these digits; give the full id: {choices}")
        return found[0]

    async def newest(self, tenant: str, limit: int, session_id: str = "") -> list[TurnRecord]:
        """The last turns, newest first; only of one session when it is given."""
        where = "session_id = ?" if session_id else "? = ''"
        return await self._rows(tenant, f"{where} ORDER BY at DESC, turn_id DESC LIMIT ?", (session_id, limit))

    async def end_cut_off(self) -> int:
        """At the daemon's start: mark turns that an earlier daemon left running as cut off; how many."""
        ended = 0
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                for record in await self._rows(tenant, "status = 'RUNNING' ORDER BY turn_id", ()):
                    await self.put(tenant, self._cut_off(record))
                    ended += 1
        return ended

    def _cut_off(self, record: TurnRecord) -> TurnRecord:
        why = "gaiad ended while the turn was being taken; ask again"
        return msgspec.structs.replace(record, status=CUT_OFF, end_why=why, ended_at=to_iso(self._clock.now()))

    async def _rows(self, tenant: str, where: str, values: Sequence[object]) -> list[TurnRecord]:
        def select(connection: sqlite3.Connection) -> list[TurnRecord]:
            found = connection.execute(f"SELECT body FROM turn_records WHERE {where}", values)
            return [msgspec.json.decode(row[0], type=TurnRecord) for row in found]

        return await self._databases.read(tenant, select, [])


_PUT = """
INSERT INTO turn_records VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (turn_id) DO UPDATE
SET session_id = excluded.session_id, status = excluded.status, at = excluded.at, body = excluded.body
WHERE turn_records.status IN ('RUNNING', 'CUT_OFF', 'CANCELLED', 'REFUSED', 'FAILED')
"""


def _row(record: TurnRecord, now: str) -> tuple[object, ...]:
    body = msgspec.json.encode(record)
    return (record.turn_id, short(record.turn_id), record.session_id, record.status, record.started_at or now, body)
