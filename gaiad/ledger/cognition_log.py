"""Every Cognition Packet that was sent to a model, with what came back: `gaiad cognition show` and `replay` read it.

One database file a tenant, so that forgetting a tenant is deleting a file. What a record says is its writer's business;
here it is bytes under three names: its full id, the eight digits that are shown (GCP 4.1.1), and its turn.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import BadInput, NotFound
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

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model. `full_id` sorts by time; `body` is JSON."""

    full_id: str
    short_id: str
    turn_id: str
    session_id: str
    body: bytes


class CognitionLog:
    """Files `<folder>/<tenant>.db`, opened at first use; safe from any thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._files: dict[str, DatabaseFile] = {}
        self._opening = threading.Lock()

    async def add(self, tenant: str, record: Record) -> None:
        """Keep the record; durable when this returns."""
        row = (*msgspec.structs.astuple(record)[:4], to_iso(self._clock.now()), record.body)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO packets VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._run(lambda: self._file(tenant).write(insert))

    async def find(self, tenant: str, name: str) -> Record:
        """The record called `name`: a full id, the digits shown, or a turn's id (its last call).

        Raises NotFound, BadInput when the digits fit several.
        """
        for column in ("full_id", "short_id", "turn_id"):
            rows = await self._rows(tenant, f"{column} = ? ORDER BY full_id DESC", (name,))
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

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home: every tenant's file, opened for it."""
        found = sorted(self._folder.glob("*.db"))
        return {f"{self._folder.name}/{path.name}": self._file(path.stem) for path in found}

    async def close(self) -> None:
        """Finish what is being written."""
        with self._opening:
            files, self._files = list(self._files.values()), {}
        for file in files:
            await asyncio.to_thread(file.close)

    async def _rows(self, tenant: str, where: str, values: tuple[object, ...]) -> list[Record]:
        def select(connection: sqlite3.Connection) -> list[Record]:
            found = connection.execute(
                f"SELECT full_id, short_id, turn_id, session_id, body FROM packets WHERE {where}", values
            )
            return [Record(full_id=r[0], short_id=r[1], turn_id=r[2], session_id=r[3], body=bytes(r[4])) for r in found]

        if not self._path(tenant).exists():
            return []
        return await self._run(lambda: self._file(tenant).read(select))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    def _file(self, tenant: str) -> DatabaseFile:
        with self._opening:
            if tenant not in self._files:
                self._files[tenant] = DatabaseFile.open(self._path(tenant), [MIGRATION_1], _APPLICATION_ID, readers=1)
            return self._files[tenant]

    def _path(self, tenant: str) -> Path:
        """Raises BadInput for a name that is none of a file in the folder."""
        if not tenant or tenant.startswith(".") or "/" in tenant or "\0" in tenant:
            raise BadInput(f"tenant {tenant!r}: use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
        return self._folder / f"{tenant}.db"
