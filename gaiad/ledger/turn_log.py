"""What stays of turns beside the memory: a record of each, and every Cognition Packet that was sent with its reply.

A turn's record is written when it begins and once more when it ends; only its rating changes then. What the record of a
call says is its writer's business; here it is bytes under three names: its full id, the eight digits that are shown
(GCP 4.1.1), and its turn.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.base.logs import get_logger
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import drop_journal
from gaiad.wire.council import Rating, TurnRecord

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

    async def rate(self, tenant: str, name: str, rating: Rating) -> TurnRecord:
        """Keep what the person thinks of an answer. Raises NotFound, BadInput, Conflict while the turn runs."""
        turn_id = (await self.find(tenant, name)).turn_id

        def update(connection: sqlite3.Connection) -> TurnRecord:
            (body,) = connection.execute("SELECT body FROM turn_records WHERE turn_id = ?", (turn_id,)).fetchone()
            record = msgspec.structs.replace(msgspec.json.decode(body, type=TurnRecord), rating=rating)
            if record.status == RUNNING:
                raise Conflict(f"turn {name!r} has not ended yet; rate its answer when it is there")
            connection.execute(
                "UPDATE turn_records SET body = ? WHERE turn_id = ?", (msgspec.json.encode(record), turn_id)
            )
            return record

        return await self._databases.write(tenant, update)

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
