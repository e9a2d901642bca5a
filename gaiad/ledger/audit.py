"""The audit (decision 13): what the council decided, people approved and governance changed, in rows nobody can unsay.

One table in `<home>/audit.db` for all tenants, chained by hash (`chain.py`), its last row noted in `<home>/audit.head`.
The table refuses changes; who goes around it with other tools is found by `gaiad audit verify`. Reading for people is
in `audit_reading.py`.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaiad.clock import Clock, to_iso
from gaiad.errors import Conflict
from gaiad.ledger.chain import Head, Row, fault, next_row
from gaiad.ledger.noted_head import NotedHead, read_noted_head
from gaiad.logs import get_logger
from gaiad.ports import Call
from gaiad.schemas import DEFAULT_TENANT
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

APPLICATION_ID = 0x67616961  # "gaia"
DATABASE_NAME = "audit.db"
HEAD_NAME = "audit.head"
MIGRATION_1: Migration = """
CREATE TABLE audit (
    number          INTEGER PRIMARY KEY,
    at              TEXT NOT NULL,
    kind            TEXT NOT NULL,
    tenant          TEXT NOT NULL,
    actor           TEXT NOT NULL,
    body            TEXT NOT NULL,
    previous_sha256 TEXT NOT NULL,
    sha256          TEXT NOT NULL
);
CREATE INDEX audit_by_kind ON audit (kind, number);
CREATE TRIGGER audit_rows_stay BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'the audit is append-only: rows are never deleted'); END;
CREATE TRIGGER audit_rows_do_not_change BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit is append-only: rows are never changed'); END;
CREATE TRIGGER audit_rows_follow BEFORE INSERT ON audit
WHEN new.number <> (SELECT coalesce(max(number), 0) + 1 FROM audit)
BEGIN SELECT raise(ABORT, 'the audit is append-only: a row comes after the last'); END;
"""
COLUMNS = ("number", "at", "kind", "tenant", "actor", "body", "previous_sha256", "sha256")
# Blobs, for bytes that are no UTF-8 are a finding and must not stop the reading.
SELECT_ROWS = f"SELECT number, {', '.join(f'CAST({name} AS BLOB)' for name in COLUMNS[1:])} FROM audit"
_log = get_logger("gaiad.audit")


def row_of(values: tuple[Any, ...]) -> Row:
    """The row of what `SELECT_ROWS` gives; a value that is no text reads as empty."""
    texts = (bytes(value or b"").decode("utf-8", "surrogateescape") for value in values[1:])
    return Row(int(values[0]), *texts)


class AuditLog:
    """The Audit port on a home's files, opened once by the one process that writes; safe from any thread."""

    def __init__(self, file: DatabaseFile, noted: NotedHead | None, clock: Clock, trouble: str) -> None:
        self.file = file
        self._head_file = file.path.parent / HEAD_NAME
        self.trouble = trouble
        self._noted = noted
        self._clock = clock

    @classmethod
    def open(cls, home: Path, clock: Clock) -> "AuditLog":
        """Open or make the audit of `home`. Raises Conflict for a newer or foreign database.

        `trouble` says when the last rows are not what they should be. The note of the head is left alone then, so
        that the evidence stays; appending goes on.
        """
        file = DatabaseFile.open(home / DATABASE_NAME, [MIGRATION_1], APPLICATION_ID, readers=1)
        try:
            trouble, lost_note = _look_at_end(file, home / HEAD_NAME)
            noted = None if trouble else NotedHead(home / HEAD_NAME)
        except OSError as error:
            file.close()
            raise Conflict(f"{home / HEAD_NAME}: cannot be written ({error.strerror}); mend or move it") from error
        log = cls(file, noted, clock, trouble)
        if lost_note:
            log.append_now("audit.head_was_lost", "daemon", {"file": HEAD_NAME})
        elif noted:
            noted.note(file.read(_head))
        return log

    async def append(self, kind: str, actor: str, body: Mapping[str, Any], call: Call) -> int:
        """Add a row and return its number; durable then. Raises BadInput, Unavailable."""
        return await asyncio.to_thread(self.append_now, kind, actor, body, call.tenant)

    def append_now(self, kind: str, actor: str, body: Mapping[str, Any], tenant: str = DEFAULT_TENANT) -> int:
        """`append` for threads that may wait."""

        def insert(connection: sqlite3.Connection) -> Head:
            row = next_row(_head(connection), to_iso(self._clock.now()), kind, tenant, actor, body)
            values = tuple(getattr(row, name) for name in COLUMNS)
            connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' * len(COLUMNS))})", values)
            return Head(row.number, row.sha256)

        head = self.file.write(insert)
        self._note(head)
        return head.number

    def newest(self, kinds: tuple[str, ...]) -> Row | None:
        """The last row of any of these kinds."""
        return self.file.read(lambda connection: newest_row(connection, kinds))

    def names(self, kinds: tuple[str, ...], full_id: str) -> bool:
        """Whether a row of any of these kinds names this id."""
        where = f"kind IN ({', '.join('?' * len(kinds))}) AND instr(body, ?) > 0"

        def look(connection: sqlite3.Connection) -> bool:
            return connection.execute(f"SELECT 1 FROM audit WHERE {where}", (*kinds, full_id)).fetchone() is not None

        return self.file.read(look)

    def holds(self, head: Head) -> bool:
        """Whether this chain goes through that row, so that it is that one or continues it."""

        def look(connection: sqlite3.Connection) -> bool:
            found = connection.execute("SELECT sha256 FROM audit WHERE number = ?", (head.number,)).fetchone()
            return not head.number or found == (head.sha256,)

        return self.file.read(look)

    def replace(self, source: Path, aside: Path) -> None:
        """Go on with another chain, a closed copy that fits; rows and note of this one are kept in the folder `aside`.

        Raises Conflict, Unavailable; OSError when the note cannot be moved.
        """
        aside.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file.backup(aside / DATABASE_NAME)
        if self._head_file.exists():
            shutil.copyfile(self._head_file, aside / HEAD_NAME)
        self.file.replace(source)
        if self._noted is None:
            self._head_file.unlink(missing_ok=True)
            self._noted = NotedHead(self._head_file)
        self._noted.begin_anew(self.file.read(_head))
        self.trouble = ""

    def close(self) -> None:
        """Finish what is being written."""
        self.file.close()
        if self._noted:
            self._noted.close()

    def _note(self, head: Head) -> None:
        """The row is durable already, so a note that cannot be written is said and does not undo it."""
        try:
            if self._noted:
                self._noted.note(head)
        except OSError as error:
            self.trouble = f"{HEAD_NAME} cannot be written ({error.strerror}): a cut-off end would not be noticed"
            _log.error("head_not_noted", number=head.number, error=str(error))


def newest_row(connection: sqlite3.Connection, kinds: tuple[str, ...]) -> Row | None:
    """The last row of any of these kinds, by the index."""
    where = f"WHERE kind IN ({', '.join('?' * len(kinds))}) ORDER BY number DESC LIMIT 1"
    values = connection.execute(f"{SELECT_ROWS} {where}", kinds).fetchone()
    return row_of(values) if values else None


def _head(connection: sqlite3.Connection) -> Head:
    found = connection.execute("SELECT number, sha256 FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return Head(*found) if found else Head()


def _look_at_end(file: DatabaseFile, note: Path) -> tuple[str, bool]:
    """What is wrong with the last rows, and whether the note of the head is lost."""
    try:
        noted = read_noted_head(note)
    except Conflict as error:
        return error.message, False

    def look(connection: sqlite3.Connection) -> tuple[str, bool]:
        last = [row_of(values) for values in connection.execute(f"{SELECT_ROWS} ORDER BY number DESC LIMIT 2")]
        if not last:
            return (_cut(Head(), noted) if noted and noted.number else ""), False
        before = Head(last[1].number, last[1].sha256) if last[1:] else Head()
        problem = fault(before, last[0])
        if not problem and noted and noted.number:
            found = connection.execute("SELECT sha256 FROM audit WHERE number = ?", (noted.number,)).fetchone()
            problem = "" if found == (noted.sha256,) else _cut(Head(last[0].number, last[0].sha256), noted)
        return problem, noted is None

    problem, lost = file.read(look)
    remedy = f"see `gaiad audit verify`, and move {HEAD_NAME} away once you know why"
    return (f"{problem}; {remedy}" if problem else ""), lost and not problem


def _cut(head: Head, noted: Head) -> str:
    if head.number < noted.number:
        return f"the audit ends at row {head.number}, and row {noted.number} was noted as its last"
    return f"the audit's row {noted.number} is not the one that was noted"
