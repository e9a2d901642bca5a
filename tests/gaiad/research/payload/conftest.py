"""Runs over a small archive in memory, with their payloads; what must hold of any payload that gaiad writes."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.payload.build import build_payload
from gaiad.research.payload.material import Packet, choose_packets
from gaiad.research.trail import Trail
from gaiad.wire.research import CONTENT_MAX, ResearchAgentPayload
from gaiad.wire.schemas import ResearchRequest
from tests.makers.last_trail import LastTrail

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
CONFIG = load_config(environment={}).research


async def payload_of(
    archive: Any, query: str, call: RequestContext | None = None, **fields: Any
) -> ResearchAgentPayload:
    """The payload of one run, checked; an error of the run is raised only when it left no trail."""
    trail = await trail_of(archive, query, call, **fields)
    payload = build_payload(trail, await packets_of(archive, trail), UTC)
    check(payload, trail)
    return payload


async def trail_of(archive: Any, query: str, call: RequestContext | None = None, **fields: Any) -> Trail:
    last = LastTrail()
    researcher = Researcher(archive, CLOCK, CONFIG, last)
    await researcher.research(ResearchRequest(query=query, **fields), call or RequestContext())
    trail: Trail = last.trail
    return trail


async def packets_of(archive: Any, trail: Trail) -> dict[str, Packet]:
    found = {}
    for packet_id in choose_packets(trail):
        (summary,) = await archive.packet_summaries([packet_id], RequestContext())
        found[packet_id] = Packet(
            summary, tuple(await archive.section_pages(packet_id, "full_context", RequestContext()))
        )
    return found


def check(payload: ResearchAgentPayload, trail: Trail) -> None:
    """Every id resolves, every count matches, every score is one."""
    check_counts(payload, trail)
    check_ids(payload)
    check_scores(msgspec.to_builtins(payload))
    assert msgspec.json.decode(msgspec.json.encode(payload), type=ResearchAgentPayload) == payload


def check_counts(payload: ResearchAgentPayload, trail: Trail) -> None:
    meta, rounds = payload.metadata, payload.iterations
    assert meta.iteration_count == len(rounds) == len(trail.rounds)
    assert meta.total_sources_gathered == len(payload.sources)
    assert meta.contradictions_found == len(payload.contradictions)
    assert [one.iteration_number for one in rounds] == list(range(1, len(rounds) + 1))
    assert sum(len(one.activities_performed) for one in rounds) == len(trail.searches)
    assert 3 <= len(payload.synthesis.key_takeaways) <= 5
    for source in payload.sources:
        assert source.source_type == "storage"
        assert len(source.content) == min(source.content_length, CONTENT_MAX)
        assert source.source_id in rounds[source.gathering_iteration - 1].sources_gathered
    for one in rounds:
        assert one.duration_seconds >= 0
        created = [s for activity in one.activities_performed for s in activity.sources_created or ()]
        assert sorted(created) == sorted(one.sources_gathered)


def check_ids(payload: ResearchAgentPayload) -> None:
    sources = _ids("src_", [one.source_id for one in payload.sources])
    facts = _ids("fact_", [fact.fact_id for one in payload.sources for fact in one.extracted_facts])
    comparisons = _ids("cmp_", [one.comparison_id for one in payload.comparisons])
    contradictions = _ids("con_", [one.contradiction_id for one in payload.contradictions])
    lessons = [lesson for one in payload.iterations for lesson in one.learnings]
    learned = _ids("learn_", [lesson.learning_id for lesson in lessons])
    findings = _ids("finding_", [one.finding_id for one in payload.synthesis.findings])
    _ids("act_", [one.activity_id for record in payload.iterations for one in record.activities_performed])
    assert payload.metadata.research_id.startswith("res_")
    for source in payload.sources:
        assert set(source.contradicts) | set(source.corroborates) <= set(source.compared_with) <= sources
        assert all(set(fact.related_fact_ids) <= facts for fact in source.extracted_facts)
    for comparison in payload.comparisons:
        assert {comparison.source_a, comparison.source_b} <= sources
        assert (comparison.comparison_type == "contradiction") == bool(comparison.contradiction_details)
        assert (comparison.comparison_type == "corroboration") == bool(comparison.corroboration_details)
        if comparison.contradiction_details:
            assert comparison.contradiction_details.contradiction_id in contradictions
            assert set(comparison.contradiction_details.conflicting_fact_ids) <= facts
        if comparison.corroboration_details:
            assert set(comparison.corroboration_details.shared_facts) <= facts
    for contradiction in payload.contradictions:
        assert set(contradiction.sources_involved) <= sources
        assert set(contradiction.conflicting_facts) <= facts
    assert {one.contradiction_id for one in payload.synthesis.contradictions} == contradictions
    performed = [one for record in payload.iterations for one in record.comparisons_performed]
    assert sorted(performed) == sorted(comparisons)
    for lesson in lessons:
        assert set(lesson.supporting_sources) <= sources
        assert set(lesson.related_learnings) <= learned
    book = {one.source_id for one in payload.synthesis.bibliography}
    assert book <= sources
    for finding in payload.synthesis.findings:
        assert {one.source_id for one in finding.supporting_sources} <= book
        assert set(finding.related_findings) <= findings


def _ids(prefix: str, found: Sequence[str]) -> set[str]:
    assert all(one.startswith(prefix) for one in found)
    assert len(set(found)) == len(found)
    return set(found)


_SCORES = {"confidence", "relevance", "relevanceScore", "completenessScore", "confidenceLevel"}


def check_scores(part: Any, name: str = "") -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            assert key not in _SCORES or 0 <= value <= 1, (key, value)
            assert name != "criteriaEvaluated" or 0 <= value <= 1, (key, value)
            check_scores(value, key)
    elif isinstance(part, list):
        for one in part:
            check_scores(one)


@pytest.fixture
def make_payload() -> Callable[..., Any]:
    """The checked payload of one question to an archive."""
    return payload_of


@pytest.fixture
def make_trail() -> Callable[..., Any]:
    return trail_of
