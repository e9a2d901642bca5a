"""The jobs table: everything long has progress, can be cancelled, and resumes after a crash from its own state.

The table knows nothing of what a job does; its owner keeps `payload` (what to do) and `cursor` (how far it came).
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import Conflict, NotFound
from gaiad.ids import IdMaker
from gaiad.status_schemas import Job, JobState
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

MIGRATION_1: Migration = """
CREATE TABLE jobs (
    job_id          TEXT PRIMARY KEY,
    kind            TEXT NOT NULL,
    tenant          TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    done            INTEGER NOT NULL DEFAULT 0,
    total           INTEGER NOT NULL DEFAULT 0,
    note            TEXT NOT NULL DEFAULT '',
    payload         BLOB NOT NULL,
    cursor          BLOB NOT NULL DEFAULT '{}',
    result          BLOB NOT NULL DEFAULT '{}',
    cancel_wanted   INTEGER NOT NULL DEFAULT 0,
    idempotency_key TEXT NOT NULL DEFAULT '',
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, job_id);
CREATE UNIQUE INDEX jobs_by_key ON jobs (tenant, kind, idempotency_key) WHERE idempotency_key <> '';
CREATE TABLE job_log (
    job_id TEXT NOT NULL REFERENCES jobs (job_id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (job_id, number)
) WITHOUT ROWID;
"""

_ENDED = ("done", "failed", "cancelled")


class Jobs:
    """Rows of the jobs table; safe from any thread."""

    def __init__(self, file: DatabaseFile, clock: Clock, ids: IdMaker) -> None:
        self.file = file
        self._clock = clock
        self._ids = ids

    def create(self, kind: str, tenant: str, payload: dict[str, Any], total: int = 0, idempotency_key: str = "") -> Job:
        """A queued job; with a key seen before, the earlier job instead."""
        job_id, now = self._ids.make("job"), to_iso(self._clock.now())

        def insert(connection: sqlite3.Connection) -> str:
            if idempotency_key:
                row = connection.execute(
                    "SELECT job_id FROM jobs WHERE tenant = ? AND kind = ? AND idempotency_key = ?",
                    (tenant, kind, idempotency_key),
                ).fetchone()
                if row:
                    return str(row[0])
            connection.execute(
                "INSERT INTO jobs"
                " (job_id, kind, tenant, state, total, payload, idempotency_key, created_at, updated_at)"
                " VALUES (?, ?, ?, 'queued', ?, ?, ?, ?, ?)",
                (job_id, kind, tenant, total, msgspec.json.encode(payload), idempotency_key, now, now),
            )
            return job_id

        return self.get(self.file.write(insert))

    def get(self, job_id: str) -> Job:
        """The job; raises NotFound."""
        row = self.file.read(lambda c: c.execute(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)).fetchone())
        if row is None:
            raise NotFound(f"no job is called {job_id!r}; `gaiad jobs` lists them")
        return _job(row)

    def newest(self, tenants: tuple[str, ...] | None = None, limit: int = 50) -> list[Job]:
        """Newest first; only of `tenants` when given."""
        wanted = "" if tenants is None else f"WHERE tenant IN ({', '.join('?' * len(tenants))})"
        rows = self.file.read(
            lambda c: c.execute(
                f"SELECT {_COLUMNS} FROM jobs {wanted} ORDER BY job_id DESC LIMIT ?", (*(tenants or ()), limit)
            ).fetchall()
        )
        return [_job(row) for row in rows]

    def unfinished(self, kind: str) -> list[Job]:
        """Queued and running jobs of a kind, oldest first: what a restart resumes."""
        rows = self.file.read(
            lambda c: c.execute(
                f"SELECT {_COLUMNS} FROM jobs WHERE kind = ? AND state IN ('queued', 'running') ORDER BY job_id",
                (kind,),
            ).fetchall()
        )
        return [_job(row) for row in rows]

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        rows = self.file.read(lambda c: c.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        return {str(state): int(count) for state, count in rows}

    def payload(self, job_id: str) -> dict[str, Any]:
        """What the job is to do, as its owner wrote it."""
        return self._blob(job_id, "payload")

    def cursor(self, job_id: str) -> dict[str, Any]:
        """How far the job came, as its owner wrote it."""
        return self._blob(job_id, "cursor")

    def start(self, job_id: str) -> None:
        """queued or running (after a crash) becomes running."""
        self._set(job_id, state="running")

    def progress(
        self,
        job_id: str,
        done: int,
        total: int,
        note: str = "",
        cursor: dict[str, Any] | None = None,
        log: Sequence[bytes] = (),
    ) -> None:
        """Record how far the job came and append `log` lines, in one commit."""
        now = to_iso(self._clock.now())

        def record(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE jobs SET done = ?, total = ?, note = ?, updated_at = ?, cursor = coalesce(?, cursor)"
                " WHERE job_id = ?",
                (done, total, note, now, None if cursor is None else msgspec.json.encode(cursor), job_id),
            )
            (last,) = connection.execute(
                "SELECT coalesce(max(number), 0) FROM job_log WHERE job_id = ?", (job_id,)
            ).fetchone()
            connection.executemany(
                "INSERT INTO job_log (job_id, number, body) VALUES (?, ?, ?)",
                ((job_id, number, body) for number, body in enumerate(log, start=last + 1)),
            )

        self.file.write(record)

    def log(self, job_id: str, after: int, limit: int = 10_000) -> list[bytes]:
        """Log lines number `after` + 1 and on, in order."""
        rows = self.file.read(
            lambda c: c.execute(
                "SELECT body FROM job_log WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?",
                (job_id, after, limit),
            ).fetchall()
        )
        return [bytes(row[0]) for row in rows]

    def prune(self, keep: int) -> None:
        """Forget the log lines of all ended jobs but the newest `keep`; their rows stay."""
        self.file.write(
            lambda c: (
                c.execute(
                    "DELETE FROM job_log WHERE job_id IN (SELECT job_id FROM jobs"
                    " WHERE state IN ('done', 'failed', 'cancelled') ORDER BY job_id DESC LIMIT -1 OFFSET ?)",
                    (keep,),
                ).rowcount
            )
        )

    def finish(self, job_id: str, state: JobState, note: str = "", result: dict[str, Any] | None = None) -> None:
        """End the job as done, failed or cancelled."""
        self._set(job_id, state=state, note=note, result=msgspec.json.encode(result or {}))

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; its owner sees it at the next step. Raises Conflict when it has ended."""
        job = self.get(job_id)
        if job.state in _ENDED:
            raise Conflict(f"job {job_id} is already {job.state}")
        self._set(job_id, cancel_wanted=1)
        return self.get(job_id)

    def cancel_wanted(self, job_id: str) -> bool:
        """Whether somebody asked the job to stop."""
        row = self.file.read(
            lambda c: c.execute("SELECT cancel_wanted FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        )
        return bool(row and row[0])

    def _blob(self, job_id: str, column: str) -> dict[str, Any]:
        row = self.file.read(lambda c: c.execute(f"SELECT {column} FROM jobs WHERE job_id = ?", (job_id,)).fetchone())
        if row is None:
            raise NotFound(f"no job is called {job_id!r}")
        return msgspec.json.decode(row[0], type=dict[str, Any])

    def _set(self, job_id: str, **changes: Any) -> None:
        changes["updated_at"] = to_iso(self._clock.now())
        assignments = ", ".join(f"{column} = ?" for column in changes)
        self.file.write(
            lambda c: c.execute(f"UPDATE jobs SET {assignments} WHERE job_id = ?", (*changes.values(), job_id)).rowcount
        )


_COLUMNS = "job_id, kind, tenant, state, done, total, note, created_at, updated_at, result"


def _job(row: tuple[Any, ...]) -> Job:
    job_id, kind, tenant, state, done, total, note, created_at, updated_at, result = row
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
