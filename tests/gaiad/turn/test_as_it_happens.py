"""Events of a work arrive while it goes on; its result, its error and its being given up arrive too."""

import asyncio
from contextlib import aclosing

import pytest

from gaiad.base.errors import BadInput
from gaiad.turn.whole_turn import WorkStream


async def test_an_event_is_out_before_the_work_is_done():
    go_on = asyncio.Event()

    async def work(tell):
        tell("searching", {"iteration": 1})
        await go_on.wait()
        tell("found", {})
        return 7

    happening = WorkStream("work", work)
    events = happening.events()
    assert await asyncio.wait_for(anext(events), 30) == ("searching", {"iteration": 1})
    assert not go_on.is_set()
    go_on.set()
    assert [event async for event in events] == [("found", {})]
    assert happening.result == 7


async def test_an_error_comes_after_what_was_told_before_it():
    async def work(tell):
        tell("searching", {})
        raise BadInput("too long")

    events = WorkStream("work", work).events()
    assert await anext(events) == ("searching", {})
    with pytest.raises(BadInput, match="too long"):
        await anext(events)


async def test_who_leaves_early_cancels_the_work():
    left = []

    async def work(tell):
        tell("searching", {})
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cancelled")

    async with aclosing(WorkStream("work", work).events()) as events:
        await anext(events)
    assert left == ["cancelled"]
