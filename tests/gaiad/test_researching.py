"""Research that goes on by itself: it is followed by its id, can be broken off, and is bounded."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from gaiad.clock import SystemClock
from gaiad.config import Config
from gaiad.errors import Unavailable
from gaiad.ports import Call
from gaiad.researching import AT_ONCE, Researching
from gaiad.schemas import ResearchRequest, ResearchResult


class SlowResearcher:
    """Searches until its call is cancelled, as the researcher does between two steps."""

    def __init__(self) -> None:
        self.clock = SystemClock()

    async def research(self, request: ResearchRequest, call: Call, tell: Any, *, research_id: str) -> ResearchResult:
        tell("searching", {"query": request.query})
        while True:
            await asyncio.sleep(0.01)
            call.check(self.clock.monotonic())


@pytest.fixture
async def researching(tmp_path: Path, config: Config) -> AsyncIterator[Researching]:
    opened = Researching(tmp_path, config.research, SystemClock(), cast(Any, None))
    opened.researcher = cast(Any, SlowResearcher())
    yield opened
    await opened.close()


def begin(researching: Researching, call: Call) -> str:
    request = ResearchRequest(query="who?")
    return researching.start(call, lambda research_id: researching.research(request, call, research_id=research_id))


async def told(researching: Researching, research_id: str, tenant: str = "local") -> list[str]:
    return [event.name async for event in await researching.follow(research_id, 0, Call(tenant))]


async def test_a_begun_run_is_followed_from_its_first_step_and_ends_when_it_is_broken_off(
    researching: Researching,
) -> None:
    research_id = begin(researching, Call("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.05)
    assert not following.done()
    assert researching.cancel(research_id, Call("local"))
    assert await asyncio.wait_for(following, 30) == ["started", "searching", "error"]
    await asyncio.sleep(0)
    assert not researching.cancel(research_id, Call("local"))


async def test_a_run_of_another_tenant_cannot_be_broken_off(researching: Researching) -> None:
    research_id = begin(researching, Call("local"))
    assert not researching.cancel(research_id, Call("work"))
    assert researching.cancel(research_id, Call("local"))


async def test_more_than_so_many_at_once_are_refused_until_one_ends(researching: Researching) -> None:
    begun = [begin(researching, Call("local")) for _ in range(AT_ONCE)]
    with pytest.raises(Unavailable, match="research runs are under way"):
        begin(researching, Call("local"))
    researching.cancel(begun[0], Call("local"))
    await told(researching, begun[0])
    await asyncio.sleep(0.02)
    begin(researching, Call("local"))


async def test_a_stop_ends_what_goes_on_by_itself_and_who_follows_it(researching: Researching) -> None:
    research_id = begin(researching, Call("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.02)
    await asyncio.wait_for(researching.close(), 30)
    assert (await asyncio.wait_for(following, 30))[-1] == "error"
