"""Background tasks from one place: named, owned, and never silent when they fail.

The bare asyncio call is banned by lint. A group belongs to a component; leaving it cancels what still runs and waits.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from gaiad.base.clock import Clock
from gaiad.base.logs import get_logger

_log = get_logger("gaiad.tasks")
T = TypeVar("T")
OnFailure = Callable[[str, BaseException], None]


class TaskGroup:
    """Named tasks that end with their owner. `on_failure(name, error)` hears of every task that raised."""

    def __init__(self, owner: str, on_failure: OnFailure | None = None) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as the task `owner/name`; its error is logged, and reported to `on_failure`."""
        task = asyncio.create_task(work, name=f"{self._owner}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("task_failed", task=task.get_name(), error=repr(error), exc_info=error)
            if self._on_failure is not None:
                self._on_failure(task.get_name(), error)

    async def wait(self) -> None:
        """Wait until every task has ended by itself."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel every task still running and wait until each has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class WorkUnderWay:
    """Work that may still write what it has read: a deletion looks again when all that had begun by then has ended."""

    def __init__(self) -> None:
        self._ends: set[asyncio.Event] = set()

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Count the work of the block."""
        end = asyncio.Event()
        self._ends.add(end)
        try:
            yield
        finally:
            self._ends.discard(end)
            end.set()

    async def ended(self) -> bool:
        """Wait for what is under way now, not for what begins later; False when there is nothing."""
        ends = [*self._ends]
        for end in ends:
            await end.wait()
        return bool(ends)


Stop = Callable[[float], Coroutine[Any, Any, None]]
"""Ends a part, which may give its work that many seconds."""


class Stopping:
    """One for the daemon; `grace_s` is the time that work under way has, all of it together."""

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._ends: float | None = None
        self._parts: dict[str, Stop] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._tasks = TaskGroup("stop")

    def end_beside(self, stack: AsyncExitStack, name: str, stop: Stop) -> None:
        """`stop` is called when a stop begins; `stack` waits there until it is through."""
        self._parts[name] = stop
        stack.push_async_callback(self._ended, name)

    def begin(self) -> None:
        """From now on the time runs, and the parts end. A second call changes nothing."""
        if self._ends is not None:
            return
        self._ends = self._clock.monotonic() + self._grace_s
        for name in self._parts:
            self._end(name)

    def left_s(self) -> float:
        """Seconds that work under way still has; the first to ask begins the stop, as when a start fails."""
        self.begin()
        assert self._ends is not None
        return max(0.0, self._ends - self._clock.monotonic())

    async def _ended(self, name: str) -> None:
        self.begin()
        await asyncio.wait([self._ending.get(name) or self._end(name)])

    def _end(self, name: str) -> asyncio.Task[None]:
        self._ending[name] = self._tasks.start(name, self._parts[name](self.left_s()))
        return self._ending[name]
