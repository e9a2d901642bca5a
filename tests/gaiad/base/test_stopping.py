"""The one deadline of a stop: parts end beside each other within it, and what stops later gets what is left."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest

from gaiad.base.clock import FrozenClock, SystemClock
from gaiad.base.tasks import Stopping


class Part:
    """A part whose work takes all the time it is given."""

    def __init__(self) -> None:
        self.given_s: list[float] = []
        self.through = False

    async def stop(self, grace_s: float) -> None:
        self.given_s.append(grace_s)
        await asyncio.sleep(grace_s)
        self.through = True


async def test_parts_end_beside_each_other_and_what_stops_later_has_only_what_is_left() -> None:
    clock = FrozenClock(datetime(2025, 11, 30, tzinfo=UTC))
    stopping, one, other = Stopping(clock, 0.4), Part(), Part()
    async with AsyncExitStack() as stack:
        stopping.end_beside(stack, "one", one.stop)
        stopping.end_beside(stack, "other", other.stop)
        stopping.begin()
        stopping.begin()
        await asyncio.sleep(0)
        assert (one.given_s, other.given_s) == ([0.4], [0.4]), "both began to end at once, and once"
        clock.advance(0.3)
        assert stopping.left_s() == pytest.approx(0.1)
    clock.advance(0.3)
    assert stopping.left_s() == 0.0
    assert one.through
    assert other.through


async def test_the_stack_waits_at_the_place_of_a_part_and_a_start_that_fails_ends_it_too() -> None:
    stopping, part, after = Stopping(SystemClock("UTC"), 0.1), Part(), list[bool]()
    async with AsyncExitStack() as stack:
        stack.callback(lambda: after.append(part.through))
        stopping.end_beside(stack, "part", part.stop)
    assert after == [True]


async def test_a_part_that_is_opened_after_the_stop_began_is_ended_all_the_same() -> None:
    stopping, part = Stopping(SystemClock("UTC"), 0.05), Part()
    stopping.begin()
    async with AsyncExitStack() as stack:
        stopping.end_beside(stack, "part", part.stop)
    assert part.through
