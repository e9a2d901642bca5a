"""A database file as its owners use it: migrated, one writer, a pool of readers, async faces over both."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from gaiad.base.errors import GaiadError, Unavailable
from gaiad.store.database import (
    Damaged,
    ReaderPool,
    check_version,
    connect,
    copy_database,
    find_damage,
    is_storage_failure,
    migrate,
    translate,
)
from gaiad.store.secondary import Secondary
from gaiad.store.writer import Hurry, Steps, Writer

T = TypeVar("T")


class _Open(NamedTuple):
    writer: Writer
    readers: ReaderPool
    threads: ThreadPoolExecutor


class DatabaseFile:
    """Made with `DatabaseFile.open`. `read` and `write` block; `aread` and `awrite` are for the event loop."""

    def __init__(
        self, path: Path, migrations: Sequence[str], application_id: int, readers: int, second: Path | None = None
    ) -> None:
        self.path = path
        """The file that counts: the first one, or `second` while that one failed."""
        self._primary = path
        self._secondary = Secondary(path, second) if second else None
        self._migrations = migrations
        self._application_id = application_id
        self._size = readers
        self._open: _Open | None = None
        self.damage = ""
        """What was found damaged since it was opened, in words."""

    @classmethod
    def open(
        cls, path: Path, migrations: Sequence[str], application_id: int, readers: int = 2, second: Path | None = None
    ) -> "DatabaseFile":
        """Create or migrate `path`, then open it. Raises Conflict for a newer or foreign file, left untouched.

        `second` is a file elsewhere that gets every commit too, and is used when the first cannot be.
        """
        file = cls(path, migrations, application_id, readers, second)
        file.reopen()
        return file

    def reopen(self) -> None:
        """Open the file again after `close`. Raises Conflict."""
        self.damage = ""
        self.path = self._find_path()
        threads = ThreadPoolExecutor(self._size, thread_name_prefix=f"read:{self._primary.parent.name}")
        writer = Writer(self.path, self._secondary, self._moved)
        self._open = _Open(writer, ReaderPool(self.path, self._size), threads)
        if self._secondary is not None:
            self.submit(lambda _: None, background=True)  # the copy is made, or the first place taken back

    def _find_path(self) -> Path:
        """The file to open, migrated. Raises Conflict."""
        second, schema = self._secondary, (self._migrations, self._application_id)
        if second is None:
            migrate_file(self._primary, *schema)
            return self._primary
        second.open()
        if not second.leads:
            try:
                if self._primary.exists() or not second.take_over(f"{self._primary} is missing", opening=True):
                    second.follow(changed=migrate_file(self._primary, *schema))
                    return self._primary
            except (OSError, GaiadError) as error:
                cause = error.__cause__ if isinstance(error, GaiadError) else error
                failed = isinstance(error, OSError | Damaged) or is_storage_failure(cause)
                if not failed or not second.take_over(str(error), opening=True):
                    raise
        migrate_file(second.path, *schema)
        return second.path

    def _moved(self, path: Path) -> None:
        """The writer goes on at `path`; readers follow. On its thread."""
        if (opened := self._open) is not None:
            self._open = opened._replace(readers=ReaderPool(path, self._size))
            opened.readers.retire()
        self.path = path

    @property
    def problem(self) -> str:
        """What is damaged, or degraded, in words."""
        return (self._secondary.problem if self._secondary is not None else "") or self.damage

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one read snapshot on this thread."""
        opened = self._parts()
        try:
            with opened.readers.reading() as connection:
                return work(connection)
        except GaiadError as error:
            if self._secondary is not None and self._leave(error, opened.readers):
                return self.read(work)
            if isinstance(error, Damaged):
                self.damage = error.message
            raise

    def _leave(self, error: GaiadError, readers: ReaderPool) -> bool:
        """Whether the file of these readers, which failed, is not the one that counts any longer."""
        if self._parts().readers is not readers:
            return isinstance(error, Unavailable) or is_storage_failure(error.__cause__)
        if not is_storage_failure(cause := error.__cause__):
            return False

        def fail(_: sqlite3.Connection) -> None:
            if self._parts().readers is readers:
                raise cause  # type: ignore[misc]

        try:
            self._parts().writer.submit(fail).result()
        except GaiadError:
            return False
        return True

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
        readers = self._parts().readers
        found = [f"{self.path} is damaged ({words})" for words in find_damage(self.path)]
        if found and self._secondary is not None:
            failure = sqlite3.DatabaseError(found[0])
            failure.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            error = translate(failure, self.path)
            error.__cause__ = failure
            if self._leave(error, readers):
                return []
        if found:
            self.damage = f"{found[0]}; restore the last backup (gaiad restore DIR)"
        return found

    def place_failed(self, error: GaiadError, *, first: bool) -> None:
        """What belongs beside the file could not be written in its first or its second place; blocks.

        Raises `error` when the first place failed and the second cannot take over.
        """
        opened, second = self._parts(), self._secondary
        if second is None or second.leads:
            return
        if not first:
            opened.writer.submit(lambda _: second.fall_behind(error.message)).result()
            return
        failure = sqlite3.OperationalError(error.message.partition(";")[0])
        failure.sqlite_errorcode = sqlite3.SQLITE_IOERR
        error.__cause__ = failure
        if not self._leave(error, opened.readers):
            raise error

    def empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it to nothing, so that it holds no deleted text."""
        with self._parts().writer.between, closing(connect(self.path)) as connection:
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise translate(error, self.path) from error
            if self._secondary is not None:
                self._secondary.emptied()

    def backup(self, target: Path) -> None:
        """A consistent copy at `target` while others read and write (SQLite's online backup)."""
        copy_database(self.path, target)

    def close(self) -> None:
        """Finish queued writes, wait for readers, close."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.threads.shutdown(wait=True)
            opened.readers.close()
            opened.writer.close()
            if self._secondary is not None:
                self._secondary.close()

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


def migrate_file(path: Path, migrations: Sequence[str], application_id: int) -> bool:
    """Create `path`, or bring it to this gaiad's schema; whether it was changed. Raises Conflict for a newer or
    foreign one.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        check_version(path, application_id, len(migrations))
    with closing(connect(path)) as connection:
        try:
            changed = migrate(connection, migrations, application_id) < len(migrations)
        except sqlite3.Error as error:
            raise translate(error, path) from error
    path.chmod(0o600)
    return changed


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
