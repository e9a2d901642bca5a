import asyncio
import threading
import time

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Cancelled, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.models.plain.call_watch import attentive, pause

CLOCK = SystemClock("UTC")


async def wait(call, patience_s=30.0, **more):
    async with attentive(call, CLOCK, patience_s, **more):
        await asyncio.Event().wait()


async def test_a_cancel_from_another_thread_ends_a_wait():
    call = RequestContext()
    threading.Timer(0.05, call.cancel).start()
    async with asyncio.timeout(30):
        with pytest.raises(Cancelled):
            await wait(call, 600.0)


async def test_deadline_patience_and_giving_up_are_told_apart():
    with pytest.raises(DeadlineExceeded):
        await wait(RequestContext(deadline=CLOCK.monotonic() + 0.05))
    with pytest.raises(TimeoutError):
        await wait(RequestContext(), 0.05)
    gone = []
    asyncio.get_running_loop().call_later(0.05, gone.append, True)
    with pytest.raises(TimeoutError):
        await wait(RequestContext(), given_up=lambda: bool(gone))


async def test_a_call_that_is_over_does_not_begin_and_one_in_time_is_left_alone():
    call = RequestContext()
    call.cancel()
    with pytest.raises(Cancelled):
        await wait(call)
    async with attentive(RequestContext(), CLOCK, 30.0):
        await asyncio.sleep(0.12)


async def test_a_pause_lasts_as_long_as_it_should_unless_the_call_ends():
    begun = time.monotonic()
    await pause(0.12, RequestContext(), CLOCK)
    assert time.monotonic() - begun >= 0.11
    call = RequestContext()
    asyncio.get_running_loop().call_later(0.02, call.cancel)
    async with asyncio.timeout(30):
        with pytest.raises(Cancelled):
            await pause(600.0, call, CLOCK)


async def test_being_cancelled_oneself_is_no_timeout():
    task = asyncio.ensure_future(wait(RequestContext()))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
