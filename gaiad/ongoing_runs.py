"""Research that goes on by itself: durable from its start, run again after a stop or a crash, broken off on request.

The jobs table does not know of runs: a question belongs to its tenant's file, and a run is either under way there or at
its end, by one commit (`begun_runs`, `kept_runs`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import structs

from gaiad.clock import Clock
from gaiad.errors import Cancelled, GaiadError, Unavailable
from gaiad.logs import get_logger
from gaiad.ports import Call, Priority
from gaiad.research.payload.begun_runs import ATTEMPTS, Begun
from gaiad.research.payload.kept_runs import KeptRuns
from gaiad.run_events import RunEvents
from gaiad.schemas import ResearchRequest, ResearchResult
from gaiad.tasks import TaskGroup

_log = get_logger("gaiad.research")

BROKEN_OFF = "it was broken off"
_AGAIN = "from its beginning: what its rounds had found is searched for again, and what was told of it counts no more"
StartedRun = Callable[[ResearchRequest, Call, str], Awaitable[ResearchResult]]
Name = tuple[str, str]
"""Tenant and id of a run."""


class _Started(NamedTuple):
    call: Call
    begun: Begun


class OngoingRuns:
    """Those of all tenants, at most `most` at once. `events_of` begins the events of a run."""

    def __init__(
        self, runs: KeptRuns, clock: Clock, tasks: TaskGroup, most: int, events_of: Callable[[Name], RunEvents]
    ) -> None:
        self._runs = runs
        self._clock = clock
        self._tasks = tasks
        self._most = most
        self._events_of = events_of
        self._started: dict[Name, _Started] = {}
        self._beginning: dict[Name, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> int:
        """How many there are."""
        return len(self._started)

    @property
    def names(self) -> set[Name]:
        """Which there are, also those that are just being written down."""
        return {*self._beginning, *self._started}

    def begun(self, name: Name) -> Begun | None:
        """The row of a run under way."""
        return self._started[name].begun if name in self._started else None

    async def start(self, request: ResearchRequest, call: Call, run: StartedRun) -> str:
        """Have `run(request, call, research_id)` go on by itself, durable when this returns; its id.

        It begins also when the caller goes away meanwhile: a row without a run would wait for the next start (a call
        that was cancelled ends it at once). Raises Unavailable when too many are under way, or it cannot be written.
        """
        if len(self._started) + len(self._beginning) >= self._most:
            raise Unavailable(f"{self._most} research runs are under way; wait for one to end, or stop one")
        research_id = self._runs.new_id()
        beginning = self._tasks.start(f"begin {research_id}", self._begin(research_id, request, call, run))
        self._beginning[(call.tenant, research_id)] = beginning
        await asyncio.shield(beginning)
        return research_id

    async def _begin(self, research_id: str, request: ResearchRequest, call: Call, run: StartedRun) -> None:
        try:
            begun = await self._runs.begun.begin(research_id, request, call)
            self._go_on(begun, call, run)
        finally:
            del self._beginning[(call.tenant, research_id)]

    async def resume(self, begun: Begun, tenant: str, run: StartedRun, limit_s: float) -> None:
        """Go on with a run that was interrupted, for at most `limit_s`; what cannot be ends as what it was."""
        deadline = self._clock.monotonic() + limit_s
        call = Call(tenant, deadline, Priority.BACKGROUND).without(begun.hidden, begun.guarded)
        if begun.cancelled:
            await self._runs.break_off(begun, Cancelled(BROKEN_OFF), call)
        elif begun.unreadable:
            why = f"this gaiad cannot read what was asked ({begun.unreadable}); ask again: gaiad ask QUESTION"
            _log.error("research_not_resumed", tenant=tenant, research_id=begun.research_id, error=why)
            await self._runs.break_off(begun, GaiadError(why), call)
        elif begun.attempts >= ATTEMPTS:
            tried = f"the daemon ended in the middle of it {begun.attempts} times; ask again: gaiad ask QUESTION"
            await self._runs.break_off(begun, GaiadError(tried), call)
        else:
            await self._runs.begun.count_attempt(begun.research_id, call, 1)
            asked = structs.replace(begun.request, now=begun.request.now or begun.started_at)  # "yesterday" as of then
            _log.info("research_resumed", research_id=begun.research_id)
            self._go_on(structs.replace(begun, request=asked), call, run, resumed=True)

    def _go_on(self, begun: Begun, call: Call, run: StartedRun, *, resumed: bool = False) -> None:
        name = (call.tenant, begun.research_id)
        self._started[name] = _Started(call, begun)
        events = self._events_of(name)
        events.add("started", {"research_id": begun.research_id})
        if resumed:
            events.add("resumed", {"research_id": begun.research_id, "began_at": begun.started_at, "note": _AGAIN})
        self._tasks.start(begun.research_id, self._by_itself(begun, call, run))

    async def _by_itself(self, begun: Begun, call: Call, run: StartedRun) -> None:
        try:
            await run(begun.request, call, begun.research_id)
        except GaiadError as error:
            _log.info("research_ended", research_id=begun.research_id, code=error.code)  # its last event says why
        finally:
            del self._started[(call.tenant, begun.research_id)]

    async def broke_off(self, begun: Begun, error: BaseException, known: GaiadError, call: Call) -> bool:
        """A run came to no answer, for `error`, which is `known` as; whether that is its end.

        A stop in order is none: the next start goes on, and this attempt did not count.
        """
        if isinstance(error, asyncio.CancelledError):
            await self._runs.begun.count_attempt(begun.research_id, call, -1)
            return False
        await self._runs.break_off(begun, known, call)
        return True

    async def cancel(self, name: Name, call: Call) -> bool:
        """Break off a run that goes on; False when none of this name does. Raises Unavailable."""
        if name in self._beginning:
            await asyncio.wait([self._beginning[name]])
        if (started := self._started.get(name)) is None:
            return False
        await self._runs.begun.cancel(started.begun.research_id, call)
        started.call.cancel()
        return True
