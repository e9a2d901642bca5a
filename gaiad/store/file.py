"""A database file as its owners use it: migrated, one writer, a pool of readers, async faces over both."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from gaiad.base.errors import Unavailable
from gaiad.store.database import Damaged, ReaderPool, check_version, connect, find_damage, migrate, translate
from gaiad.store.writer import Hurry, Steps, Writer

T = TypeVar("T")


class _Open(NamedTuple):
    writer: Writer
    readers: ReaderPool
    threads: ThreadPoolExecutor


class DatabaseFile:
    """Made with `DatabaseFile.open`. `read` and `write` block; `aread` and `awrite` are for the event loop."""

    def __init__(self, path: Path, migrations: Sequence[str], application_id: int, readers: int) -> None:
        self.path = path
        self._migrations = migrations
        self._application_id = application_id
        self._size = readers
        self._open: _Open | None = None
        self.damage = ""
        """What was found damaged since it was opened, in words."""

    @classmethod
    def open(cls, path: Path, migrations: Sequence[str], application_id: int, readers: int = 2) -> "DatabaseFile":
        """Create or migrate `path`, then open it. Raises Conflict for a newer or foreign file, left untouched."""
        file = cls(path, migrations, application_id, readers)
        file.reopen()
        return file

    def reopen(self) -> None:
        """Open the file again after `close`. Raises Conflict."""
        self.damage = ""
        migrate_file(self.path, self._migrations, self._application_id)
        threads = ThreadPoolExecutor(self._size, thread_name_prefix=f"read:{self.path.parent.name}")
        self._open = _Open(Writer(self.path), ReaderPool(self.path, self._size), threads)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one read snapshot on this thread."""
        try:
            with self._parts().readers.reading() as connection:
                return work(connection)
        except Damaged as error:
            self.damage = error.message
            raise

    def write(self, work: Callable[[sqlite3.Connection], T], *, background: bool = False) -> T:
        """Run `work` on the writer thread and wait until it is durable; `background` lets others go first."""
        return self.submit(work, background=background).result()

    def submit(self, work: Callable[[sqlite3.Connection], T], *, background: bool = False) -> "Future[T]":
        """Queue `work` for the writer thread; the future's result is durable."""
        return self._looked_at(self._parts().writer.submit(work, background=background))

    def submit_steps(self, work: Callable[[sqlite3.Connection, Hurry], Steps[T]]) -> "Future[T]":
        """Queue long background work: `work(connection, hurry)`; see `Writer.submit_steps`."""
        writer = self._parts().writer
        return self._looked_at(writer.submit_steps(lambda connection: work(connection, writer.hurry)))

    async def aread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`read` on a reader thread."""
        try:
            future = self._parts().threads.submit(self.read, work)
        except RuntimeError as error:  # the pool was shut down by close()
            raise self._closed() from error
        return await asyncio.wrap_future(future)

    async def awrite(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`write` for the event loop; a caller that is cancelled does not take the work back."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(work)))

    def check(self) -> list[str]:
        """What SQLite finds wrong with the whole file, in words; blocks, but holds up no reader."""
        found = [f"{self.path} is damaged ({words})" for words in find_damage(self.path)]
        if found:
            self.damage = f"{found[0]}; restore the last backup (gaiad restore DIR)"
        return found

    def empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it to nothing, so that it holds no deleted text."""
        with closing(connect(self.path)) as connection:
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

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

    def close(self) -> None:
        """Finish queued writes, wait for readers, close."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.threads.shutdown(wait=True)
            opened.readers.close()
            opened.writer.close()

    def _looked_at(self, future: "Future[T]") -> "Future[T]":
        def look(done: "Future[T]") -> None:
            if not done.cancelled() and isinstance(error := done.exception(), Damaged):
                self.damage = error.message

        future.add_done_callback(look)
        return future

    def _parts(self) -> _Open:
        if self._open is None:
            raise self._closed()
        return self._open

    def _closed(self) -> Unavailable:
        return Unavailable(f"{self.path}: the database is closed", 2.0)


def migrate_file(path: Path, migrations: Sequence[str], application_id: int) -> None:
    """Create `path`, or bring it to this gaiad's schema. Raises Conflict for a newer or foreign one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        check_version(path, application_id, len(migrations))
    with closing(connect(path)) as connection:
        try:
            migrate(connection, migrations, application_id)
        except sqlite3.Error as error:
            raise translate(error, path) from error
    path.chmod(0o600)


@contextmanager
def reading_offline(path: Path, migrations: Sequence[str], application_id: int) -> Iterator[sqlite3.Connection]:
    """A read snapshot of a file whether a daemon has it open or not. Raises Conflict; SQLite's errors translated."""
    check_version(path, application_id, len(migrations))
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise translate(error, path) from error
