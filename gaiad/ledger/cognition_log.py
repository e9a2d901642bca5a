"""Every Cognition Packet that was sent to a model, with what came back: `gaiad cognition show` and `replay` read it.

What a record says is its writer's business; here it is bytes under three names: its full id, the eight digits that are
shown (GCP 4.1.1), and its turn.
"""

import sqlite3
from contextlib import suppress

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.logs import get_logger
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases

_log = get_logger("gaiad.cognition")


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
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
    """The table `cognition_packets` of every tenant."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._clock = clock
        self._databases = databases

    async def add(self, tenant: str, record: CallRecord) -> None:
        """Keep the record; durable when this returns, unless the file is damaged: then the log says so."""
        row = (*msgspec.structs.astuple(record)[:4], to_iso(self._clock.now()), record.body, record.model)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO cognition_packets VALUES (?, ?, ?, ?, ?, ?, ?)", row)

        try:
            await self._databases.write(tenant, insert)
        except Damaged as error:  # the answer is worth more than its record
            _log.error("not_kept", what="Cognition Packet", packet=record.full_id, error=error.message)

    async def find(self, tenant: str, name: str) -> CallRecord:
        """The record called `name`: a full id, the digits shown, or a turn's id (its last call, of those that carry the
        session on when there are any).

        Raises NotFound, BadInput when the digits fit several.
        """
        for column in ("full_id", "short_id", "turn_id"):
            rows = await self._rows(tenant, f"{column} = ? ORDER BY model = '', full_id DESC", (name,))
            if column == "short_id" and len(rows) > 1:
                choices = ", ".join(row.full_id for row in rows)
                raise BadInput(f"{name}: {len(rows)} packets match these digits; give the full id: {choices}")
            if rows:
                return rows[0]
        raise NotFound(f"no Cognition Packet is called {name!r}; `gaiad cognition list` shows the newest")

    async def newest(self, tenant: str, limit: int, session_id: str = "") -> list[CallRecord]:
        """The last calls, newest first; only of one session when it is given."""
        where = "session_id = ?" if session_id else "? = ''"
        return await self._rows(tenant, f"{where} ORDER BY full_id DESC LIMIT ?", (session_id, limit))

    async def last_of_model(self, tenant: str, session_id: str, model: str) -> CallRecord | None:
        """The last call that carries a session's conversation with a model on, None when none can be read."""
        where = "session_id = ? AND model = ? ORDER BY full_id DESC LIMIT 1"
        with suppress(Damaged):
            return next(iter(await self._rows(tenant, where, (session_id, model))), None)
        return None

    async def _rows(self, tenant: str, where: str, values: tuple[object, ...]) -> list[CallRecord]:
        def select(connection: sqlite3.Connection) -> list[CallRecord]:
            found = connection.execute(
                f"SELECT full_id, short_id, turn_id, session_id, body, model FROM cognition_packets WHERE {where}",
                values,
            )
            return [_record(row) for row in found]

        return await self._databases.read(tenant, select, [])


def _record(row: tuple[str, str, str, str, bytes, str]) -> CallRecord:
    full_id, short_id, turn_id, session_id, body, model = row
    return CallRecord(
        full_id=full_id, short_id=short_id, turn_id=turn_id, session_id=session_id, body=bytes(body), model=model
    )
