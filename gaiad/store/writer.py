"""One writer thread a file, with group commit: what is queued while a commit runs goes into the next one together.

A piece of work is a callable that takes the connection. It runs inside a savepoint, so one that fails undoes itself
and not its neighbours; its future completes only after the commit that made it durable.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from gaiad.errors import Unavailable
from gaiad.store.database import connect, translate

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
_MAX_GROUP = 512
_Item = tuple[Work, "Future[Any]"]


class Writer:
    """Owns the only writing connection of `path`. `submit` is safe from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._connection = connect(path)
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"writer:{path.parent.name}/{path.name}", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "Future[T]":
        """Queue `work`; the future holds its result once the commit is on disk."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._path}: the database is closed")
            self._queue.put((work, future))
        return future

    def close(self) -> None:
        """Finish what is queued, then close the connection (SQLite checkpoints the log as it goes)."""
        with self._lock:
            already, self._closed = self._closed, True
        if not already:
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                last = self._commit_group(item)
                if last:
                    break
        finally:
            self._connection.close()

    def _commit_group(self, first: _Item) -> bool:
        """Run `first` and whatever else is queued in one transaction; true when the closing mark was met."""
        queued, closing = self._take_group(first)
        group = [(work, future) for work, future in queued if future.set_running_or_notify_cancel()]
        finished: list[tuple[Future[Any], Any]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work, future in group:
                self._run_one(work, future, finished)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            failure = translate(error, self._path)
            for _, future in group:
                if not future.done():
                    future.set_exception(failure)
        else:
            for future, result in finished:
                future.set_result(result)
        return closing

    def _take_group(self, first: _Item) -> tuple[list[_Item], bool]:
        group = [first]
        while len(group) < _MAX_GROUP:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return group, True
            group.append(item)
        return group, False

    def _undo(self) -> None:
        """Roll back what a failed commit left open; after some errors SQLite has already done it."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _run_one(self, work: Work, future: "Future[Any]", finished: list[tuple["Future[Any]", Any]]) -> None:
        self._connection.execute("SAVEPOINT work")
        try:
            result = work(self._connection)
        except Exception as error:  # handed to the caller through its future
            if not self._connection.in_transaction:  # a full disk ends the whole transaction, not one savepoint
                if isinstance(error, sqlite3.Error):
                    raise
                raise sqlite3.OperationalError(f"the transaction was rolled back: {error}") from error
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            future.set_exception(translate(error, self._path) if isinstance(error, sqlite3.Error) else error)
            return
        self._connection.execute("RELEASE work")
        finished.append((future, result))
