"""Lives of a daemon with an initiative, over one home."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from tests.makers.initiative_house import House


@pytest.fixture
async def build(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Callable[[], Awaitable[House]]]:
    """Opens one life after another over the same home; the earlier ones must be closed by the test."""
    async with AsyncExitStack() as stack:

        async def make() -> House:
            made = House(tmp_path, clock)
            stack.push_async_callback(made.stack.aclose)
            return await made.open()

        yield make


@pytest.fixture
async def house(build: Callable[[], Awaitable[House]]) -> House:
    return await build()
