"""The event hub: bounded, numbered, replayable from an id (the id is what SSE calls Last-Event-ID).

Readers (the page, `--follow`, the council channel) never slow a publisher: each reads from the shared ring at its own
pace, and one that falls behind the ring is told how many events it missed instead of getting a silent gap.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from gaiad.clock import Clock, to_iso


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`id` grows by one per hub; `missed` is not 0 only on the marker that stands for events the ring dropped."""

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
