"""What the reader thread hands to an engine, in two shapes.

An engine that works on one job at a time has an Inbox: the most urgent job first. A generating engine has a Mailbox:
it takes all that is new between two decode steps and decides by itself who goes on. Both raise the interrupt flag where
the running step should not be waited for: a cancel, a stop, a more urgent request. They own no socket and no model.
"""

import heapq
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from gaiad.models.supervision.protocol import Failed, Generate, Ping, Pong, Reply


class Interrupt(Protocol):
    """A flag the engine's running computation looks at; safe from any thread."""

    def set(self) -> None: ...

    def clear(self) -> None: ...


class QueuedRequest:
    """One request in the line. `state` is the engine's own: what it has done of it so far."""

    __slots__ = ("arrival", "cancelled", "id", "priority", "request", "state")

    def __init__(self, request: Any, arrival: int) -> None:
        self.request = request
        self.id: int = request.id
        self.priority: int = request.priority
        self.arrival = arrival
        self.cancelled = False
        self.state: Any = None

    def __lt__(self, other: "QueuedRequest") -> bool:
        return (self.priority, self.arrival) < (other.priority, other.arrival)


class Inbox:
    """Priority line between two threads; `reply` must be safe from both."""

    def __init__(self, interrupt: Interrupt, reply: Callable[[Reply], None]) -> None:
        self._interrupt = interrupt
        self._reply = reply
        self._changed = threading.Condition()
        self._waiting: list[QueuedRequest] = []
        self._running: QueuedRequest | None = None
        self._pings: list[int] = []
        self._arrivals = 0
        self._closed = False

    # -- the reader thread's side

    def put(self, request: Any) -> None:
        """Queue a request; interrupts the running job when this one is more urgent."""
        with self._changed:
            self._arrivals += 1
            heapq.heappush(self._waiting, QueuedRequest(request, self._arrivals))
            if self._running is not None and request.priority < self._running.priority:
                self._interrupt.set()
            self._changed.notify()

    def cancel(self, request_id: int) -> None:
        """Drop a job. A waiting one is answered here; the running one is interrupted and answered by `take`."""
        with self._changed:
            if self._running is not None and self._running.id == request_id:
                self._running.cancelled = True
                self._interrupt.set()
                return
            kept = [job for job in self._waiting if job.id != request_id]
            found = len(kept) < len(self._waiting)
            heapq.heapify(kept)
            self._waiting = kept
        if found:
            self._reply(Failed(id=request_id, code="cancelled", reason="cancelled while waiting"))

    def ping(self, ping: Ping) -> None:
        with self._changed:
            self._pings.append(ping.id)
            self._changed.notify()

    def close(self) -> None:
        """`take` returns None from now on, and what runs is interrupted."""
        with self._changed:
            self._closed = True
            self._interrupt.set()
            self._changed.notify()

    # -- the engine's side

    def take(self) -> QueuedRequest | None:
        """Wait for the most urgent job; None once the inbox is closed. Answers pings meanwhile."""
        while True:
            with self._changed:
                self._running = None
                self._changed.wait_for(lambda: self._waiting or self._pings or self._closed)
                if self._closed:
                    return None
                pings, self._pings = self._pings, []
                if not pings:
                    self._running = heapq.heappop(self._waiting)
                    self._interrupt.clear()
                    return self._running
            self._pong(pings)

    def carry_on(self, job: QueuedRequest) -> bool:
        """Between two batches: answers pings; False when the engine must let go of `job` (see `put_back`)."""
        with self._changed:
            pings, self._pings = self._pings, []
            urgent = bool(self._waiting) and self._waiting[0].priority < job.priority
            stay = not (self._closed or job.cancelled or urgent)
        self._pong(pings)
        return stay

    def put_back(self, job: QueuedRequest) -> None:
        """Return an interrupted job to its old place in the line, or answer it when it was cancelled."""
        with self._changed:
            self._running = None
            if not job.cancelled:
                heapq.heappush(self._waiting, job)
        if job.cancelled:
            self._reply(Failed(id=job.id, code="cancelled", reason="cancelled while running"))

    def _pong(self, pings: list[int]) -> None:
        for ping_id in pings:
            self._reply(Pong(id=ping_id))


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
