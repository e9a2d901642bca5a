"""The event hub: bounded, numbered, replayable from an id (the id is what SSE calls Last-Event-ID).

Readers (the page, `--follow`, the council channel) never slow a publisher: each reads from the shared ring at its own
pace, and one that falls behind the ring learns how many events it missed instead of getting a silent gap.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import Cancelled
from gaiad.base.tasks import TaskGroup


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`id` grows by one per hub; `missed` is not 0 only on the marker for events the ring dropped."""

    id: int
    at: str
    kind: str
    tenant: str
    data: dict[str, Any]
    missed: int = 0


class EventHub:
    """Publish from the event loop's thread; follow from any number of tasks on it."""

    def __init__(self, clock: Clock, capacity: int = 4096) -> None:
        self._clock = clock
        self._ring: deque[Event] = deque(maxlen=capacity)
        self._next_id = 1
        self._news = asyncio.Event()

    @property
    def last_id(self) -> int:
        """The id of the newest event, 0 before the first."""
        return self._next_id - 1

    def publish(self, kind: str, tenant: str = "local", /, **data: Any) -> Event:
        """Number the event, keep it in the ring, wake the readers."""
        event = Event(id=self._next_id, at=to_iso(self._clock.now()), kind=kind, tenant=tenant, data=data)
        self._next_id += 1
        self._ring.append(event)
        news, self._news = self._news, asyncio.Event()
        news.set()
        return event

    def since(self, after_id: int) -> list[Event]:
        """Events with an id above `after_id`, oldest first, led by a `missed` marker where the ring lost some."""
        fresh = [event for event in self._ring if event.id > after_id]
        first_kept = self._ring[0].id if self._ring else self._next_id
        missed = first_kept - after_id - 1
        if missed <= 0:
            return fresh
        marker = Event(
            id=first_kept - 1, at=to_iso(self._clock.now()), kind="missed", tenant="", data={}, missed=missed
        )
        return [marker, *fresh]

    async def follow(self, after_id: int | None = None) -> AsyncIterator[Event]:
        """Every event after `after_id` (default: from now on), for as long as the reader reads."""
        cursor = self.last_id if after_id is None else min(after_id, self.last_id)
        while True:
            news = self._news
            for event in self.since(cursor):
                cursor = event.id
                yield event
            if cursor >= self.last_id:
                await news.wait()


OnEvent = Callable[[str, dict[str, Any]], None]
"""Receives the events of a run while it goes on: name and data."""
Emit = Callable[[str, object], Coroutine[Any, Any, None]]
"""Hands an event of a turn to its reader, and returns when the reader asks for the next."""
NamedEvent = tuple[str, object]


class EventStream:
    """From a piece of work to its one reader. The work goes on only as fast as the events are read."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[NamedEvent | Exception | None] = asyncio.Queue()

    def put(self, name: str, data: object) -> None:
        """An event nobody waits for."""
        self._queue.put_nowait((name, data))

    async def emit(self, name: str, data: object) -> None:
        """As `Emit` says."""
        self.put(name, data)
        await self._queue.join()

    async def read(self, name: str, work: Coroutine[Any, Any, None]) -> AsyncGenerator[NamedEvent, None]:
        """The events of `work`, then its error. Closing this early cancels the work and awaits it."""
        async with TaskGroup("events") as tasks:
            tasks.start(name, self._run(name, work))
            while (event := await self._queue.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
                self._queue.task_done()

    async def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        end: Exception | None = Cancelled(f"{name} was cancelled")
        try:
            await work
            end = None
        except Exception as error:  # noqa: BLE001  (raised where the events are read)
            end = error
        finally:
            self._queue.put_nowait(end)


LIMIT_BYTES = 4 * 1024 * 1024
DELTA, MISSED = "delta", "missed"
_PIECE_CHARACTERS = 16_384  # of text in one event for a late reader
_OVERHEAD_BYTES = 200  # of an event beside its text
_NO_BODY = msgspec.Raw()
_FULL_AGAIN = 0.9  # of the bound stays when there is too much, so that not every further event moves all the others


class Numbered(NamedTuple):
    """An event as it is read. `number` is where to go on after it; `data` is a value, or JSON as it was kept."""

    number: int
    name: str
    data: object


class _StoredEvent(NamedTuple):
    name: str
    body: msgspec.Raw
    text: str | None = None  # of a delta, which has no body
    rest: dict[str, Any] | None = None  # what a delta says besides its text

    @property
    def size(self) -> int:
        return _OVERHEAD_BYTES + len(self.text.encode() if self.text is not None else bytes(self.body))


class RunEvents:
    """Add from the event loop's thread; follow from any number of tasks on it. Events are numbered from 1."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: list[_StoredEvent] = []
        self._dropped = 0
        self._news = asyncio.Event()
        self.bytes = 0
        self.ended = False
        self.readers = 0

    @property
    def last(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._dropped + len(self._kept)

    def add(self, name: str, data: object) -> None:
        """Number the event, keep it, wake the readers."""
        kept = _kept(name, data)
        self._kept.append(kept)
        self.bytes += kept.size
        if self.bytes > self._limit:
            self._let_go(self._limit)
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.ended = True
        self._wake()

    async def follow(self, after: int = 0) -> AsyncGenerator[Numbered, None]:
        """Every event above `after`, until the last one. A number that was never given begins at the beginning."""
        cursor = after if 0 <= after <= self.last else 0
        self.readers += 1
        try:
            while True:
                news = self._news
                while (found := self._next(cursor)) is not None:
                    cursor = found.number
                    yield found
                if self.ended:
                    return
                await news.wait()
        finally:
            self.readers -= 1

    def _next(self, after: int) -> Numbered | None:
        """What a reader that is at `after` reads next."""
        if after < self._dropped:
            return Numbered(self._dropped, MISSED, {"events": self._dropped - after})
        if after >= self.last:
            return None
        kept = self._kept[after - self._dropped]
        if kept.text is None:
            return Numbered(after + 1, kept.name, kept.body)
        return self._text(after, kept)

    def _text(self, after: int, first: _StoredEvent) -> Numbered:
        """The delta after `after`, with those that follow it at once."""
        pieces, characters = list[str](), 0
        for index in range(after - self._dropped, len(self._kept)):
            kept = self._kept[index]
            if kept.text is None or kept.rest != first.rest or characters >= _PIECE_CHARACTERS:
                break
            pieces.append(kept.text)
            characters += len(kept.text)
        return Numbered(after + len(pieces), DELTA, {**(first.rest or {}), "text": "".join(pieces)})

    def let_go(self) -> bool:
        """Give up the oldest part of what is kept; False when nothing can be given up any longer."""
        before = self._dropped
        self._let_go(self.bytes)
        return self._dropped > before

    def _let_go(self, limit: int) -> None:
        """The oldest events, somewhat below the bound; the newest one stays whatever its size."""
        bound, number = limit * _FULL_AGAIN, 0
        while number < len(self._kept) - 1 and self.bytes > bound:
            self.bytes -= self._kept[number].size
            number += 1
        del self._kept[:number]
        self._dropped += number

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


async def alone(event: Numbered) -> AsyncGenerator[Numbered, None]:
    """One event, as the events of a run that had no other."""
    yield event


def _kept(name: str, data: object) -> _StoredEvent:
    if name == DELTA and isinstance(data, dict) and isinstance(data.get("text"), str):
        rest = {key: value for key, value in data.items() if key != "text"}
        return _StoredEvent(DELTA, _NO_BODY, data["text"], rest or None)
    return _StoredEvent(name, msgspec.Raw(msgspec.json.encode(data)))
