"""Which packets a fact is cited from, what is of the time asked about, and when a question names nobody known."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Evidence, Term
from gaiad.research.loop import Researcher
from gaiad.research.query import SearchParameters, about_then, process_query, told_then
from gaiad.research.reflect import evaluate_sufficiency, strangers
from gaiad.wire.schemas import Facets, ResearchRequest, ResearchResult
from tests.gaiad.research.conftest import make_page

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)


def asking(text: str, **facets: Any) -> SearchParameters:
    return process_query(text, Facets(packets=9, pages=9, **facets), NOW, UTC)


def found(packet_id: str, standing: float, text: str = "The valve is blue.", **fields: Any) -> Evidence:
    return Evidence(
        page=make_page(text, packet_id, **fields),
        credits={"valve": 1.0},
        lexical=standing,
        cosine=None,
        fused=standing,
        relevance=standing,
        standing=standing,
    )


def test_what_is_told_the_day_after_is_of_that_day() -> None:
    day = asking("What did we test on 3 May, 2025?")
    told = {moment: told_then(moment, day) for moment in ("2025-05-02T23:00:00Z", "2025-05-03T10:00:00Z")}
    assert told == {"2025-05-02T23:00:00Z": False, "2025-05-03T10:00:00Z": True}
    assert told_then("2025-05-04T20:00:00Z", day)
    assert not about_then("2025-05-05T01:00:00Z", day)
    year = asking("What did we test in 2024?")
    assert about_then("2024-06-01T00:00:00Z", year)
    assert not told_then("2024-06-01T00:00:00Z", year)
    assert not told_then("2024-06-01T00:00:00Z", asking("What did we test?"))


def term(word: str, frequency: int) -> Term:
    return Term(word=word, stem=word, weight=1.0, frequency=frequency)


def test_a_question_that_names_nobody_known_is_about_strangers() -> None:
    question = asking("What is the name of Leopoldina's dog?")
    terms = [term("name", 3), term("leopoldina", 0), term("dog", 5)]
    assert strangers(question, terms)
    assert not strangers(question, [term("leopoldina", 1), term("dog", 0)])
    assert not strangers(asking("What is the name of the dog?"), [term("dog", 0)])
    assert not strangers(asking("Did Anna meet Leopoldina?", people=["Anna"]), [term("anna", 2), term("leopoldina", 0)])
    judged = evaluate_sufficiency(question, terms, [found("a", 0.95)], [found("a", 0.95)])
    assert not judged.is_relevant


def test_why_asks_for_one_fact() -> None:
    assert asking("Why did Anna sell the boat?", people=["Anna"]).kind == "factual"
    assert asking("Why is the float switch wired in series?", people=["Anna"]).kind == "factual"


# ------------------------------------------------------------------------------------- GAM 5's table, by small packets


async def told(memory: Any, query: str, *pages: Any, models: tuple[str, ...] = ()) -> ResearchResult:
    researcher = Researcher(memory(list(pages), models=models), FrozenClock(NOW), load_config((), {}).research)
    return await researcher.research(ResearchRequest(query=query), RequestContext())


async def test_factual_recall_is_a_direct_extraction_from_a_single_packet(memory: Any, page: Any) -> None:
    result = await told(
        memory,
        "How is the float switch wired?",
        page("The float switch is wired in series with both valves.", "tp-1"),
        page("A switch of the lamp was replaced in May.", "tp-2"),
        page("The pump is wired to the board.", "tp-3"),
    )
    assert (result.kind, result.source_packets) == ("factual", ["tp-1"])
    assert result.answer == "The float switch is wired in series with both valves. [Packet: tp-1]"


async def test_temporal_evolution_is_a_chronological_narrative_across_packets(memory: Any, page: Any) -> None:
    result = await told(
        memory,
        "How has the irrigation schedule evolved?",
        page("The irrigation schedule moved to dawn.", "tp-3", timestamp="2025-09-01T08:00:00Z"),
        page("The irrigation schedule began at noon.", "tp-1", timestamp="2025-03-01T08:00:00Z"),
        page("The irrigation schedule was halved in the drought.", "tp-2", timestamp="2025-06-01T08:00:00Z"),
    )
    assert result.kind == "evolution"
    assert result.answer.splitlines() == [
        "- Mar 1, 2025: The irrigation schedule began at noon. [Packet: tp-1]",
        "- Jun 1, 2025: The irrigation schedule was halved in the drought. [Packet: tp-2]",
        "- Sep 1, 2025: The irrigation schedule moved to dawn. [Packet: tp-3]",
    ]


async def test_a_comparison_puts_both_sides_side_by_side_and_admits_a_side_that_is_missing(
    memory: Any, page: Any
) -> None:
    drip = page("Drip irrigation saves water in the beds.", "tp-1")
    spray = page("Spray irrigation cools the leaves of the beds.", "tp-2")
    both = await told(memory, "Compare drip irrigation with spray irrigation", drip, spray)
    assert both.kind == "comparative"
    first, second = both.answer.split("\n\n")[:2]
    assert first.startswith("drip irrigation:\n- ")
    assert first.endswith("Drip irrigation saves water in the beds. [Packet: tp-1]")
    assert second.startswith("spray irrigation:\n- ")
    assert "[Packet: tp-2]" in second
    one = await told(memory, "Compare drip irrigation with spray irrigation", drip)
    assert one.status in ("PARTIAL", "NOT_FOUND")
    assert "anything about spray irrigation" in one.missing_aspects


@pytest.mark.parametrize("question", ["Compare plan A and plan B", "What is the difference between A and B?"])
async def test_two_things_that_only_a_letter_tells_apart_are_compared(memory: Any, page: Any, question: str) -> None:
    tunnel = page("Plan A is the tunnel under the river; it costs nine million.", "tp-1")
    bridge = page("Plan B is a bridge over the river; it costs four million.", "tp-2")
    result = await told(memory, question, tunnel, bridge)
    first, second = result.answer.split("\n\n")[:2]
    assert first.split(":")[0].endswith("A")
    assert "tunnel" in first
    assert "bridge" not in first
    assert second.split(":")[0].endswith("B")
    assert "bridge" in second
    assert "tunnel" not in second


async def test_a_concept_is_told_by_all_packets_that_speak_of_it(memory: Any, page: Any) -> None:
    result = await told(
        memory,
        "What do you know about the greenhouse?",
        page("The greenhouse needs ventilation against mildew.", "tp-1", timestamp="2025-03-01T08:00:00Z"),
        page("Mildew came to the greenhouse although the ventilation ran.", "tp-2", timestamp="2025-04-01T08:00:00Z"),
    )
    assert result.kind == "conceptual"
    lines = result.answer.splitlines()
    assert [line.rsplit(" ", 1)[-1] for line in lines] == ["tp-1]", "tp-2]"]


async def test_contradictions_are_shown_with_both_packets(memory: Any, page: Any) -> None:
    result = await told(
        memory,
        "When was the greenhouse council founded?",
        page("The greenhouse council was founded on 12 October 2025.", "tp-1"),
        page("The council was founded on 19 October 2025, says the board of the greenhouse.", "tp-2"),
    )
    assert set(result.source_packets) == {"tp-1", "tp-2"}
    assert "disagree on a date" in result.note
    assert result.confidence_band != "HIGH"
