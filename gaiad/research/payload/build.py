"""A run's trail and the packets it found, made into the research payload (PAYLOAD). Pure.

What is counted is there, what is named by an id is in the payload, and every search is an activity: the tests hold it
for any run.
"""

from collections.abc import Mapping, Sequence
from datetime import tzinfo

from gaiad.clock import to_iso
from gaiad.payload_schemas import IterationRecord, ResearchAgentPayload, ResearchMetadata, ResearchPlan
from gaiad.research.hops import parts
from gaiad.research.payload.closing import close
from gaiad.research.payload.comparing import compare_sources, comparison_records, contradiction_records
from gaiad.research.payload.facts import find_facts
from gaiad.research.payload.iterations import Ground, iteration_records
from gaiad.research.payload.material import Packet, read_material
from gaiad.research.payload.sources import source_records
from gaiad.research.query import Kind, SearchParameters
from gaiad.research.trail import Trail

_APPROACH: dict[Kind, str] = {
    "factual": "Quote the one place that says it; look further only when that is not enough.",
    "evolution": "Quote several places in the order of time.",
    "comparative": "Search for both sides by themselves, then set what is quoted side by side.",
    "conceptual": "Quote several places and name what they have in common.",
    "listing": "Filter exactly and list every packet once, in order of time.",
}


def build_payload(trail: Trail, packets: Mapping[str, Packet], zone: tzinfo) -> ResearchAgentPayload:
    """`packets` by id: those of `choose_packets(trail)` that the archive still has. Days are those of `zone`."""
    sources = read_material(trail, packets)
    facts = {source.source_id: find_facts(source, trail.terms, zone) for source in sources}
    pairs = compare_sources(sources, facts)
    contradictions = contradiction_records(pairs, zone)
    ground = Ground(
        trail=trail,
        sources=sources,
        facts=facts,
        pairs=pairs,
        comparisons=comparison_records(pairs, {n: one.contradiction_id for n, one in contradictions.items()}),
        questions=_questions(trail),
        zone=zone,
    )
    iterations = iteration_records(ground)
    return ResearchAgentPayload(
        metadata=_metadata(ground, iterations, len(contradictions)),
        plan=_plan(ground),
        sources=source_records(sources, facts, pairs, zone),
        comparisons=ground.comparisons,
        contradictions=list(contradictions.values()),
        iterations=iterations,
        synthesis=close(ground, list(contradictions.values())),
    )


def _questions(trail: Trail) -> list[str]:
    """The question, and one for each side of a comparison, or for each of several that it holds."""
    if trail.parameters is None:
        return [trail.request.query]
    sides = [f"What is said of {subject}?" for subject in trail.parameters.subjects]
    held = [] if sides else [f"{part}?" for part in parts(trail.parameters.search_text)]
    return list(dict.fromkeys([trail.request.query, *sides, *held]))


def _metadata(ground: Ground, iterations: Sequence[IterationRecord], contradictions: int) -> ResearchMetadata:
    trail = ground.trail
    return ResearchMetadata(
        research_id=trail.research_id,
        research_goal=trail.request.query,
        started_at=to_iso(trail.started_at),
        last_updated_at=to_iso(trail.ended_at),
        status=trail.status,
        iteration_count=len(iterations),
        total_sources_gathered=len(ground.sources),
        contradictions_found=contradictions,
        completeness_score=iterations[-1].completeness_assessment.completeness_score if iterations else 0.0,
    )


def _plan(ground: Ground) -> ResearchPlan:
    trail = ground.trail
    parameters = trail.parameters
    refinements = list(trail.rounds[-1].refinements) if trail.rounds else []
    initial = _initial_plan(parameters)
    searched = [action.query for one in trail.rounds for action in one.plan]
    terms = [query for query in (*(one.query for one in trail.rounds), *searched) if query]
    return ResearchPlan(
        initial_plan=initial,
        current_plan="; then ".join([initial, *refinements]),
        research_questions=ground.questions,
        sources_identified=["storage"],
        search_terms=list(dict.fromkeys([*terms, *(parameters.keywords if parameters else ())])),
        strategic_approach=_APPROACH[parameters.kind] if parameters else "",
        last_modified=to_iso(trail.rounds[-1].started_at if trail.rounds else trail.started_at),
    )


def _initial_plan(parameters: SearchParameters | None) -> str:
    """What the question was read as, in words."""
    if parameters is None:
        return "Read the question"
    if parameters.ambiguous:
        return f"Ask back: {parameters.ambiguous}"
    if parameters.kind == "listing":
        return f"List the packets{_bounds(parameters)}"
    sides = f", and for {' and '.join(parameters.subjects)} by themselves" if parameters.subjects else ""
    return f'Search the archive by words and by meaning for "{parameters.search_text}"{sides}{_bounds(parameters)}'


def _bounds(parameters: SearchParameters) -> str:
    bounds = [
        *([parameters.date_text] if parameters.date_text else []),
        *([f"of {', '.join(parameters.models)}"] if parameters.models else []),
        *([f"on {', '.join(parameters.topics)}"] if parameters.topics else []),
        *([f"with {', '.join(metric.name for metric in parameters.metrics)}"] if parameters.metrics else []),
    ]
    if not bounds:
        return ""
    return f" {', '.join(bounds)}" if parameters.kind == "listing" else f", first those {', '.join(bounds)}"
