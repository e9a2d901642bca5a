"""RFCs as they are kept: each a record that is changed as a whole, in one transaction."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import read_state
from gaiad.wire.governance import RfcRecord

Change = Callable[[RfcRecord], RfcRecord]


class RfcTable:
    """The table `rfcs` of state.db. Ids sort by time."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    async def add(self, record: RfcRecord) -> None:
        """Keep a new one; durable when this returns."""
        row = (record.rfc_id, short(record.rfc_id), record.state, record.updated_at, _body(record))

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO rfcs VALUES (?, ?, ?, ?, ?)", row)

        await asyncio.to_thread(self._file.write, insert)

    async def change(self, rfc_id: str, change: Change) -> RfcRecord:
        """Put what `change` makes of the record in its place; what `change` raises leaves it as it was."""

        def update(connection: sqlite3.Connection) -> RfcRecord:
            made = change(_one(connection, rfc_id))
            values = (made.state, made.updated_at, _body(made), rfc_id)
            connection.execute("UPDATE rfcs SET state = ?, updated_at = ?, body = ? WHERE rfc_id = ?", values)
            return made

        return await asyncio.to_thread(self._file.write, update)

    async def find(self, name: str) -> RfcRecord:
        """The RFC called `name`: its id, or the eight digits shown. Raises NotFound, BadInput when they fit several."""
        return await self._file.aread(lambda connection: _one(connection, name))

    async def newest(self, limit: int, state: str = "") -> list[RfcRecord]:
        """The last ones, newest first; only those in `state` when it is given."""
        where = "state = ?" if state else "? = ''"

        def select(connection: sqlite3.Connection) -> list[RfcRecord]:
            found = connection.execute(
                f"SELECT body FROM rfcs WHERE {where} ORDER BY rfc_id DESC LIMIT ?", (state, limit)
            )
            return [_decoded(body) for (body,) in found]

        return await self._file.aread(select)


def passed_offline(home: Path, identity_digest: str) -> bool:
    """Whether the council passed this identity in an RFC, read from a home's files. Raises Conflict."""

    def work(connection: sqlite3.Connection) -> bool:
        found = connection.execute("SELECT body FROM rfcs WHERE state IN ('passed', 'merged')")
        return any(_decoded(body).identity_digest == identity_digest for (body,) in found)

    return bool(read_state(home, work))


def _one(connection: sqlite3.Connection, name: str) -> RfcRecord:
    found = connection.execute(
        "SELECT rfc_id, body FROM rfcs WHERE rfc_id = ? OR short_id = ?", (name, name)
    ).fetchall()
    if len(found) > 1:
        choices = ", ".join(row[0] for row in found)
        raise BadInput(f"{name}: {len(found)} RFCs show these digits; name one in full: {choices}")
    if not found:
        raise NotFound(f"no RFC is called {name!r}; `gaiad rfc list` shows them")
    return _decoded(found[0][1])


def _body(record: RfcRecord) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(record, next_steps=[]))


def _decoded(body: bytes) -> RfcRecord:
    try:
        return msgspec.json.decode(body, type=RfcRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Conflict(f"an RFC in state.db cannot be read ({error}); restore the file from a backup") from error
