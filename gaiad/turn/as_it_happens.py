"""Turns work that reports by a callback into a stream: an event goes out when it is told, not when the work is done."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Generic, TypeVar

from gaiad.errors import Cancelled
from gaiad.tasks import TaskGroup

T = TypeVar("T")
Event = tuple[str, Any]
Tell = Callable[[str, dict[str, Any]], None]


class _Ended(Generic[T]):
    """What the work came to: its result, or the error it raised."""

    def __init__(self, result: T | None = None, error: Exception | None = None) -> None:
        self.result, self.error = result, error


class AsItHappens(Generic[T]):
    """One piece of work. Read `events()` to the end and `result` is there; closing it early cancels the work."""

    def __init__(self, name: str, work: Callable[[Tell], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._heard: asyncio.Queue[Event | _Ended[T]] = asyncio.Queue()
        self.result: T

    async def events(self) -> AsyncGenerator[Event, None]:
        """(name, data) as the work tells them. Raises what the work raises, after what it told before."""
        async with TaskGroup("turn") as tasks:
            tasks.start(self._name, self._run())
            while not isinstance(event := await self._heard.get(), _Ended):
                yield event
            if event.error is not None:
                raise event.error
            self.result = event.result  # type: ignore[assignment]

    async def _run(self) -> None:
        ended = _Ended[T](error=Cancelled(f"{self._name} was cancelled"))
        try:
            ended = _Ended(await self._work(lambda name, data: self._heard.put_nowait((name, data))))
        except Exception as error:  # noqa: BLE001  (raised where the events are read)
            ended.error = error
        finally:
            self._heard.put_nowait(ended)
