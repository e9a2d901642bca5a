"""The audit (decision 13): what the council decided, people approved and governance changed, in rows nobody can unsay.

One table in state.db for all tenants, chained by hash (`chain.py`), its last row noted in `<home>/audit.head`.
The table refuses changes; who goes around it with other tools is found by `gaiad audit verify`. It is verified row by
row and exported whether a daemon runs or not, in flat memory.
"""

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext
from gaiad.ledger.chain import ChainCheck, ChainHead, ChainRow, NotedHead, fault, next_row, read_noted_head, walk
from gaiad.store.database import Damaged, connect, translate
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import STATE_DATABASE, read_database
from gaiad.wire.schemas import DEFAULT_TENANT

HEAD_NAME = "audit.head"
COLUMNS = ("number", "at", "kind", "tenant", "actor", "body", "previous_sha256", "sha256")
# Blobs, for bytes that are not UTF-8 are a finding and must not stop the reading.
SELECT_ROWS = f"SELECT number, {', '.join(f'CAST({name} AS BLOB)' for name in COLUMNS[1:])} FROM audit"
_log = get_logger("gaiad.audit")


def row_of(values: tuple[Any, ...]) -> ChainRow:
    """The row of what `SELECT_ROWS` gives; a value that is not text reads as empty."""
    texts = (bytes(value or b"").decode("utf-8", "surrogateescape") for value in values[1:])
    return ChainRow(int(values[0]), *texts)


class AuditLog:
    """The Audit port on a home's state.db, opened once by the one process that writes; safe from any thread."""

    def __init__(self, file: DatabaseFile, clock: Clock) -> None:
        self.file = file
        self.trouble = ""
        self._head_file = file.path.parent / HEAD_NAME
        self._noted: NotedHead | None = None
        self._clock = clock

    @classmethod
    def open(cls, file: DatabaseFile, clock: Clock) -> "AuditLog":
        """The audit in `file`, a home's state.db, which belongs to the caller. Raises Conflict.

        `trouble` says when the last rows are not what they should be. The note of the head is left alone then, so
        that the evidence stays; appending goes on.
        """
        log = cls(file, clock)
        try:
            log.trouble, lost_note = _look_at_end(file, log._head_file)
            log._noted = None if log.trouble else NotedHead(log._head_file)
        except OSError as error:
            raise Conflict(f"{log._head_file}: cannot be written ({error.strerror}); fix or move it") from error
        if lost_note:
            log.append_now("audit.head_was_lost", "daemon", {"file": HEAD_NAME})
        elif log._noted:
            log._noted.note(file.read(_head))
        return log

    async def append(self, kind: str, actor: str, body: Mapping[str, Any], call: RequestContext) -> int:
        """Add a row and return its number; durable then. Raises BadInput, Unavailable."""
        return await asyncio.to_thread(self.append_now, kind, actor, body, call.tenant)

    def append_now(self, kind: str, actor: str, body: Mapping[str, Any], tenant: str = DEFAULT_TENANT) -> int:
        """`append` for threads that may wait."""

        def insert(connection: sqlite3.Connection) -> ChainHead:
            row = next_row(_head(connection), to_iso(self._clock.now()), kind, tenant, actor, body)
            values = tuple(getattr(row, name) for name in COLUMNS)
            connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' * len(COLUMNS))})", values)
            return ChainHead(row.number, row.sha256)

        head = self.file.write(insert)
        self._note(head)
        return head.number

    def newest(self, kinds: tuple[str, ...]) -> ChainRow | None:
        """The last row of any of these kinds."""
        return self.file.read(lambda connection: newest_row(connection, kinds))

    def names(self, kinds: tuple[str, ...], full_id: str) -> bool:
        """Whether a row of any of these kinds names this id."""
        where = f"kind IN ({', '.join('?' * len(kinds))}) AND instr(body, ?) > 0"

        def look(connection: sqlite3.Connection) -> bool:
            return connection.execute(f"SELECT 1 FROM audit WHERE {where}", (*kinds, full_id)).fetchone() is not None

        return self.file.read(look)

    def holds(self, head: ChainHead) -> bool:
        """Whether this chain goes through that row, so that it is that one or continues it."""

        def look(connection: sqlite3.Connection) -> bool:
            found = connection.execute("SELECT sha256 FROM audit WHERE number = ?", (head.number,)).fetchone()
            return not head.number or found == (head.sha256,)

        return self.file.read(look)

    def begin_again(self) -> None:
        """Note the head of a chain that a restore put in place of the old one. Raises OSError."""
        if self._noted is None:
            self._head_file.unlink(missing_ok=True)
            self._noted = NotedHead(self._head_file)
        self._noted.restart(self.file.read(_head))
        self.trouble = ""

    def close(self) -> None:
        """Let go of the note of the head."""
        if self._noted:
            self._noted.close()

    def _note(self, head: ChainHead) -> None:
        """The row is durable already, so a note that cannot be written is said and does not undo it."""
        try:
            if self._noted:
                self._noted.note(head)
        except OSError as error:
            self.trouble = f"{HEAD_NAME} cannot be written ({error.strerror}): a cut-off end would not be noticed"
            _log.error("head_not_noted", number=head.number, error=str(error))


def copy_audit(source: Path, target: Path) -> None:
    """Put the audit of the closed database `source` in place of the one in `target`, closed too. Raises Conflict."""
    try:
        with closing(connect(target)) as connection:
            connection.execute("ATTACH ? AS source", (str(source),))
            kept = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'"
            triggers = connection.execute(kept).fetchall()
            connection.execute("BEGIN IMMEDIATE")
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("DELETE FROM audit")
            connection.execute("INSERT INTO audit SELECT * FROM source.audit ORDER BY number")
            for _, sql in triggers:
                connection.execute(sql)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise translate(error, target) from error


def newest_row(connection: sqlite3.Connection, kinds: tuple[str, ...]) -> ChainRow | None:
    """The last row of any of these kinds, by the index."""
    where = f"WHERE kind IN ({', '.join('?' * len(kinds))}) ORDER BY number DESC LIMIT 1"
    values = connection.execute(f"{SELECT_ROWS} {where}", kinds).fetchone()
    return row_of(values) if values else None


def _head(connection: sqlite3.Connection) -> ChainHead:
    found = connection.execute("SELECT number, sha256 FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return ChainHead(*found) if found else ChainHead()


def _look_at_end(file: DatabaseFile, note: Path) -> tuple[str, bool]:
    """What is wrong with the last rows, and whether the note of the head is lost."""
    try:
        noted = read_noted_head(note)
    except Conflict as error:
        return error.message, False

    def look(connection: sqlite3.Connection) -> tuple[str, bool]:
        last = [row_of(values) for values in connection.execute(f"{SELECT_ROWS} ORDER BY number DESC LIMIT 2")]
        if not last:
            return (_cut(ChainHead(), noted) if noted and noted.number else ""), False
        before = ChainHead(last[1].number, last[1].sha256) if last[1:] else ChainHead()
        problem = fault(before, last[0])
        if not problem and noted and noted.number:
            found = connection.execute("SELECT sha256 FROM audit WHERE number = ?", (noted.number,)).fetchone()
            problem = "" if found == (noted.sha256,) else _cut(ChainHead(last[0].number, last[0].sha256), noted)
        return problem, noted is None

    problem, lost = file.read(look)
    remedy = f"see `gaiad audit verify`, and move {HEAD_NAME} away once you know why"
    return (f"{problem}; {remedy}" if problem else ""), lost and not problem


def _cut(head: ChainHead, noted: ChainHead) -> str:
    if head.number < noted.number:
        return f"the audit ends at row {head.number}, and row {noted.number} was noted as its last"
    return f"the audit's row {noted.number} differs from the recorded one"


def verify_home(home: Path, expected_sha256: str = "") -> ChainCheck:
    """Walk along the whole audit of a home; damage of the file is a finding. Raises NotFound without an audit.

    `expected_sha256` is a head the caller noted: it must be in the chain.
    """
    noted, lost = _noted_head(home)
    counted = _Counted()
    try:
        with _reading(home) as connection:
            verdict = walk(counted.through(_rows(connection)), noted, expected_sha256)
    except Damaged as error:
        problem = f"the file cannot be read after row {counted.rows} ({error.__cause__}); restore it from a backup"
        return ChainCheck(
            ok=False, rows=counted.rows, head_sha256=counted.sha256, first_bad=counted.rows + 1, problem=problem
        )
    if verdict.ok and verdict.rows and lost:
        return msgspec.structs.replace(verdict, ok=False, first_bad=verdict.rows + 1, problem=lost)
    return verdict


def verify_copy(folder: Path) -> ChainCheck:
    """Walk along an audit that has no note of its head, as a backup's. Raises NotFound, Conflict."""
    with _reading(folder) as connection:
        return walk(_rows(connection), None, "")


def _noted_head(home: Path) -> tuple[ChainHead | None, str]:
    """The note of the head, or why there is none to hold the end against."""
    try:
        noted = read_noted_head(home / HEAD_NAME)
    except Conflict as error:
        return None, error.message
    problem = f"{HEAD_NAME} is missing, so a cut-off end cannot be detected; the next start creates it"
    return noted, "" if noted else problem


def verify_export(file: Path, expected_sha256: str = "") -> ChainCheck:
    """Walk along an exported file. Raises NotFound, and BadInput for a line that is not a row."""
    return walk(_exported_rows(file), None, expected_sha256)


def export_lines(home: Path) -> Iterator[bytes]:
    """All rows as JSON lines; `body` is a string, for its very bytes are under the hash."""
    with _reading(home) as connection:
        for row in _rows(connection):
            yield msgspec.json.encode(_printable(row)) + b"\n"


def newest_event(home: Path, kinds: tuple[str, ...]) -> ChainRow | None:
    """The last row of any of these kinds; None too without an audit."""
    if not (home / STATE_DATABASE).is_file():
        return None
    with _reading(home) as connection:
        return newest_row(connection, kinds)


class _Counted:
    """How far a walk came when the file itself gave out."""

    rows = 0
    sha256 = ""

    def through(self, rows: Iterator[ChainRow]) -> Iterator[ChainRow]:
        for row in rows:
            yield row
            self.rows, self.sha256 = row.number, row.sha256


@contextmanager
def _reading(home: Path) -> Iterator[sqlite3.Connection]:
    path = home / STATE_DATABASE
    if not path.is_file():
        raise NotFound(
            f"{home}: has no audit yet; the first start of gaiad creates it (or name another home with --home)"
        )
    with read_database(path) as connection:
        yield connection


def _rows(connection: sqlite3.Connection) -> Iterator[ChainRow]:
    for values in connection.execute(f"{SELECT_ROWS} ORDER BY number"):
        yield row_of(values)


def _exported_rows(file: Path) -> Iterator[ChainRow]:
    decoder = msgspec.json.Decoder(ChainRow)
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise BadInput(f"{file}: line {number} is not an exported row ({error})") from error
    except OSError as error:
        raise NotFound(
            f"{file}: cannot be read ({error.strerror}); give a file that gaiad audit export wrote"
        ) from error


def _printable(row: ChainRow) -> ChainRow:
    """With bytes that are not UTF-8 replaced: such a row is a bad one, and stays one."""
    texts = {name: value for name, value in msgspec.structs.asdict(row).items() if isinstance(value, str)}
    clean = {name: text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name, text in texts.items()}
    return msgspec.structs.replace(row, **clean)
