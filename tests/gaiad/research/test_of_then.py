"""What is asked of a day or a month is told from then."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest, ResearchResult

STOVE = "We decided on November 3 to heat the greenhouse with a wood stove."
PLANTS = "For the greenhouse we decided on tomatoes, figs and a lemon tree."
BICYCLE = "Otto repaired the gear hub of the bicycle."


async def answer_to(memory: Any, page: Any, query: str) -> ResearchResult:
    pages = [
        page(STOVE, timestamp="2025-11-03T09:00:00Z"),
        page(PLANTS, "tp-2", timestamp="2025-12-05T09:00:00Z"),
        page(BICYCLE, "tp-3", timestamp="2025-12-10T09:00:00Z"),
    ]
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    research = Researcher(memory(pages), clock, load_config(environment={}).research)
    return await research.research(ResearchRequest(query=query), RequestContext())


@pytest.mark.parametrize("when", ["in December", "since December", "after November 18"])
async def test_what_was_decided_then_is_told(memory: Any, page: Any, when: str) -> None:
    answer = await answer_to(memory, page, f"What did we decide about the greenhouse {when}?")
    assert (answer.status, answer.source_packets) == ("SUCCESS", ["tp-2"])
    assert "Nothing found" not in answer.note


async def test_the_word_of_deciding_is_never_missing(memory: Any, page: Any) -> None:
    answer = await answer_to(memory, page, "What did we conclude about the gear hub?")
    assert answer.source_packets == ["tp-3"]
    assert answer.missing_aspects == []


async def test_nothing_in_the_period_is_said_when_the_matter_is_of_another_time(memory: Any, page: Any) -> None:
    answer = await answer_to(memory, page, "What did we decide about the greenhouse in September?")
    assert answer.status == "PARTIAL"
    assert "Nothing found in September" in answer.note


async def test_a_page_of_then_with_the_words_goes_before_a_nearer_one_of_another_time(memory: Any, page: Any) -> None:
    early, late = {"timestamp": "2025-11-03T09:00:00Z"}, {"timestamp": "2025-12-05T09:00:00Z"}
    pages = [
        page("The glass of the greenhouse came from Porto.", **early),
        page("Glass, greenhouse: paid.", "tp-2", **late),
    ]
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    archive = memory(pages, {"tp-1/0": 0.9, "tp-2/0": 0.5})
    research = Researcher(archive, clock, load_config(environment={}).research)
    request = ResearchRequest(query="And the glass for the greenhouse in December?")
    assert (await research.research(request, RequestContext())).source_packets == ["tp-2"]


async def test_a_period_without_a_packet_is_named_beside_what_the_archive_holds(memory: Any, page: Any) -> None:
    answer = await answer_to(memory, page, "Which ship sank in April 2023?")
    assert answer.status == "NOT_FOUND"
    assert answer.note.startswith("Missing: packets in April 2023; the archive holds 2025-11-03 to 2025-12-10.")


async def test_what_is_counted_is_told_with_its_number(memory: Any, page: Any) -> None:
    pages = [page("The risks of the crane are:\n- Wind\n- Rust\n- Late steel", section="content")]
    research = Researcher(
        memory(pages), FrozenClock(datetime(2026, 1, 15, tzinfo=UTC)), load_config(environment={}).research
    )
    answer = await research.research(ResearchRequest(query="How many risks has the crane?"), RequestContext())
    assert answer.answer.startswith("3 risks listed:")
    assert [one.quote for one in answer.citations] == [pages[0].text]


async def test_what_was_done_in_a_period_is_never_told_of_another_time(memory: Any, page: Any) -> None:
    pages = [
        page("We decided to sell the boat.", "tp-1", timestamp="2025-05-03T10:00:00Z"),
        page("The tram was late.", "tp-2", timestamp="2025-03-04T10:00:00Z"),
    ]
    clock = FrozenClock(datetime(2025, 6, 1, tzinfo=UTC))
    researcher = Researcher(memory(pages), clock, load_config((), {}).research)
    in_march = await researcher.research(ResearchRequest(query="What did we decide in March 2025?"), RequestContext())
    assert (in_march.status, "boat" in in_march.answer) == ("NOT_FOUND", False)
    assert in_march.answer.startswith("Nothing on file says so in March 2025. From that time:")
    assert "tp-2" in in_march.answer
    in_may = await researcher.research(ResearchRequest(query="What did we decide in May 2025?"), RequestContext())
    assert in_may.source_packets == ["tp-1"]
