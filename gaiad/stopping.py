"""The one deadline of a stop: all that waits for work under way shares it, so that daemon.stop_grace_s passes but once.

Parts that take up new work end beside each other from the moment a stop begins; all else in the order of the stack.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from gaiad.clock import Clock
from gaiad.tasks import TaskGroup

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
