"""The parts of a payload by themselves: text, kinds of facts, reliability, completeness, citations."""

from datetime import UTC
from typing import Any

import pytest
from msgspec.structs import replace

from gaiad.research.assertions import read_assertion
from gaiad.research.payload.build import format_citation
from gaiad.research.payload.iterations import WEIGHTS, activities, completeness, measure
from gaiad.research.payload.material import (
    SOURCES_MAX,
    Packet,
    choose_packets,
    fact_type,
    find_facts,
    read_material,
    whole_text,
)
from gaiad.research.payload.sources import source_records

QUESTION = "When was the council founded?"


def test_what_neighbouring_pages_share_stands_once(page: Any) -> None:
    first, second = page("one two three", start=0, end=13), page("three four", start=8, end=18)
    assert whole_text([first, second]) == "one two three four"
    assert whole_text([first, replace(second, path="body/summary")]) == "one two three\n\nthree four"
    assert whole_text([page("la la la", start=0, end=8), page("la la la", start=6, end=14)]) == "la la la la la"
    assert whole_text([]) == ""


@pytest.mark.parametrize(
    ("text", "speaker", "kind"),
    [
        ("The tank holds 400 litres.", "", "statistic"),
        ("The council was founded on 12 October 2025.", "", "date"),
        ("RTC is the protocol of recursive context.", "", "definition"),
        ("The valve failed because of frost.", "", "relationship"),
        ("Consent comes first.", "Mara", "quote"),
        ("Consent comes first.", "", "claim"),
    ],
)
def test_a_fact_is_of_the_kind_that_its_words_make_it(page: Any, text: str, speaker: str, kind: str) -> None:
    assert fact_type(read_assertion(text), page(text, speaker=speaker)) == kind


async def test_quoted_sentences_are_the_surest_facts(memory: Any, page: Any, make_trail: Any) -> None:
    text = "The council was founded on 12 October 2025. Nobody founded the council before. Thanks!"
    trail = await make_trail(memory([page(text)]), QUESTION)
    (summary,) = await memory([page(text)]).packet_summaries(["tp-1"], None)
    (source,) = read_material(trail, {"tp-1": Packet(summary, (page(text),))})
    facts = find_facts(source, trail.terms, UTC)
    assert facts[0].confidence == 0.95
    assert [fact.fact_id for fact in facts] == [f"fact_001_{number}" for number in range(1, len(facts) + 1)]
    assert all(fact.page.text[fact.start : fact.end] == fact.text for fact in facts)
    assert "Thanks!" not in {fact.text for fact in facts}
    assert all(0.5 <= fact.confidence <= 0.95 for fact in facts)


async def test_a_broken_packet_is_less_reliable_than_a_verified_one(memory: Any, page: Any, make_trail: Any) -> None:
    archive = memory([page("The council was founded on 12 October 2025.")])
    trail = await make_trail(archive, QUESTION)
    levels = {}
    for integrity in ("verified", "unverifiable", "broken"):
        (summary,) = await archive.packet_summaries(["tp-1"], None)
        kept = Packet(replace(summary, integrity=integrity), tuple(archive.stored.values()))
        sources = read_material(trail, {"tp-1": kept})
        (record,) = source_records(sources, {one.source_id: [] for one in sources}, [], UTC)
        levels[integrity] = record.reliability
    assert levels == {"verified": "high", "unverifiable": "medium", "broken": "low"}


async def test_what_was_cited_is_a_source_before_all_others(memory: Any, page: Any, make_trail: Any) -> None:
    pages = [page(f"The council of house {number} was founded there.", f"tp-{number}") for number in range(30)]
    trail = await make_trail(memory(pages), QUESTION)
    chosen = choose_packets(trail)
    assert trail.result is not None
    assert chosen[: len(trail.result.source_packets)] == trail.result.source_packets
    assert len(chosen) == len(set(chosen)) == SOURCES_MAX


async def test_an_activity_shows_what_was_asked_beyond_the_usual(memory: Any, page: Any, make_trail: Any) -> None:
    trail = await make_trail(memory([page("The council was founded on 12 October 2025.")]), QUESTION)
    (activity,) = activities(trail.searches, [])
    assert activity.parameters == {
        "query": "When was the council founded?",
        "limit": 24,
        "adjacent": 1,
        "explain": True,
    }
    assert activity.result_summary == "Pages: 1, of packets: 1, new sources: 0"


async def test_a_look_up_by_ids_names_them(memory: Any, page: Any, make_trail: Any) -> None:
    trail = await make_trail(memory([page("The council was founded on 12 October 2025.")]), QUESTION)
    (search,) = trail.searches
    search.request = replace(search.request, mode="page_id", query="", page_ids=["p-1", "p-2"])
    assert activities([search], [])[0].description == "Look up by their ids the pages p-1, p-2"


def test_completeness_is_the_weighted_mean_and_nothing_without_sources() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    nothing = measure(answered=0.0, kind="factual", sources=[], facts=[], pairs=[], confidence=0.0)
    assert completeness(nothing) == 0.0
    everything = replace(
        nothing,
        questions_answered=1.0,
        source_diversity=1.0,
        source_quantity=1.0,
        fact_corroboration=1.0,
        confidence_in_findings=1.0,
    )
    assert completeness(everything) == 1.0
    assert completeness(replace(everything, contradictions_resolved=0.0)) == pytest.approx(0.9)


async def test_a_packet_without_author_or_date_can_be_cited(memory: Any, page: Any, make_trail: Any) -> None:
    archive = memory([page("The council was founded on 12 October 2025.")])
    trail = await make_trail(archive, QUESTION)
    (summary,) = await archive.packet_summaries(["tp-1"], None)
    bare = replace(summary, timestamp="", model="", topic="")
    (source,) = read_material(trail, {"tp-1": Packet(bare, tuple(archive.stored.values()))})
    assert format_citation(source, UTC) == "Unknown. (n.d.). Untitled [Transmission Packet tp-1]. gaiad archive."
