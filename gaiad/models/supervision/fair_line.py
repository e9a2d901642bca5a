"""The bounded line before a worker: who may send it a request next, and who is told to come back later.

A person and background work have places of their own, so that a person never waits behind a queue of background work
(the worker lets them pass there, too). Within a class the tenant with the fewest running requests comes first, so that
one who asks for a hundred replies does not keep the others waiting for all of them.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gaiad.clock import Clock
from gaiad.errors import Unavailable
from gaiad.ports import Call

_LOOK_S = 0.05
_SHARE_OF_NEWEST = 0.2


class Ticket:
    """One caller in the line."""

    __slots__ = ("arrival", "priority", "tenant", "turn")

    def __init__(self, call: Call, arrival: int) -> None:
        self.priority = int(call.priority)
        self.tenant = call.tenant
        self.arrival = arrival
        self.turn = asyncio.Event()


class FairLine:
    """`places` requests of each class at a time, `limit` more of each waiting."""

    def __init__(self, name: str, places: int, limit: int, clock: Clock) -> None:
        self._name = name
        self._places = places
        self._limit = limit
        self._clock = clock
        self._arrivals = itertools.count()
        self._waiting: list[Ticket] = []
        self._running: list[Ticket] = []
        self._usual_s = 1.0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @asynccontextmanager
    async def place(self, call: Call) -> AsyncIterator[float]:
        """Wait for a place and hold it; gives the seconds waited.

        Raises Unavailable at once when the line is full, Cancelled and DeadlineExceeded while waiting.
        """
        ticket, arrived = self._join(call), self._clock.monotonic()
        try:
            while not ticket.turn.is_set():
                call.check(self._clock.monotonic())
                try:
                    async with asyncio.timeout(_LOOK_S):  # wait_for would lose a cancel that comes with the turn
                        await ticket.turn.wait()
                except TimeoutError:
                    continue
            begun = self._clock.monotonic()
            yield begun - arrived
            self._usual_s += _SHARE_OF_NEWEST * (self._clock.monotonic() - begun - self._usual_s)
        finally:
            self._leave(ticket)

    def _join(self, call: Call) -> Ticket:
        ticket = Ticket(call, next(self._arrivals))
        ahead = sum(other.priority == ticket.priority for other in self._waiting)
        running = sum(other.priority == ticket.priority for other in self._running)
        if running >= self._places and ahead >= self._limit:
            wait_s = round(max(0.1, self._usual_s * (ahead + 1) / self._places), 1)
            raise Unavailable(
                f"{self._name}: {ahead} requests already wait (limit {self._limit}); try again in {wait_s:g} s", wait_s
            )
        self._waiting.append(ticket)
        self._call_up()
        return ticket

    def _leave(self, ticket: Ticket) -> None:
        for line in (self._waiting, self._running):
            if ticket in line:
                line.remove(ticket)
        self._call_up()

    def _call_up(self) -> None:
        for priority in {ticket.priority for ticket in self._waiting}:
            while (chosen := self._next(priority)) is not None:
                self._waiting.remove(chosen)
                self._running.append(chosen)
                chosen.turn.set()

    def _next(self, priority: int) -> Ticket | None:
        same = [ticket for ticket in self._waiting if ticket.priority == priority]
        served = Counter(ticket.tenant for ticket in self._running if ticket.priority == priority)
        if not same or served.total() >= self._places:
            return None
        return min(same, key=lambda ticket: (served[ticket.tenant], ticket.arrival))
