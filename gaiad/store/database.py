"""One SQLite file: how it is opened, versioned and read. Writing goes through `writer.py`.

WAL with synchronous=FULL: a commit that returned survives a power cut. A file written by a newer gaiad is refused
before anything in it is touched.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from gaiad.base.errors import Conflict, GaiadError, Unavailable

_AT_ONCE = 500
_Value = TypeVar("_Value")


def chunks(values: Sequence[_Value]) -> Iterator[list[_Value]]:
    """All of `values` in order, at most 500 in a list; no list at all for none."""
    for start in range(0, len(values), _AT_ONCE):
        yield list(values[start : start + _AT_ONCE])


def marks(values: Sequence[object]) -> str:
    """A question mark for each of `values`, for `IN (...)`."""
    return ", ".join("?" * len(values))


_BUSY_TIMEOUT_MS = 5_000
_READER_CACHE_KIB = 4_096
_HEADER_BYTES = 105  # the file's header and the beginning of the schema's first page


class StorageFull(Unavailable):
    """The disk is full; nothing was written."""

    code = "storage_full"


class StorageFailed(Unavailable):
    """The disk refused a read or a write; what was committed before is kept."""

    code = "storage_failed"


class Damaged(Conflict):
    """What is asked for cannot be read: the file is damaged there."""

    code = "storage_damaged"


def translate(error: sqlite3.Error, path: Path) -> GaiadError:
    """A SQLite error as gaiad's own, naming the file and what to do."""
    text = str(error)
    if text.startswith("Could not decode to UTF-8"):  # Python's module reads text that SQLite only hands on
        return _damaged(f"{path}: {text.partition(' with text ')[0]}")
    match _result_code(error):
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"{path}: the disk is full; nothing was written. Free some space and try again", 30.0)
        case sqlite3.SQLITE_IOERR:
            return StorageFailed(
                f"{path}: {text}; nothing was written. Check free space, quota and the health of the disk", 30.0
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(f"{path}: {text}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return Conflict(f"{path}: {text}; check that the folder exists and belongs to you")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"{path}: {text}; the file is locked by another program")
    return GaiadError(f"{path}: {text}")


_STORAGE_FAILED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
}


def is_storage_failure(error: BaseException | None) -> bool:
    """Whether a SQLite error comes from the disk or from damage, so that another copy of the file may do."""
    return isinstance(error, sqlite3.Error) and (
        _result_code(error) in _STORAGE_FAILED or str(error).startswith("Could not decode to UTF-8")
    )


def _damaged(what: str) -> Damaged:
    return Damaged(
        f"{what}; move it away and start gaiad, then restore the last backup (gaiad restore DIR) or ingest the packets"
        " again"
    )


def _result_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; errors that Python's own module raises carry none and give 0."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open `path` in autocommit mode with gaiad's pragmas. Raises Conflict when it cannot be opened."""
    try:
        mode = "ro" if read_only else "rwc"
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what a person deletes is not left on free pages
            connection.execute("PRAGMA journal_size_limit = 67108864")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:  # SQLite's own message quotes a damaged schema
        raise _damaged(f"{path}: its schema is not UTF-8") from error
    return connection


def find_damage(path: Path) -> list[str]:
    """What SQLite finds wrong with the file, in words, at most 20 findings; reads all of it."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            return [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
    except (sqlite3.Error, GaiadError) as error:
        return [str(error)]


def check_version(path: Path, application_id: int, known: int) -> None:
    """Raise Conflict, before a byte of `path` changes, unless it is empty or was written by this gaiad.

    Owner and version are in the file's header; after a crash they may be in the log only, where a reader sees them.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        with closing(connect(path, read_only=True)) as connection:
            try:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                (owner,) = connection.execute("PRAGMA application_id").fetchone()
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error as error:
                raise translate(error, path) from error
    else:
        header = _header(path)
        if not header:
            return
        if not header.startswith(b"SQLite format 3\0") or len(header) < _HEADER_BYTES:
            damage = sqlite3.DatabaseError("file is not a database")
            damage.sqlite_errorcode = sqlite3.SQLITE_NOTADB
            raise translate(damage, path) from damage
        version, owner = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
        tables = int.from_bytes(header[103:105], "big")  # cells of the schema's first page
    if not (owner or version or tables):  # a start was killed while it made the file
        return
    if owner != application_id and owner >> 16 == application_id >> 16:
        raise Conflict(f"{path} was written by another version that this one cannot read; use another home (--home)")
    if owner != application_id:
        raise Conflict(f"{path} is not a gaiad database; move it away, or use another home (--home)")
    if version > known:
        raise Conflict(f"{path} was written by a newer gaiad (schema {version}, this one knows {known}); upgrade gaiad")


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)


def migrate(connection: sqlite3.Connection, migrations: Sequence[str], application_id: int) -> int:
    """Bring a checked file from its `user_version` to len(migrations), one transaction a step; the old version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(migrations[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in split_statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {application_id}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return int(version)


def split_statements(script: str) -> Iterator[str]:
    """The complete SQL statements of a script, triggers included."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy at `target` while others read and write (SQLite's online backup). Raises GaiadError."""
    original, copy = connect(source, read_only=True), connect(target)
    try:
        original.backup(copy, pages=-1)  # one step is one snapshot: smaller ones start over at every write
        copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise translate(error, target) from error
    finally:
        copy.close()
        original.close()
    target.chmod(0o600)


class ReaderPool:
    """Reading connections, handed out one at a time to whichever thread asks. Snapshots last one `reading` block."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._free: list[sqlite3.Connection] = [connect(path, read_only=True) for _ in range(size)]
        self._size = size
        self._condition = threading.Condition()
        self._closed = self._retired = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection inside one read transaction: everything read in the block is of one moment."""
        with self._condition:
            self._condition.wait_for(lambda: self._free or self._closed)
            if self._closed:
                raise Unavailable(f"{self._path}: the database is closed")
            connection = self._free.pop()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            finally:
                self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._condition:
            if self._retired:
                connection.close()
                return
            self._free.append(connection)
            self._condition.notify()

    def retire(self) -> None:
        """Close every connection as soon as it is free; waits for none."""
        with self._condition:
            self._closed = self._retired = True
            self._condition.notify_all()
            for connection in self._free:
                connection.close()
            self._free.clear()

    def close(self) -> None:
        """Wait for running blocks to end, then close every connection."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: len(self._free) == self._size)
            for connection in self._free:
                connection.close()
            self._free.clear()
            self._size = 0
