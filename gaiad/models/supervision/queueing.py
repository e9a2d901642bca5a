"""Calls before a child takes them and while it has them: a fair line among callers, and what is in flight."""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Cancelled, GaiadError, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.models.supervision.protocol import Delta, Failed, Last, Reply

_LOOK_S = 0.05
_SHARE_OF_NEWEST = 0.2


class Ticket:
    """One caller in the line."""

    __slots__ = ("arrival", "priority", "tenant", "turn")

    def __init__(self, call: RequestContext, arrival: int) -> None:
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
    async def place(self, call: RequestContext) -> AsyncIterator[float]:
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

    def _join(self, call: RequestContext) -> Ticket:
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


class Pending:
    """`answer` is the last reply; `more` gives the pieces before it. Await `Supervisor.result` or `pieces`."""

    __slots__ = ("_changed", "answer", "deltas", "id")

    def __init__(self, request_id: int) -> None:
        self.id = request_id
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.deltas: deque[Delta] = deque()
        self._changed = asyncio.Event()
        self.answer.add_done_callback(lambda _: self._changed.set())

    def add(self, delta: Delta) -> None:
        """One more piece of text; ignored once the answer is there."""
        if not self.answer.done():
            self.deltas.append(delta)
            self._changed.set()

    async def more(self, call: RequestContext, clock: Clock, look_s: float) -> list[Delta]:
        """The next pieces, none once the answer is there; looks at the call every `look_s` seconds.

        Raises Cancelled, DeadlineExceeded.
        """
        while self.deltas or not self.answer.done():
            call.check(clock.monotonic())
            await self._wait(look_again_s(call, clock, look_s))
            if self.deltas:
                pieces = list(self.deltas)
                self.deltas.clear()
                return pieces
        return []

    async def _wait(self, timeout_s: float) -> None:
        """Return when a piece or the answer is there, or when the time is over."""
        if self.deltas or self.answer.done():
            return
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return


def look_again_s(call: RequestContext, clock: Clock, longest_s: float) -> float:
    """Seconds until a waiting call is to be looked at: for a cancel every `longest_s`, and at its deadline."""
    if call.deadline is None:
        return longest_s
    return max(0.001, min(longest_s, call.deadline - clock.monotonic()))


class InFlight:
    """All requests that one worker owes an answer; ids are never used twice, not by a later worker either."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def register(self) -> Pending:
        """A new request, with the id it is to be sent under."""
        self._last_id += 1
        pending = self._pending[self._last_id] = Pending(self._last_id)
        return pending

    def withdraw(self, pending: Pending) -> None:
        """It was never sent, or nobody waits for its answer any longer."""
        self._pending.pop(pending.id, None)

    def settle(self, reply: Last) -> None:
        """Hand the reply to its request; one to a request that is gone is dropped."""
        pending = self._pending.pop(reply.id, None)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(reply)

    def add(self, piece: Delta) -> None:
        """Hand a piece of text to its request; one to a request that is gone is dropped."""
        if piece.id in self._pending:
            self._pending[piece.id].add(piece)

    def fail(self, role: str, reason: str) -> None:
        """The worker is gone: WorkerDied for all it owed."""
        failed, self._pending = list(self._pending.values()), {}
        for waiting in failed:
            if not waiting.answer.done():
                waiting.answer.set_exception(WorkerDied(f"{role}: {reason}"))
                waiting.answer.exception()  # a request nobody awaits any longer must not warn


def error_of(role: str, failed: Failed) -> GaiadError:
    """A refusal as the error its caller raises."""
    match failed.code:
        case "cancelled":
            return Cancelled(f"{role}: {failed.reason}")
        case "bad_input":
            return BadInput(f"{role}: {failed.reason}")
        case "engine":
            return Unavailable(f"{role}: {failed.reason}")
