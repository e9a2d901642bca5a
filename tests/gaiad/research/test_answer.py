"""What is said beside an answer: why it is not surely right."""

from datetime import UTC, datetime
from typing import Any

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest, ResearchResult

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
SWITCH = "The float switch is wired in series with the supply of both valves."
WIRED = "Where is the float switch wired?"


async def answer_to(archive: Any, question: str = WIRED) -> ResearchResult:
    return await Researcher(archive, CLOCK, load_config((), {}).research).research(
        ResearchRequest(query=question), RequestContext()
    )


async def test_of_packets_that_say_alike_the_one_that_says_where_is_cited(memory: Any, page: Any) -> None:
    others = [page("The float switch is wired by Mara.", f"tp-{number}") for number in range(2, 6)]
    nearness = {"tp-1/0": 0.6} | {one.page_id: 0.55 for one in others}
    result = await answer_to(memory([page(SWITCH), *others], cosines=nearness))
    assert result.source_packets == ["tp-1"]


async def test_a_sure_answer_gives_no_reason(memory: Any, page: Any) -> None:
    result = await answer_to(memory([page(SWITCH)]))
    assert (result.confidence_band, "mainly because" in result.note) == ("HIGH", False)


async def test_a_contradiction_is_told_as_the_reason(memory: Any, page: Any) -> None:
    founded = "The council was founded on {} in the old mill."
    archive = memory([page(founded.format("12 October 2025")), page(founded.format("19 October 2025"), "tp-2")])
    result = await answer_to(archive, "When was the council founded?")
    assert f"Confidence {result.confidence:.2f}, mainly because its packets contradict each other." in result.note
