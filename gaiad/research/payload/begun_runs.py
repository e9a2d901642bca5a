"""Runs that go on by themselves, from their start to their end: what was asked is durable before anything is searched.

A row stands here as long as its run is under way; whoever writes the end of the run takes it out in the same commit
(`kept_runs`), so that a run is either to be gone on with or at its end, never both. What is left here at a start was
interrupted, and is run again from its request.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.ports import Call
from gaiad.run_schemas import RunRow
from gaiad.schemas import ResearchRequest
from gaiad.store.database import Migration

T = TypeVar("T")
ATTEMPTS = 3
"""How often a run is begun at most: one that the daemon died under so often may be what kills it."""
BEGUN_MIGRATION: Migration = """
CREATE TABLE begun_runs (
    research_id TEXT PRIMARY KEY,
    request     BLOB NOT NULL,
    started_at  TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    hidden      TEXT NOT NULL,
    guarded     TEXT NOT NULL,
    cancelled   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""
_COLUMNS = "research_id, request, started_at, attempts, hidden, guarded, cancelled"


class RunFiles(Protocol):
    """One database file a tenant, made with the migrations and the application id of `kept_runs`."""

    async def write(self, tenant: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the tenant's writer; durable when this returns. Raises BadInput, Conflict, Unavailable."""
        ...

    async def read(self, tenant: str, work: Callable[[sqlite3.Connection], T], without: T) -> T:
        """Run `work` in one snapshot; `without` is the result when the tenant has no file."""
        ...


class Begun(msgspec.Struct, frozen=True):
    """A run under way. `attempts` counts this one; `cancelled` says that somebody wants it no more.

    `unreadable` says why its request is not known (one of another release), "" when it is; it cannot be gone on with.
    `hidden` and `guarded` are the labels of the call it was begun by: what its channel did not see then, it never sees.
    """

    research_id: str
    request: ResearchRequest
    started_at: str
    attempts: int = 1
    hidden: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    cancelled: bool = False
    unreadable: str = ""


class _Asked(msgspec.Struct, frozen=True):
    query: str = ""


class BegunRuns:
    """The rows of all tenants."""

    def __init__(self, files: RunFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    async def begin(self, research_id: str, request: ResearchRequest, call: Call) -> Begun:
        """A new run, durable when this returns. Raises BadInput, Conflict, Unavailable."""
        begun = Begun(research_id, request, to_iso(self._clock.now()), hidden=call.hidden, guarded=call.guarded)
        labels = [json.dumps(sorted(found)) for found in (begun.hidden, begun.guarded)]
        values = (research_id, msgspec.json.encode(request), begun.started_at, 1, *labels, 0)
        insert = f"INSERT INTO begun_runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
        await self._files.write(call.tenant, lambda connection: connection.execute(insert, values).rowcount)
        return begun

    async def all(self, call: Call) -> list[Begun]:
        """Those under way, oldest first."""

        def select(connection: sqlite3.Connection) -> list[Begun]:
            return [_begun(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM begun_runs ORDER BY 1")]

        return await self._files.read(call.tenant, select, [])

    async def find(self, research_id: str, call: Call) -> Begun | None:
        """The run of this id, None when none of it is under way."""
        return next((one for one in await self.all(call) if one.research_id == research_id), None)

    async def count_attempt(self, research_id: str, call: Call, step: int) -> None:
        """One more attempt (`step` 1), or one that is not to count, -1: a stop in order is nobody's failure."""
        await self._update("attempts = attempts + ?", (step, research_id), call)

    async def cancel(self, research_id: str, call: Call) -> None:
        """Remember that nobody wants the run any more, so that no start goes on with it."""
        await self._update("cancelled = ?", (1, research_id), call)

    async def _update(self, change: str, values: tuple[object, ...], call: Call) -> None:
        query = f"UPDATE begun_runs SET {change} WHERE research_id = ?"
        await self._files.write(call.tenant, lambda connection: connection.execute(query, values).rowcount)


def row_of(begun: Begun, tenant: str) -> RunRow:
    """The run as a line of a list."""
    return RunRow(
        research_id=begun.research_id,
        tenant=tenant,
        query=begun.request.query,
        started_at=begun.started_at,
        status="in_progress",
        outcome="",
        confidence=0.0,
        sources=0,
        contradictions=0,
        iterations=0,
    )


def _begun(row: Sequence[object]) -> Begun:
    research_id, request, started_at, attempts, hidden, guarded, cancelled = row
    assert isinstance(request, bytes)
    begun = Begun(
        research_id=str(research_id),
        request=ResearchRequest(query=""),
        started_at=str(started_at),
        attempts=int(str(attempts)),
        cancelled=bool(cancelled),
    )
    try:
        return msgspec.structs.replace(
            begun,
            request=msgspec.json.decode(request, type=ResearchRequest),
            hidden=frozenset(json.loads(str(hidden))),
            guarded=frozenset(json.loads(str(guarded))),
        )
    except ValueError as error:  # msgspec's are such, json's too
        return msgspec.structs.replace(begun, request=ResearchRequest(query=_query(request)), unreadable=str(error))


def _query(request: bytes) -> str:
    """What was asked, as far as a request of another release tells."""
    try:
        return msgspec.json.decode(request, type=_Asked).query
    except ValueError:
        return ""
