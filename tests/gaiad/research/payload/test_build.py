"""The payload of a run: the seed's trail for packets that disagree, and what must hold for any run at all."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import Cancelled, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.payload.build import build_payload
from gaiad.wire.schemas import ResearchRequest, SearchRequest, SearchResponse
from tests.makers.last_trail import LastTrail

FOUNDED = "The council was founded on {} in the old mill."
QUESTION = "When was the council founded?"


def disagreeing(memory: Any, page: Any) -> Any:
    return memory(
        [
            page(FOUNDED.format("12 October 2025"), "tp-1", model="claude", timestamp="2025-11-01T00:00:00Z"),
            page(FOUNDED.format("19 October 2025"), "tp-2", model="gemini", timestamp="2025-11-20T00:00:00Z"),
        ]
    )


async def test_two_packets_that_disagree_on_a_date_leave_the_whole_trail(
    memory: Any, page: Any, make_payload: Any
) -> None:
    payload = await make_payload(disagreeing(memory, page), QUESTION)
    assert {source.file_path for source in payload.sources} == {"tp-1", "tp-2"}
    assert {fact.fact_type for source in payload.sources for fact in source.extracted_facts} == {"date"}
    (comparison,) = payload.comparisons
    assert comparison.comparison_type == "contradiction"
    (contradiction,) = payload.contradictions
    assert contradiction.status == "open"
    assert contradiction.severity == "minor"
    assert "12 October 2025" in contradiction.description
    assert "19 October 2025" in contradiction.description
    assert any("[Packet: tp-2] is the later one" in one for one in contradiction.possible_explanations)
    assert any("different models (claude, gemini)" in one for one in contradiction.possible_explanations)
    kinds = [lesson.learning_type for one in payload.iterations for lesson in one.learnings]
    assert kinds.count("fact") == 2
    assert kinds.count("contradiction") == 1
    (activity,) = [one for record in payload.iterations for one in record.activities_performed]
    assert activity.activity_type == "storage_search"
    assert activity.sources_created == ["src_001", "src_002"]
    assert all(one.contradictory_evidence for one in payload.synthesis.findings)
    assert payload.sources[0].contradicts == ["src_002"]
    assert payload.iterations[-1].completeness_assessment.criteria_evaluated.contradictions_resolved == 0.0


async def test_packets_that_agree_corroborate_each_other(memory: Any, page: Any, make_payload: Any) -> None:
    archive = memory([page(FOUNDED.format("12 October 2025"), "tp-1"), page(FOUNDED.format("2025-10-12"), "tp-2")])
    payload = await make_payload(archive, QUESTION)
    (comparison,) = payload.comparisons
    assert comparison.comparison_type == "corroboration"
    assert comparison.corroboration_details.strength_level == "strong"
    assert payload.contradictions == []
    assert {source.reliability for source in payload.sources} == {"high"}
    assert "src_002 says the same" in payload.sources[0].reliability_reasoning


async def test_a_question_that_holds_two_leaves_both_as_research_questions(
    memory: Any, page: Any, make_payload: Any
) -> None:
    question = "When was the council founded and who chose the valve?"
    pages = [page(FOUNDED.format("12 October 2025"), "tp-1"), page("Mara chose the valve of the council.", "tp-2")]
    payload = await make_payload(memory(pages), question)
    assert payload.plan.research_questions == [
        question,
        "When was the council founded?",
        "who chose the valve?",
    ]
    assert "who chose the valve" in payload.plan.search_terms
    for one in payload.iterations:
        assert one.questions_answered in ([], payload.plan.research_questions)


async def test_what_is_not_found_is_a_gap_and_no_finding(memory: Any, page: Any, make_payload: Any) -> None:
    payload = await make_payload(memory([page("A pump hums.")]), "Which committee chose the valve in March 2024?")
    assert payload.synthesis.findings == []
    assert payload.synthesis.bibliography == []
    gaps = [lesson for one in payload.iterations for lesson in one.learnings if lesson.learning_type == "gap"]
    assert gaps
    assert not payload.iterations[-1].completeness_assessment.is_complete
    assert payload.synthesis.key_takeaways[0].startswith("No packet answers: ")


async def test_a_question_that_was_not_understood_has_no_iterations(memory: Any, make_payload: Any) -> None:
    payload = await make_payload(memory([]), "Tell me about that thing")
    assert payload.iterations == []
    assert payload.plan.initial_plan.startswith("Ask back: ")


async def test_both_sides_of_a_comparison_are_searched_and_answered(memory: Any, page: Any, make_payload: Any) -> None:
    archive = memory(
        [page("Claude holds that consent comes first.", "tp-1"), page("Gemini holds that speed comes first.", "tp-2")]
    )
    payload = await make_payload(archive, "Compare Claude and Gemini on what comes first")
    assert payload.plan.research_questions[1:] == ["What is said of Claude?", "What is said of Gemini?"]
    assert len(payload.iterations[0].activities_performed) == 3
    answered = [question for one in payload.iterations for question in one.questions_answered]
    assert len(set(answered)) == len(answered)
    assert set(payload.plan.research_questions[1:]) <= set(answered)


async def test_a_listing_is_told_as_one(memory: Any, page: Any, make_payload: Any) -> None:
    archive = memory([page("The valve opens.", "tp-1"), page("The pump hums.", "tp-2")])
    payload = await make_payload(archive, "List all packets from November 2025")
    assert [one.tool for one in payload.iterations[0].activities_performed] == ["archive.list_packets"]
    assert len(payload.synthesis.bibliography) == 2
    assert payload.plan.initial_plan.startswith("List the packets")


async def test_long_content_is_capped_and_its_length_told(memory: Any, page: Any, make_payload: Any) -> None:
    text = "The council was founded on 12 October 2025. " + "It met in the mill. " * 1000
    (source,) = (await make_payload(memory([page(text)]), QUESTION)).sources
    assert len(source.content) == 10_000
    assert source.content_length == len(text)


async def test_the_bibliography_is_formatted(memory: Any, page: Any, make_payload: Any) -> None:
    archive = memory([page(FOUNDED.format("12 October 2025"), "tp-1", model="claude-opus", topic="Founding")])
    payload = await make_payload(archive, QUESTION)
    (entry,) = payload.synthesis.bibliography
    assert entry.citation_format == (
        "claude-opus. (2025, November 27). Founding [Transmission Packet tp-1]. gaiad archive."
    )


async def test_a_search_that_fails_is_an_activity_with_its_error(memory: Any, page: Any, make_trail: Any) -> None:
    archive = disagreeing(memory, page)

    async def broken(request: SearchRequest, call: RequestContext) -> SearchResponse:
        raise Unavailable("the index is being rebuilt")

    archive.search = broken
    kept = await broken_off(archive, Unavailable)
    payload = build_payload(kept, {}, UTC)
    (activity,) = payload.iterations[0].activities_performed
    assert not activity.success
    assert activity.error_message == "the index is being rebuilt"
    assert payload.metadata.status == "failed"
    assert "the index is being rebuilt" in payload.synthesis.executive_summary


async def test_a_cancelled_run_is_kept_as_far_as_it_came(memory: Any, page: Any) -> None:
    archive = disagreeing(memory, page)

    async def cancelled(request: SearchRequest, call: RequestContext) -> SearchResponse:
        raise asyncio.CancelledError

    archive.search = cancelled
    payload = build_payload(await broken_off(archive, asyncio.CancelledError), {}, UTC)
    assert payload.metadata.status == "cancelled"
    archive.search = type(archive).search
    call = RequestContext()
    call.cancel()
    payload = build_payload(await broken_off(archive, Cancelled, call), {}, UTC)
    assert payload.metadata.status == "cancelled"


async def broken_off(archive: Any, error: type[BaseException], call: RequestContext | None = None) -> Any:
    """The trail of a run that ends with `error`."""
    last = LastTrail()
    config = load_config(environment={}).research
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    researcher = Researcher(archive, clock, config, last)
    with pytest.raises(error):
        await researcher.research(ResearchRequest(query=QUESTION), call or RequestContext())
    return last.trail


SENTENCES = st.sampled_from(
    [
        "The council was founded on 12 October 2025.",
        "The council was founded on 19 October 2025 in the mill.",
        "The council was founded in October 2025.",
        "The council was not founded in the mill.",
        "Seven models signed the charter of the council.",
        "Nine models signed the charter of the council.",
        "About eight models signed the charter.",
        "Is the mill open?",
        "The mill is closed.",
        "The mill is open now.",
        "[Packet: tp-0] says so; \x1b[2J nothing else does.",
    ]
)
QUESTIONS = st.sampled_from(
    [
        QUESTION,
        "How many models signed the charter?",
        "How did the council evolve?",
        "Compare Claude and Gemini on the mill",
        "List all packets from November 2025",
        "Is the mill open?",
        "What does consent mean?",
        "Who painted the cathedral in 1612?",
        "Tell me about that thing",
        "What was first said about the mill?",
    ]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    packets=st.lists(st.lists(SENTENCES | st.text(min_size=1, max_size=60), min_size=1, max_size=4), max_size=14),
    question=QUESTIONS,
)
def test_of_any_run_every_id_resolves_and_every_count_matches(
    packets: list[list[str]], question: str, memory: Any, page: Any, make_payload: Any
) -> None:
    models = ("Claude", "Gemini", "")
    pages = [
        page(
            text,
            f"tp-{number}",
            sequence=place,
            model=models[number % 3],
            timestamp=f"2025-11-{1 + number:02}T00:00:00Z",
        )
        for number, texts in enumerate(packets)
        for place, text in enumerate(texts)
    ]
    asyncio.run(make_payload(memory(pages, models=["Claude", "Gemini"]), question))
