"""One record a turn, stage by stage: `gaiad turns show` tells the turn from it.

A record is written when the turn begins and once more when it ends; an ended turn never changes.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.council_schemas import TurnRecord
from gaiad.errors import BadInput, Conflict, NotFound
from gaiad.ids import short
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

_APPLICATION_ID = 0x67616974  # "gait"
RUNNING = "RUNNING"
"""The status of a turn that has not ended."""
CUT_OFF = "CUT_OFF"
"""The status of a turn in which the daemon itself ended."""
MIGRATION_1: Migration = """
CREATE TABLE turns (
    turn_id    TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    session_id TEXT NOT NULL,
    status     TEXT NOT NULL,
    at         TEXT NOT NULL,
    body       BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX turns_by_short_id ON turns (short_id);
CREATE INDEX turns_by_session ON turns (session_id, at);
CREATE INDEX turns_by_time ON turns (at);
CREATE INDEX turns_running ON turns (turn_id) WHERE status = 'RUNNING';
"""


class TurnLog:
    """Files `<folder>/<tenant>.db`, opened at first use; safe from any thread. `at` is when a turn began."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._files = TenantFiles(folder, [MIGRATION_1], _APPLICATION_ID)

    async def put(self, tenant: str, record: TurnRecord) -> None:
        """Keep the record, in the place of the one it had while it was running; durable when this returns.

        A turn that came to nothing may be taken again under its key. Raises Conflict when it came to its end already.
        """
        row = _row(record, to_iso(self._clock.now()))

        def insert(connection: sqlite3.Connection) -> None:
            if not connection.execute(_PUT, row).rowcount:
                raise Conflict(f"turn {record.turn_id!r} has ended already; its record is not written again")

        await self._files.write(tenant, insert)

    async def find(self, tenant: str, name: str) -> TurnRecord:
        """The turn called `name`: its id, or the eight digits shown for it. Raises NotFound, BadInput for several."""
        found = await self._rows(tenant, "turn_id = ?", (name,)) or await self._rows(tenant, "short_id = ?", (name,))
        if not found:
            raise NotFound(f"no turn is called {name!r}; `gaiad turns list` shows the newest")
        if len(found) > 1:
            choices = ", ".join(record.turn_id for record in found)
            raise BadInput(f"{name}: {len(found)} turns show these digits; name one in full: {choices}")
        return found[0]

    async def newest(self, tenant: str, limit: int, session_id: str = "") -> list[TurnRecord]:
        """The last turns, newest first; only of one session when it is given."""
        where = "session_id = ?" if session_id else "? = ''"
        return await self._rows(tenant, f"{where} ORDER BY at DESC, turn_id DESC LIMIT ?", (session_id, limit))

    async def end_cut_off(self) -> int:
        """At the daemon's start: turns that an earlier life left running are told as cut off; how many."""
        ended = 0
        for tenant in self._files.tenants():
            for record in await self._rows(tenant, "status = 'RUNNING' ORDER BY turn_id", ()):
                await self.put(tenant, self._cut_off(record))
                ended += 1
        return ended

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's file, made when there is none. Raises BadInput, Conflict."""
        return self._files.file(tenant)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home."""
        return self._files.files()

    async def close(self) -> None:
        """Finish what is being written."""
        await self._files.close()

    def _cut_off(self, record: TurnRecord) -> TurnRecord:
        why = "gaiad ended while the turn was being taken; ask again"
        return msgspec.structs.replace(record, status=CUT_OFF, end_why=why, ended_at=to_iso(self._clock.now()))

    async def _rows(self, tenant: str, where: str, values: Sequence[object]) -> list[TurnRecord]:
        def select(connection: sqlite3.Connection) -> list[TurnRecord]:
            found = connection.execute(f"SELECT body FROM turns WHERE {where}", values)
            return [msgspec.json.decode(row[0], type=TurnRecord) for row in found]

        return await self._files.read(tenant, select, [])


_PUT = """
INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (turn_id) DO UPDATE
SET session_id = excluded.session_id, status = excluded.status, at = excluded.at, body = excluded.body
WHERE turns.status IN ('RUNNING', 'CUT_OFF', 'CANCELLED', 'REFUSED', 'FAILED')
"""


def _row(record: TurnRecord, now: str) -> tuple[object, ...]:
    body = msgspec.json.encode(record)
    return (record.turn_id, short(record.turn_id), record.session_id, record.status, record.started_at or now, body)
