"""Events of a work arrive while it goes on; its error and its being given up arrive too."""

import asyncio
from contextlib import aclosing

import pytest

from gaiad.base.errors import BadInput, GaiadError
from gaiad.base.events import EventStream


async def test_an_event_is_out_before_the_work_is_done():
    go_on = asyncio.Event()
    stream = EventStream()

    async def work():
        stream.put("searching", {"iteration": 1})
        await go_on.wait()
        await stream.emit("found", {})

    events = stream.read("work", work())
    assert await asyncio.wait_for(anext(events), 30) == ("searching", {"iteration": 1})
    assert not go_on.is_set()
    go_on.set()
    assert [event async for event in events] == [("found", {})]


async def test_the_work_waits_for_its_reader():
    stream, written = EventStream(), []

    async def work():
        for number in range(3):
            written.append(number)
            await stream.emit("delta", number)

    async with aclosing(stream.read("work", work())) as events:
        await anext(events)
        await asyncio.sleep(0.01)
        assert written == [0]
        await anext(events)
        assert written == [0, 1]


async def test_an_error_comes_after_what_was_emitted_before_it():
    stream = EventStream()

    async def work():
        stream.put("searching", {})
        raise BadInput("too long")

    events = stream.read("work", work())
    assert await anext(events) == ("searching", {})
    with pytest.raises(BadInput, match="too long"):
        await anext(events)


async def test_work_that_cancels_itself_is_an_error_for_its_reader():
    stream = EventStream()

    async def work():
        raise asyncio.CancelledError

    async with asyncio.timeout(30):
        with pytest.raises(GaiadError, match="work was cancelled"):
            [event async for event in stream.read("work", work())]


async def test_who_leaves_early_cancels_the_work():
    left = []
    stream = EventStream()

    async def work():
        stream.put("searching", {})
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cancelled")

    async with aclosing(stream.read("work", work())) as events:
        await anext(events)
    assert left == ["cancelled"]
