"""One writer thread a file, with group commit: what is queued while a commit runs goes into the next one together.

A piece of work is a callable that takes the connection. It runs inside a savepoint, so one that fails undoes itself
and not its neighbours; its future completes only after the commit that made it durable.

Background work (ingest, reindex, vectors) never holds up what a person waits for: it runs when nothing else is queued,
its share of a transaction is bounded, and long work pauses at its own steps (`submit_steps`) to let a commit through.
"""

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gaiad.base.errors import GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.store.database import connect, is_storage_failure, translate
from gaiad.store.secondary import Secondary

T = TypeVar("T")
Steps = Generator[None, None, T]
Hurry = Callable[[], bool]
"""Whether work that is not background waits for the writer."""
_log = get_logger("gaiad.store")
_MAX_GROUP = 512
_BACKGROUND_S = 0.05  # how long background work may extend one transaction


class _Item(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    future: "Future[Any]"
    background: bool

    @property
    def repeatable(self) -> bool:
        """Whether it can be done again from its beginning; long work is begun again by its owner."""
        return not isinstance(self.work, _Stepwise)


class Writer:
    """Owns the only writing connection of `path`. `submit` and `submit_steps` are safe from any thread."""

    def __init__(
        self, path: Path, secondary: Secondary | None = None, moved: Callable[[Path], None] = lambda _: None
    ) -> None:
        """Every commit goes to `secondary` too. When the disk fails the writer goes on there, later back; `moved` is
        called with the file that counts then.
        """
        self._path = path
        self._secondary = secondary
        self._moved = moved
        self.between = threading.Lock()
        """Held while a transaction runs and its commit goes to the second place."""
        self._urgent: deque[_Item] = deque()
        self._background: deque[_Item] = deque()
        self._connection = connect(path)
        self._closed = False
        self._queued = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"writer:{path.parent.name}/{path.name}", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sqlite3.Connection], T], *, background: bool = False) -> "Future[T]":
        """Queue `work`; the future holds its result once the commit is on disk."""
        future: Future[T] = Future()
        self._put(_Item(work, future, background))
        return future

    def submit_steps(self, work: Callable[[sqlite3.Connection], Steps[T]]) -> "Future[T]":
        """Queue long background work as a generator.

        It yields after a step that leaves consistent rows, when `hurry` says that others wait: what it has done is
        committed then, and it goes on after them. The future holds what the generator returns.
        """
        future: Future[T] = Future()
        self._put(_Item(_Stepwise(work), future, background=True))
        return future

    def hurry(self) -> bool:
        """Whether work that is not background waits."""
        return bool(self._urgent)

    def close(self) -> None:
        """Finish what is queued, then close the connection (SQLite checkpoints the log as it goes)."""
        with self._queued:
            self._closed = True
            self._queued.notify()
        self._thread.join()

    def _put(self, item: _Item) -> None:
        with self._queued:
            if self._closed:
                raise Unavailable(f"{self._path}: the database is closed")
            (self._background if item.background else self._urgent).append(item)
            self._queued.notify()

    def _run(self) -> None:
        try:
            while self._wait():
                if self._secondary is not None and self._secondary.due():
                    self._secondary.hand_back(self._go_on_at)
                with self.between:
                    self._commit_group()
        finally:
            self._connection.close()

    def _wait(self) -> bool:
        """Until something is queued; false when the writer is closed and nothing is left."""
        with self._queued:
            self._queued.wait_for(lambda: self._urgent or self._background or self._closed)
            return bool(self._urgent or self._background)

    def _commit_group(self) -> None:
        """Run what is queued in one transaction, as much of it as fits."""
        finished: list[tuple[Future[Any], Any]] = []
        begun: list[_Item] = []
        paused: _Item | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            began, urgent = time.monotonic(), False
            while (item := self._next(began, urgent, len(begun))) is not None:
                if not item.future.running() and not item.future.set_running_or_notify_cancel():
                    continue
                begun.append(item)
                urgent = urgent or not item.background
                if not self._run_one(item, finished):
                    paused, urgent = item, True
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            failure = translate(error, self._path)
            again = is_storage_failure(error) and self._take_over(str(error))
            for item in begun:
                if not item.future.done() and not (again and item.repeatable):
                    item.future.set_exception(failure)
            self._urgent.extendleft(reversed([item for item in begun if not item.future.done()]))
            return
        if self._secondary is not None:
            self._secondary.ship()
        if paused is not None:
            with self._queued:
                self._background.appendleft(paused)
        for future, result in finished:
            future.set_result(result)

    def _next(self, began: float, urgent: bool, count: int) -> _Item | None:
        """What the transaction takes up next; background work only at its beginning and for a bounded time."""
        with self._queued:
            if count >= _MAX_GROUP:
                return None
            if self._urgent:
                return self._urgent.popleft()
            if self._background and not urgent and (not count or time.monotonic() - began < _BACKGROUND_S):
                return self._background.popleft()
            return None

    def _undo(self) -> None:
        """Roll back what a failed commit left open; after some errors SQLite has already done it."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # the disk may fail here as well; the next BEGIN says so
                self._connection.execute("ROLLBACK")

    def _take_over(self, reason: str) -> bool:
        """Whether the writer goes on in the second place: what the failed transaction held is done again there."""
        if self._secondary is None or not self._secondary.take_over(reason):
            return False
        if self._go_on_at(self._secondary.path):
            return True
        self._secondary.fall_behind("it cannot be opened")
        return False

    def _go_on_at(self, path: Path) -> bool:
        try:
            connection = connect(path)
            self._moved(path)
        except GaiadError as error:
            _log.error("database_not_opened", path=str(path), reason=error.message)
            return False
        with suppress(sqlite3.Error):
            self._connection.close()
        self._connection, self._path = connection, path
        return True

    def _run_one(self, item: _Item, finished: list[tuple["Future[Any]", Any]]) -> bool:
        """Run one piece of work in its savepoint; false when it paused and wants to go on after the commit."""
        self._connection.execute("SAVEPOINT work")
        try:
            result = item.work(self._connection)
        except Exception as error:  # handed to the caller through its future
            if not self._connection.in_transaction:  # a full disk ends the whole transaction, not one savepoint
                if isinstance(error, sqlite3.Error):
                    raise
                raise sqlite3.OperationalError(f"the transaction was rolled back: {error}") from error
            if self._secondary is not None and not self._secondary.leads and is_storage_failure(error):
                raise
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            item.future.set_exception(translate(error, self._path) if isinstance(error, sqlite3.Error) else error)
            return True
        self._connection.execute("RELEASE work")
        if result is _PAUSED:
            return False
        finished.append((item.future, result))
        return True


_PAUSED = object()


class _Stepwise:
    """A generator as a piece of work: each call runs it to its next yield."""

    def __init__(self, work: Callable[[sqlite3.Connection], Steps[Any]]) -> None:
        self._work = work
        self._steps: Steps[Any] | None = None

    def __call__(self, connection: sqlite3.Connection) -> object:
        if self._steps is None:
            self._steps = self._work(connection)
        try:
            next(self._steps)
        except StopIteration as ended:
            return ended.value
        return _PAUSED
