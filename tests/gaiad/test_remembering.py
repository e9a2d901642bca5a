import asyncio

import pytest

from gaiad.clock import SystemClock
from gaiad.remembering import Keeper


async def test_what_is_being_kept_is_kept_though_the_caller_is_cancelled_twice():
    keeper, kept, release = Keeper(None, None, SystemClock("UTC")), [], asyncio.Event()

    async def slow():
        await release.wait()
        kept.append("turn")

    async def leave():
        try:
            await asyncio.sleep(60)
        finally:
            await keeper.finish(slow())

    caller = asyncio.ensure_future(leave())
    for _ in range(2):
        await asyncio.sleep(0.01)
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert kept == []
    release.set()
    await keeper.close()
    assert kept == ["turn"]


async def test_an_error_of_keeping_is_the_callers():
    async def fails():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await Keeper(None, None, SystemClock("UTC")).finish(fails())
