"""A database file as its owners use it: migrated, one writer, a pool of readers, async faces over both."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gaiad.errors import Unavailable
from gaiad.store.database import Migration, ReaderPool, connect, migrate, refuse_newer, translate
from gaiad.store.writer import Writer

T = TypeVar("T")


class DatabaseFile:
    """Open with `DatabaseFile.open`; `read` and `write` block, `aread` is for the event loop."""

    def __init__(self, path: Path, readers: int, migrations: Sequence[Migration], application_id: int) -> None:
        self.path = path
        self._migrations = migrations
        self._application_id = application_id
        self._writer = Writer(path)
        self._readers = ReaderPool(path, readers)
        self._threads = ThreadPoolExecutor(readers, thread_name_prefix=f"read:{path.parent.name}")

    @classmethod
    def open(cls, path: Path, migrations: Sequence[Migration], application_id: int, readers: int = 2) -> "DatabaseFile":
        """Create or migrate `path`, then open it. Raises Conflict for a newer or foreign file."""
        _migrate_file(path, migrations, application_id)
        return cls(path, readers, migrations, application_id)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one read snapshot on this thread."""
        with self._readers.reading() as connection:
            return work(connection)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writer thread and wait until it is durable."""
        return self._writer.submit(work).result()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "Future[T]":
        """Queue `work` for the writer; the future completes once it is durable."""
        return self._writer.submit(work)

    async def aread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`read` on a reader thread."""
        try:
            future = self._threads.submit(self.read, work)
        except RuntimeError as error:  # the pool was shut down by close()
            raise Unavailable(f"{self.path}: the database is closed") from error
        return await asyncio.wrap_future(future)

    def backup(self, target: Path) -> None:
        """A consistent copy at `target` while others read and write (SQLite's online backup)."""
        source, copy = connect(self.path, read_only=True), connect(target)
        try:
            source.backup(copy, pages=-1)  # one step is one snapshot: smaller ones start over at every write
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise translate(error, target) from error
        finally:
            copy.close()
            source.close()
        target.chmod(0o600)

    def fit(self, copy: Path) -> None:
        """Bring a closed copy of such a file to this gaiad's schema; made empty when it is not there.

        Raises Conflict for a newer or foreign one.
        """
        _migrate_file(copy, self._migrations, self._application_id)

    def replace(self, source: Path) -> None:
        """All that is in the file gives way to what is in `source`, a closed copy that fits, in one transaction.

        Others read and write meanwhile: what they do comes before it or after it. Raises Conflict, Unavailable.
        """
        copy, target = connect(source, read_only=True), connect(self.path)
        try:
            copy.backup(target, pages=-1)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            target.close()
            copy.close()

    def close(self) -> None:
        """Finish queued writes, wait for readers, close."""
        self._threads.shutdown(wait=True)
        self._readers.close()
        self._writer.close()


def _migrate_file(path: Path, migrations: Sequence[Migration], application_id: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        refuse_newer(path, len(migrations))
    connection = connect(path)
    try:
        migrate(connection, migrations, application_id, path)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        connection.close()
    path.chmod(0o600)
