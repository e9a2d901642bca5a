"""Waiting on something foreign without losing sight of the call: a cancel from any thread ends the wait at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from gaiad.clock import Clock
from gaiad.ports import Call

_LOOK_S = 0.02


@contextlib.asynccontextmanager
async def attentive(
    call: Call, clock: Clock, patience_s: float, given_up: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """What runs inside is given up when the call is.

    Raises Cancelled or DeadlineExceeded then, and TimeoutError after `patience_s` or as soon as `given_up` says so.
    """
    call.check(clock.monotonic())
    try:
        async with asyncio.timeout(patience_s) as limit:
            with _looking(limit, call, clock, given_up):
                yield
    except TimeoutError:
        call.check(clock.monotonic())
        raise


async def pause(seconds: float, call: Call, clock: Clock) -> None:
    """Sleep. Raises Cancelled or DeadlineExceeded as soon as it is so."""
    with contextlib.suppress(TimeoutError):
        async with attentive(call, clock, seconds):
            await asyncio.Event().wait()


@contextlib.contextmanager
def _looking(limit: asyncio.Timeout, call: Call, clock: Clock, given_up: Callable[[], bool]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        late = call.deadline is not None and clock.monotonic() > call.deadline
        if late or call.cancelled or given_up():
            limit.reschedule(loop.time())
        else:
            timer = loop.call_later(_LOOK_S, look)

    timer = loop.call_later(_LOOK_S, look)
    try:
        yield
    finally:
        timer.cancel()
