"""Turns that go on in the daemon though nobody listens, for a page that is reloaded in the middle of one.

A run takes its turn from conversations and keeps its events (`run_events`) for readers that come and go; the
last ended ones are kept too, those before them are answered from memory. A part of `service`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import Cancelled, Conflict, DeadlineExceeded, Unavailable
from gaiad.base.events import Numbered, RunEvents, alone
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.service.conversations import Conversations
from gaiad.wire.chat import ChatChannel, ChatRequest
from gaiad.wire.schemas import ErrorBody, Output

AT_ONCE = 256
"""Turns that may run by themselves at the same time."""
RUNNING_BYTES = 64 * 1024 * 1024
"""What the events of all turns that run may take together; above it the one with the most keeps less."""
KEPT, KEPT_BYTES = 64, 32 * 1024 * 1024
"""Ended runs whose events are still kept, and the bytes of all of them."""
_TURN_AT_A_STRETCH_S = 0.001
_CANCEL_PATIENCE_S = 10.0
_log = get_logger("gaiad.turns")


class StartedTurn(Output, frozen=True):
    """A turn that is being taken, under which names."""

    turn_id: str
    session_id: str


class TurnUnderWay(Output, frozen=True):
    """A turn that runs by itself; `started_at` is UTC."""

    turn_id: str
    session_id: str
    message: str
    started_at: str


DescribeError = Callable[[Exception, str], tuple[int, ErrorBody]]


class _Run:
    def __init__(self, request: ChatRequest, call: RequestContext, started_at: str) -> None:
        self.request = request
        self.call = call
        self.events = RunEvents()
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.row = TurnUnderWay(
            turn_id=call.turn_id, session_id=request.session_id, message=request.message, started_at=started_at
        )
        self.answered = False
        self.error: Exception | None = None
        self.held_bytes = 0  # of its events, as counted with those of all that run
        self.let_go = False  # of its events, at its end

    @property
    def under_way(self) -> bool:
        """Until its last event."""
        return not (self.answered or self.ended.is_set())


class TurnRuns:
    """Runs by tenant and turn id. `describe` puts an error in the words of the wire."""

    def __init__(
        self,
        turns: Conversations,
        clock: Clock,
        describe: DescribeError,
        at_once: int = AT_ONCE,
        kept: int = KEPT,
        running_bytes: int = RUNNING_BYTES,
    ) -> None:
        self._turns = turns
        self._clock = clock
        self._describe = describe
        self._at_once = at_once
        self._kept = kept
        self._running_bytes = running_bytes
        self._runs: dict[tuple[str, str], _Run] = {}  # in the order in which they began
        self._tasks = TaskGroup("turns")
        self._held_bytes = 0  # by those that run
        self._stopping = False

    async def start(self, request: ChatRequest, call: RequestContext) -> StartedTurn:
        """Begin a turn; the same idempotency key gives the turn that it gave before.

        Raises BadInput, Conflict for a key that came with another message, Unavailable when too many run or at a stop.
        """
        request, turn_id = await self._turns.name(request, call)
        known = self._runs.get((call.tenant, turn_id))
        if known is not None and (known.answered or known.under_way):
            if known.request.message != request.message:
                raise Conflict(
                    f"idempotency_key {request.idempotency_key!r} came with another message in session "
                    f"{request.session_id!r}; use a new key"
                )
            return StartedTurn(turn_id=turn_id, session_id=request.session_id)
        self._check_room()
        own = RequestContext(tenant=call.tenant, priority=call.priority, turn_id=turn_id)
        run = _Run(request, own, to_iso(self._clock.now()))
        self._runs.pop((call.tenant, turn_id), None)
        self._runs[call.tenant, turn_id] = run
        run.task = self._tasks.start(turn_id, self._take(run))
        run.task.add_done_callback(lambda _: self._end(run))
        return StartedTurn(turn_id=turn_id, session_id=request.session_id)

    def running(self, call: RequestContext, channel: ChatChannel | None) -> list[TurnUnderWay]:
        """The tenant's turns that run now, the oldest first; of one channel, or of all."""
        return [
            run.row
            for (tenant, _), run in self._runs.items()
            if tenant == call.tenant and run.under_way and channel in (None, run.request.channel)
        ]

    async def follow(
        self, turn_id: str, after: int, call: RequestContext, channel: ChatChannel | None
    ) -> AsyncGenerator[Numbered, None]:
        """The events of a turn above `after`, until its last, `done` or `error`, which is sent again when asked again.

        A reader of one channel sees only what was said there. Of a turn that is not kept any longer there is only that
        last event, from memory, as its channel may have it. Raises NotFound, and Conflict for one that somebody else's
        request takes.
        """
        run = self._runs.get((call.tenant, turn_id))
        if run is None or channel not in (None, run.request.channel):
            return alone(await self._remembered(turn_id, after, call, channel))
        over = not run.under_way and after >= run.events.last
        return run.events.follow(run.events.last - 1 if over else after)

    async def _remembered(
        self, turn_id: str, after: int, call: RequestContext, channel: ChatChannel | None
    ) -> Numbered:
        try:
            answer = await self._turns.again(turn_id, channel or "cli_chat", call)
        except (Cancelled, Unavailable) as error:  # it came to nothing
            return Numbered(after + 1, "error", self._describe(error, turn_id)[1])
        return Numbered(after + 1, "done", answer)

    async def cancel(self, turn_id: str, call: RequestContext) -> bool:
        """Break a turn off and wait until it has ended; False when there was nothing to break off.

        What was said until then is remembered, as when a caller leaves. Raises DeadlineExceeded for one that goes on.
        """
        run = self._runs.get((call.tenant, turn_id))
        if run is None or not run.under_way:
            return False
        self._break_off(run)
        try:
            async with asyncio.timeout(_CANCEL_PATIENCE_S):
                await run.ended.wait()
        except TimeoutError as error:
            raise DeadlineExceeded(f"turn {turn_id!r} is being stopped; check again shortly") from error
        return not run.answered

    async def stop(self, grace_s: float) -> None:
        """Take no more; give those that run `grace_s` to end, then break them off and wait for each."""
        self._stopping = True
        running = [run for run in self._runs.values() if not run.ended.is_set()]
        if running:
            _log.info("turns_end", running=len(running), grace_s=round(grace_s, 1))
            await asyncio.wait([run.task for run in running if run.task is not None], timeout=grace_s)
        for run in running:
            self._break_off(run)
        await self._tasks.stop()

    def let_go(self) -> None:
        """Keep no events of turns beyond their end: they quote what may have been deleted."""
        for run in [*self._runs.values()]:
            run.let_go = True
            self._drop(run)

    def _drop(self, run: _Run) -> None:
        key = (run.call.tenant, run.row.turn_id)
        if run.let_go and run.ended.is_set() and self._runs.get(key) is run:
            del self._runs[key]

    # -- one run

    def _check_room(self) -> None:
        if self._stopping:
            raise Unavailable("gaiad is stopping and accepts no new turns; ask again once it has restarted", 2.0)
        if sum(not run.ended.is_set() for run in self._runs.values()) >= self._at_once:
            raise Unavailable(f"{self._at_once} turns are already running; ask again when some have finished", 5.0)

    def _break_off(self, run: _Run) -> None:
        if run.task is not None and not run.ended.is_set():
            run.call.cancel()
            run.task.cancel()

    async def _take(self, run: _Run) -> None:
        """The turn to its end; every reader gets what went wrong."""
        try:
            await self._tell(run)
        except Exception as error:  # noqa: BLE001  (an unexpected one is logged with its id where it is put in words)
            run.error = error

    def _end(self, run: _Run) -> None:
        """The last event is `done` or `error`, whatever happened; an error after `done` is for the log alone."""
        if not run.answered:
            broken_off = Cancelled("the turn was interrupted; what was said so far is remembered")
            error = broken_off if run.call.cancelled else run.error or Unavailable("the turn ended early; ask again")
            run.events.add("error", self._describe(error, "turn")[1])
        elif run.error is not None:
            _log.error("turn_failed_after_its_answer", turn_id=run.row.turn_id, exc_info=run.error)
        run.events.end()
        self._held_bytes -= run.held_bytes
        run.held_bytes = 0
        run.ended.set()
        self._drop(run)
        self._forget()

    async def _tell(self, run: _Run) -> None:
        since = self._clock.monotonic()
        async with aclosing(self._turns.chat(run.request, run.call)) as events:
            async for name, data in events:
                self._keep(run, name, data)
                run.answered = run.answered or name == "done"
                if (now := self._clock.monotonic()) - since > _TURN_AT_A_STRETCH_S:  # a model that never waits
                    await asyncio.sleep(0)
                    since = now

    def _keep(self, run: _Run, name: str, data: object) -> None:
        """One more event; when all that run hold too much together, the one with the most gives up its oldest."""
        run.events.add(name, data)
        self._count(run)
        while self._held_bytes > self._running_bytes:
            largest = max(self._runs.values(), key=lambda one: one.held_bytes)
            if not largest.events.let_go():
                return
            self._count(largest)

    def _count(self, run: _Run) -> None:
        self._held_bytes += run.events.bytes - run.held_bytes
        run.held_bytes = run.events.bytes

    def _forget(self) -> None:
        """The events of the oldest ended runs, until what is left is within the bounds."""
        ended = [key for key, run in self._runs.items() if run.ended.is_set()]
        held = sum(self._runs[key].events.bytes for key in ended)
        for key in ended[:-1]:
            if len(ended) <= self._kept and held <= KEPT_BYTES:
                return
            held -= self._runs.pop(key).events.bytes
            ended = ended[1:]
