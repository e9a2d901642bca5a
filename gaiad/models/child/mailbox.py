"""The generation worker's mailbox: the reader thread fills it, the engine's thread empties it between two decode steps.

Unlike the embedder's line it holds no order of its own: many requests run at once, and the engine decides who goes on.
It only raises the interrupt where a running step should not be waited for: a cancel, a stop, a more urgent request.
"""

import threading

import msgspec

from gaiad.models.child.inbox import Interrupt
from gaiad.models.supervision.protocol import Generate, Ping


class News(msgspec.Struct, kw_only=True):
    """What came since the last look."""

    requests: list[Generate] = []
    cancels: list[int] = []
    pings: list[int] = []
    closed: bool = False


class Mailbox:
    """Shared by two threads. `urgency` is the priority a new request must beat to interrupt the running step."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._changed = threading.Condition()
        self._news = News()
        self.urgency: int | None = None

    def put(self, request: Generate) -> None:
        with self._changed:
            self._news.requests.append(request)
            if self.urgency is not None and request.priority < self.urgency:
                self._interrupt.set()
            self._changed.notify()

    def cancel(self, request_id: int) -> None:
        with self._changed:
            self._news.cancels.append(request_id)
            self._interrupt.set()
            self._changed.notify()

    def ping(self, ping: Ping) -> None:
        with self._changed:
            self._news.pings.append(ping.id)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._news.closed = True
            self._interrupt.set()
            self._changed.notify()

    def collect(self, *, wait: bool) -> News:
        """Everything new; with `wait` at least one thing. Lowers the interrupt: what it was raised for is in hand."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._news != News())
            news, self._news = self._news, News(closed=self._news.closed)
            self._interrupt.clear()
            return news
