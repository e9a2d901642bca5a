"""The worker's waiting line: what the reader thread takes off the socket and the engine's thread works through.

The most urgent job comes first. A job that is more urgent than the running one, or a cancel of the running one, raises
the engine's interrupt flag; the engine puts an interrupted job back with the progress it has made. Owns no socket and
no model, so that every engine that works on one job at a time can use it.
"""

import heapq
import threading
from collections.abc import Callable
from typing import Any, Protocol

from gaiad.models.supervision.protocol import Failed, Ping, Pong, Reply


class Interrupt(Protocol):
    """A flag the engine's running computation looks at; safe from any thread."""

    def set(self) -> None: ...

    def clear(self) -> None: ...


class Job:
    """One request in the line. `state` is the engine's own: what it has done of it so far."""

    __slots__ = ("arrival", "cancelled", "id", "priority", "request", "state")

    def __init__(self, request: Any, arrival: int) -> None:
        self.request = request
        self.id: int = request.id
        self.priority: int = request.priority
        self.arrival = arrival
        self.cancelled = False
        self.state: Any = None

    def __lt__(self, other: "Job") -> bool:
        return (self.priority, self.arrival) < (other.priority, other.arrival)


class Inbox:
    """Priority line between two threads; `reply` must be safe from both."""

    def __init__(self, interrupt: Interrupt, reply: Callable[[Reply], None]) -> None:
        self._interrupt = interrupt
        self._reply = reply
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._pings: list[int] = []
        self._arrivals = 0
        self._closed = False

    # -- the reader thread's side

    def put(self, request: Any) -> None:
        """Queue a request; interrupts the running job when this one is more urgent."""
        with self._changed:
            self._arrivals += 1
            heapq.heappush(self._waiting, Job(request, self._arrivals))
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

    def take(self) -> Job | None:
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

    def carry_on(self, job: Job) -> bool:
        """Between two batches: answers pings; False when the engine must let go of `job` (see `put_back`)."""
        with self._changed:
            pings, self._pings = self._pings, []
            urgent = bool(self._waiting) and self._waiting[0].priority < job.priority
            stay = not (self._closed or job.cancelled or urgent)
        self._pong(pings)
        return stay

    def put_back(self, job: Job) -> None:
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
