"""Every Cognition Packet that was sent to a model, with what came back: `gaiad cognition show` and `replay` read it.

One database file a tenant, so that forgetting a tenant is deleting a file. What a record says is its writer's business;
here it is bytes under three names: its full id, the eight digits that are shown (GCP 4.1.1), and its turn.
"""

import sqlite3
from pathlib import Path

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import BadInput, NotFound
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

_APPLICATION_ID = 0x67616963  # "gaic"
MIGRATION_1: Migration = """
CREATE TABLE packets (
    full_id    TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    turn_id    TEXT NOT NULL,
    session_id TEXT NOT NULL,
    made_at    TEXT NOT NULL,
    body       BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX packets_by_short_id ON packets (short_id);
CREATE INDEX packets_by_turn ON packets (turn_id);
CREATE INDEX packets_by_session ON packets (session_id, full_id);
"""


MIGRATION_2: Migration = """
ALTER TABLE packets ADD COLUMN model TEXT NOT NULL DEFAULT '';
CREATE INDEX packets_by_session_and_model ON packets (session_id, model, full_id);
"""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model. `full_id` sorts by time; `body` is JSON.

    `model` is the fingerprint of the model whose conversation the packet carries on, "" for one that was asked beside
    a turn and has no history.
    """

    full_id: str
    short_id: str
    turn_id: str
    session_id: str
    body: bytes
    model: str = ""


class CognitionLog:
    """Files `<folder>/<tenant>.db`, opened at first use; safe from any thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._files = TenantFiles(folder, [MIGRATION_1, MIGRATION_2], _APPLICATION_ID)

    async def add(self, tenant: str, record: Record) -> None:
        """Keep the record; durable when this returns."""
        row = (*msgspec.structs.astuple(record)[:4], to_iso(self._clock.now()), record.body, record.model)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO packets VALUES (?, ?, ?, ?, ?, ?, ?)", row)

        await self._files.write(tenant, insert)

    async def find(self, tenant: str, name: str) -> Record:
        """The record called `name`: a full id, the digits shown, or a turn's id (its last call, of those that carry the
        session on when there are any).

        Raises NotFound, BadInput when the digits fit several.
        """
        for column in ("full_id", "short_id", "turn_id"):
            rows = await self._rows(tenant, f"{column} = ? ORDER BY model = '', full_id DESC", (name,))
            if column == "short_id" and len(rows) > 1:
                choices = ", ".join(row.full_id for row in rows)
                raise BadInput(f"{name}: {len(rows)} packets show these digits; name one in full: {choices}")
            if rows:
                return rows[0]
        raise NotFound(f"no Cognition Packet is called {name!r}; `gaiad cognition list` shows the newest")

    async def newest(self, tenant: str, limit: int, session_id: str = "") -> list[Record]:
        """The last calls, newest first; only of one session when it is given."""
        where = "session_id = ?" if session_id else "? = ''"
        return await self._rows(tenant, f"{where} ORDER BY full_id DESC LIMIT ?", (session_id, limit))

    async def last_of_model(self, tenant: str, session_id: str, model: str) -> Record | None:
        """The last call that carries a session's conversation with a model on, None when there was none."""
        where = "session_id = ? AND model = ? ORDER BY full_id DESC LIMIT 1"
        return next(iter(await self._rows(tenant, where, (session_id, model))), None)

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's file, made when there is none. Raises BadInput, Conflict."""
        return self._files.file(tenant)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home."""
        return self._files.files()

    async def close(self) -> None:
        """Finish what is being written."""
        await self._files.close()

    async def _rows(self, tenant: str, where: str, values: tuple[object, ...]) -> list[Record]:
        def select(connection: sqlite3.Connection) -> list[Record]:
            found = connection.execute(
                f"SELECT full_id, short_id, turn_id, session_id, body, model FROM packets WHERE {where}", values
            )
            return [_record(row) for row in found]

        return await self._files.read(tenant, select, [])


def _record(row: tuple[str, str, str, str, bytes, str]) -> Record:
    full_id, short_id, turn_id, session_id, body, model = row
    return Record(
        full_id=full_id, short_id=short_id, turn_id=turn_id, session_id=session_id, body=bytes(body), model=model
    )
