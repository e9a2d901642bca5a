"""One SQLite file: how it is opened, versioned and read. Writing goes through `writer.py`.

WAL with synchronous=FULL: a commit that returned survives a power cut. A file written by a newer gaiad is refused
before anything in it is touched.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gaiad.errors import Conflict, GaiadError, Unavailable

_BUSY_TIMEOUT_MS = 5_000
_READER_CACHE_KIB = 4_096
_HEADER_BYTES = 100
Migration = str | Callable[[sqlite3.Connection], None]


class StorageFull(Unavailable):
    """The disk is full; nothing was written."""

    code = "storage_full"


class StorageFailed(Unavailable):
    """The disk refused a read or a write; what was committed before stands."""

    code = "storage_failed"


def translate(error: sqlite3.Error, path: Path) -> GaiadError:
    """A SQLite error as gaiad's own, naming the file and what to do."""
    text = str(error)
    match _result_code(error):
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"{path}: the disk is full; nothing was written. Free some space and try again", 30.0)
        case sqlite3.SQLITE_IOERR:
            return StorageFailed(
                f"{path}: {text}; nothing was written. Check free space, quota and the health of the disk", 30.0
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Conflict(
                f"{path}: {text}; move it away and start gaiad, then restore the last backup (gaiad restore DIR) or"
                " ingest the packets again"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return Conflict(f"{path}: {text}; check that the folder exists and belongs to you")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"{path}: {text}; another program holds the file")
    return GaiadError(f"{path}: {text}")


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
            connection.execute("PRAGMA journal_size_limit = 67108864")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return connection


def refuse_newer(path: Path, known: int) -> None:
    """Raise Conflict when `path` was written by a newer gaiad, before a byte of it changes.

    The version stands in the file's header; after a crash it may stand in the log only, where a reading connection
    sees it.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        connection = connect(path, read_only=True)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            raise translate(error, path) from error
        finally:
            connection.close()
    else:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        version = int.from_bytes(header[60:64], "big") if len(header) == _HEADER_BYTES else 0
    if version > known and _is_sqlite(path):
        raise Conflict(f"{path} was written by a newer gaiad (schema {version}, this one knows {known}); upgrade gaiad")


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration], application_id: int, path: Path) -> int:
    """Bring the file from its `user_version` to len(migrations), one transaction a step; returns the old version.

    Raises Conflict, without touching the file, when it is newer than this gaiad or not gaiad's at all.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != application_id and (owner or tables):
        raise Conflict(f"{path} is not the gaiad database expected here; move it away and start again")
    if version > len(migrations):
        raise Conflict(
            f"{path} was written by a newer gaiad (schema {version}, this one knows {len(migrations)}); upgrade gaiad"
        )
    for number, step in enumerate(migrations[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if callable(step):
                step(connection)
            else:
                for statement in split_statements(step):
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


class ReaderPool:
    """Reading connections, handed out one at a time to whichever thread asks. Snapshots last one `reading` block."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._free: list[sqlite3.Connection] = [connect(path, read_only=True) for _ in range(size)]
        self._size = size
        self._condition = threading.Condition()
        self._closed = False

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
            self._free.append(connection)
            self._condition.notify()

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
