"""The jobs table of each tenant: everything long has progress, can be cancelled, and resumes after a crash.

The table does not know what a job does; its owner keeps `payload` (what to do) and `cursor` (how far it came). The
journal of a run that may be cut off
(`gaiad.base.journal`) is here too, gone when the run has ended.
"""

import sqlite3
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from gaiad.base.clock import Clock, to_epoch_ms, to_iso
from gaiad.base.errors import Conflict, NotFound
from gaiad.base.ids import IdMaker
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.status import Job, JobState

_KEEP_MS = 7 * 86_400_000


class RunJournal:
    """Of one life of the run `run_id`: a research run or a turn."""

    def __init__(self, databases: HomeDatabases, clock: Clock, tenant: str, run_id: str) -> None:
        self._databases = databases
        self._clock = clock
        self._tenant = tenant
        self._run_id = run_id
        self._asked: Counter[str] = Counter()

    async def begin(self, name: str, asked: bytes) -> tuple[str, bytes | None]:
        """See StepJournal. The same thing asked for the nth time is a step of its own."""
        digest = sha256(f"{name}\0".encode() + asked).hexdigest()[:32]
        self._asked[digest] += 1
        key, now_ms = f"{digest}-{self._asked[digest]}", to_epoch_ms(self._clock.now())

        def note(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT result FROM journal WHERE run = ? AND key = ?"
            if (row := connection.execute(query, (self._run_id, key)).fetchone()) is None:
                values = (self._run_id, key, name, now_ms)
                connection.execute("INSERT INTO journal (run, key, name, begun_ms) VALUES (?, ?, ?, ?)", values)
                return None
            return None if row[0] is None else zlib.decompress(row[0])

        return key, await self._databases.write(self._tenant, note)

    async def end(self, key: str, result: bytes) -> None:
        """See StepJournal. Attempts count from here: a run that comes further is not what the daemon dies of."""
        body, now_ms = zlib.compress(result, 1), to_epoch_ms(self._clock.now())

        def note(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE journal SET ended_ms = ?, result = ? WHERE run = ? AND key = ?",
                (now_ms, body, self._run_id, key),
            )
            connection.execute("UPDATE jobs SET attempts = 1 WHERE job_id = ? AND attempts > 1", (self._run_id,))

        await self._databases.write(self._tenant, note)

    async def steps_done(self) -> int:
        """How many steps of earlier lives came to their end."""
        query = "SELECT count(*) FROM journal WHERE run = ? AND result IS NOT NULL"
        return await self._databases.read(
            self._tenant, lambda connection: int(connection.execute(query, (self._run_id,)).fetchone()[0]), 0
        )


def drop_journal(connection: sqlite3.Connection, run_id: str) -> None:
    """The run has ended: nothing takes it up again."""
    connection.execute("DELETE FROM journal WHERE run = ?", (run_id,))


def drop_old_journals(connection: sqlite3.Connection, now_ms: int) -> None:
    """Those of runs that nobody took up again for a week."""
    connection.execute("DELETE FROM journal WHERE begun_ms < ?", (now_ms - _KEEP_MS,))


_COLUMNS = "job_id, kind, state, done, total, note, created_at, updated_at, result"
_ENDED = ("done", "failed", "cancelled")


class UnfinishedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A queued or interrupted job with what it needs to go on. `attempts` counts starts that no stop in order ended."""

    job: Job
    payload: dict[str, Any]
    cursor: dict[str, Any]
    attempts: int
    cancel_wanted: bool


class Jobs:
    """The jobs of all tenants."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._databases = databases
        self._clock = clock
        self._ids = IdMaker(clock)

    async def create(
        self,
        kind: str,
        tenant: str,
        payload: dict[str, Any],
        total: int = 0,
        idempotency_key: str = "",
        job_id: str = "",
    ) -> Job:
        """A queued job, durable when this returns; with a key seen before, the earlier job. Raises BadInput."""
        now = to_iso(self._clock.now())
        new_id = job_id or self._ids.make("job")

        def insert(connection: sqlite3.Connection) -> Job:
            if idempotency_key:
                query = f"SELECT {_COLUMNS} FROM jobs WHERE kind = ? AND idempotency_key = ?"
                if row := connection.execute(query, (kind, idempotency_key)).fetchone():
                    return _job(tenant, row)
            connection.execute(
                "INSERT INTO jobs (job_id, kind, state, total, payload, idempotency_key, created_at, updated_at)"
                " VALUES (?, ?, 'queued', ?, ?, ?, ?, ?)",
                (new_id, kind, total, msgspec.json.encode(payload), idempotency_key, now, now),
            )
            return _one(connection, tenant, new_id)

        return await self._databases.write(tenant, insert)

    async def get(self, tenant: str, job_id: str) -> Job:
        """The job; raises NotFound."""
        found = await self._databases.read(tenant, lambda connection: _one(connection, tenant, job_id), None)
        if found is None:
            raise _unknown(job_id)
        return found

    async def newest(self, tenant: str, limit: int = 50) -> list[Job]:
        """Newest first."""
        query = f"SELECT {_COLUMNS} FROM jobs ORDER BY created_at DESC, job_id DESC LIMIT ?"
        return [_job(tenant, row) for row in await self._rows(tenant, query, (limit,))]

    async def unfinished(self, tenant: str, kinds: Collection[str] = ()) -> list[UnfinishedJob]:
        """Queued and running jobs, oldest first; only of `kinds` when given."""
        query = (
            f"SELECT {_COLUMNS}, payload, cursor, attempts, cancel_wanted FROM jobs"
            " WHERE state IN ('queued', 'running') ORDER BY job_id"
        )
        found = [_unfinished(tenant, row) for row in await self._rows(tenant, query)]
        return [one for one in found if not kinds or one.job.kind in kinds]

    async def counts(self, tenants: Collection[str]) -> dict[str, int]:
        """How many jobs of these tenants are in each state."""
        counts: dict[str, int] = {}
        query = "SELECT state, count(*) FROM jobs GROUP BY state"
        for tenant in tenants:
            with suppress(Damaged):
                for state, count in await self._rows(tenant, query):
                    counts[state] = counts.get(state, 0) + int(count)
        return counts

    async def start(self, job: Job) -> None:
        """queued, or running after a crash, becomes running; one more attempt."""
        await self._update(job, "state = 'running', attempts = attempts + 1", ())

    async def interrupt(self, job: Job) -> None:
        """The daemon stops in order: the job goes on at the next start, and this attempt does not count."""
        await self._update(job, "attempts = attempts - 1", ())

    async def progress(
        self,
        job: Job,
        done: int,
        total: int,
        note: str = "",
        cursor: dict[str, Any] | None = None,
        log: Sequence[bytes] = (),
    ) -> None:
        """Record how far the job came and append `log` lines, in one commit."""
        now = to_iso(self._clock.now())
        encoded = None if cursor is None else msgspec.json.encode(cursor)

        def record(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE jobs SET done = ?, total = ?, note = ?, updated_at = ?, cursor = coalesce(?, cursor)"
                " WHERE job_id = ?",
                (done, total, note, now, encoded, job.job_id),
            )
            query = "SELECT coalesce(max(number), 0) FROM job_log WHERE job_id = ?"
            (last,) = connection.execute(query, (job.job_id,)).fetchone()
            connection.executemany(
                "INSERT INTO job_log (job_id, number, body) VALUES (?, ?, ?)",
                ((job.job_id, number, body) for number, body in enumerate(log, start=last + 1)),
            )

        await self._databases.write(job.tenant, record)

    async def log(self, tenant: str, job_id: str, after: int, limit: int = 10_000) -> list[bytes]:
        """Log lines number `after` + 1 and on, in order."""
        query = "SELECT body FROM job_log WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?"
        return [bytes(row[0]) for row in await self._rows(tenant, query, (job_id, after, limit))]

    async def prune(self, tenant: str, keep: int) -> None:
        """Delete the log lines of all ended jobs but the newest `keep`, and old journals; the jobs' rows stay."""
        query = (
            "DELETE FROM job_log WHERE job_id IN (SELECT job_id FROM jobs"
            " WHERE state IN ('done', 'failed', 'cancelled') ORDER BY job_id DESC LIMIT -1 OFFSET ?)"
        )
        now_ms = to_epoch_ms(self._clock.now())

        def delete(connection: sqlite3.Connection) -> None:
            connection.execute(query, (keep,))
            drop_old_journals(connection, now_ms)

        await self._databases.write(tenant, delete)

    async def finish(self, job: Job, state: JobState, note: str = "", result: dict[str, Any] | None = None) -> None:
        """End the job as done, failed or cancelled."""
        values = (state, note, msgspec.json.encode(result or {}), to_iso(self._clock.now()), job.job_id)
        query = "UPDATE jobs SET state = ?, note = ?, result = ?, updated_at = ? WHERE job_id = ?"

        def record(connection: sqlite3.Connection) -> None:
            connection.execute(query, values)
            drop_journal(connection, job.job_id)

        await self._databases.write(job.tenant, record)

    async def cancel(self, tenant: str, job_id: str) -> Job:
        """Ask a job to stop; its owner sees it at the next step. Raises NotFound, Conflict when it has ended."""
        job = await self.get(tenant, job_id)
        if job.state in _ENDED:
            raise Conflict(f"job {job_id} is already {job.state}")
        await self._update(job, "cancel_wanted = 1", ())
        return await self.get(tenant, job_id)

    async def _rows(self, tenant: str, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return await self._databases.read(tenant, lambda c: c.execute(query, values).fetchall(), [])

    async def _update(self, job: Job, change: str, values: tuple[object, ...]) -> None:
        now = to_iso(self._clock.now())
        query = f"UPDATE jobs SET {change}, updated_at = ? WHERE job_id = ?"
        await self._databases.write(job.tenant, lambda c: c.execute(query, (*values, now, job.job_id)).rowcount)


def end_job(connection: sqlite3.Connection, job_id: str, at: str) -> None:
    """Mark a job done within the commit that stores its result; nothing happens for an unknown job."""
    connection.execute("UPDATE jobs SET state = 'done', updated_at = ? WHERE job_id = ?", (at, job_id))
    drop_journal(connection, job_id)


def _one(connection: sqlite3.Connection, tenant: str, job_id: str) -> Job:
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        raise _unknown(job_id)
    return _job(tenant, row)


def _unknown(job_id: str) -> NotFound:
    return NotFound(f"no job is called {job_id!r}; `gaiad jobs` lists them")


def _unfinished(tenant: str, row: tuple[Any, ...]) -> UnfinishedJob:
    payload, cursor, attempts, cancel_wanted = row[-4:]
    return UnfinishedJob(
        job=_job(tenant, row[:-4]),
        payload=msgspec.json.decode(payload),
        cursor=msgspec.json.decode(cursor),
        attempts=attempts,
        cancel_wanted=bool(cancel_wanted),
    )


def _job(tenant: str, row: tuple[Any, ...]) -> Job:
    job_id, kind, state, done, total, note, created_at, updated_at, result = row
    return Job(
        job_id=job_id,
        kind=kind,
        tenant=tenant,
        state=state,
        done=done,
        total=total,
        note=note,
        created_at=created_at,
        updated_at=updated_at,
        result=msgspec.json.decode(result),
    )
