import asyncio

import pytest

from gaiad.clock import SystemClock
from gaiad.ledger.cognition_log import CognitionLog, Record
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


async def test_a_last_packet_of_another_version_is_none_and_told(tmp_path, capfd):
    clock = SystemClock("UTC")
    log = CognitionLog(tmp_path, clock)
    keeper = Keeper(None, log, clock)
    assert await keeper.last_packet("s", "local") is None
    await log.add("local", Record(full_id="cog_1", short_id="1", turn_id="t", session_id="s", body=b'{"v": 9}'))
    assert await keeper.last_packet("s", "local") is None
    written = capfd.readouterr()
    assert "cog_1: was kept by another version of gaiad" in written.out + written.err
    await log.close()
