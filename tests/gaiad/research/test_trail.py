"""What a run leaves behind, and what its answer says when nobody could keep it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.trail import Trail
from gaiad.wire.schemas import ResearchRequest, SearchRequest, SearchResponse

CONFIG = load_config(environment={}).research
QUESTION = "Where is the float switch wired?"


class TurnStore:
    """A Recorder that says what went wrong, or keeps the trail."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.kept: list[Trail] = []

    def new_id(self) -> str:
        return "res_1"

    async def keep(self, trail: Trail, call: RequestContext) -> str:
        self.kept.append(trail)
        return self.trouble


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))


@pytest.fixture
def archive(memory: Any, page: Any) -> Any:
    return memory([page("The float switch is wired in series."), page("A pump hums.", "tp-2")])


async def test_every_search_stands_in_its_round_with_its_times(archive: Any, clock: FrozenClock) -> None:
    search = archive.search

    async def slowly(request: SearchRequest, call: RequestContext) -> SearchResponse:
        clock.advance(0.25)
        found: SearchResponse = await search(request, call)
        return found

    archive.search = slowly
    turn_store = TurnStore()
    query = "Which committee chose the switch and the study in March 2024?"
    result = await Researcher(archive, clock, CONFIG, turn_store).research(
        ResearchRequest(query=query), RequestContext()
    )
    (trail,) = turn_store.kept
    assert [one.number for one in trail.rounds] == list(range(1, result.iterations_used + 1))
    assert [search.iteration for search in trail.searches] == [one.number for one in trail.rounds]
    assert all((one.completed_at - one.started_at).total_seconds() == 0.25 for one in trail.searches)
    assert trail.rounds[-1].refinements == tuple(result.parameters["refinements"])
    assert trail.searches[0].packet_ids == ["tp-1"]
    assert trail.result == result
    assert trail.status == "complete"


async def test_an_answer_that_could_not_be_kept_says_why_and_names_no_run(archive: Any, clock: FrozenClock) -> None:
    researcher = Researcher(archive, clock, CONFIG, TurnStore("the disk is full"))
    result = await researcher.research(ResearchRequest(query=QUESTION), RequestContext())
    assert result.status == "SUCCESS"
    assert result.research_id == ""
    assert result.degraded == ["the run was not kept: the disk is full"]


async def test_a_run_that_is_not_to_be_kept_leaves_nothing(archive: Any, clock: FrozenClock) -> None:
    turn_store = TurnStore()
    result = await Researcher(archive, clock, CONFIG, turn_store).research(
        ResearchRequest(query=QUESTION), RequestContext(), keep=False
    )
    assert (result.research_id, turn_store.kept) == ("", [])


async def test_a_run_that_broke_off_is_kept_and_one_that_never_began_is_not(archive: Any, clock: FrozenClock) -> None:
    turn_store = TurnStore()
    researcher = Researcher(archive, clock, CONFIG, turn_store)
    with pytest.raises(BadInput):
        await researcher.research(ResearchRequest(query=QUESTION, now="tomorrow"), RequestContext())
    assert turn_store.kept == []
    with pytest.raises(DeadlineExceeded):
        await researcher.research(ResearchRequest(query=QUESTION), RequestContext(deadline=-1.0))
    (trail,) = turn_store.kept
    assert (trail.status, trail.error) == ("failed", "the call's deadline passed")


async def test_a_run_that_broke_off_by_a_mistake_in_here_is_kept_as_failed(
    archive: Any, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object, **__: object) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr("gaiad.research.choosing.of_that_time", mistaken)
    turn_store = TurnStore()
    with pytest.raises(OverflowError):
        await Researcher(archive, clock, CONFIG, turn_store).research(ResearchRequest(query=QUESTION), RequestContext())
    (trail,) = turn_store.kept
    assert (trail.status, trail.error) == ("failed", "unexpected OverflowError")
