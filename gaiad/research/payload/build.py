"""A run's trail and the packets it found, made into the research payload (PAYLOAD). Pure.

What is counted is there, what is named by an id is in the payload, and every search is an activity: the tests hold it
for any run.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

from msgspec import UNSET, UnsetType

from gaiad.base.clock import to_iso
from gaiad.research.answer import reason_of
from gaiad.research.payload.comparing import Compared, compare_sources, comparison_records, contradiction_records
from gaiad.research.payload.iterations import Ground, iteration_records
from gaiad.research.payload.material import Material, Packet, find_facts, read_material
from gaiad.research.payload.sources import PROVIDER, source_records
from gaiad.research.query import Kind, SearchParameters
from gaiad.research.reflect import ReflectionResult
from gaiad.research.several import questions
from gaiad.research.trail import Trail
from gaiad.wire.research import (
    ContradictionRecord,
    ContradictionSummary,
    Finding,
    Importance,
    IterationRecord,
    ResearchAgentPayload,
    ResearchMetadata,
    ResearchPlan,
    ResearchSynthesis,
    SourceCitation,
)
from gaiad.wire.schemas import ResearchResult

TAKEAWAYS_FROM_FINDINGS = 3
HIGH_FROM, MEDIUM_FROM = 0.9, 0.5
_TITLE = 80
_UNKNOWN_DATE = "n.d."


def close(ground: Ground, contradictions: Sequence[ContradictionRecord]) -> ResearchSynthesis:
    """What came of a run."""
    trail = ground.trail
    findings = _findings(ground)
    open_ones = [one for one in contradictions if one.status != "resolved"]
    return ResearchSynthesis(
        executive_summary=_executive_summary(ground, open_ones),
        findings=findings,
        contradictions=[_summed_up(one) for one in open_ones],
        confidence_assessment=_confidence(trail),
        limitations=_limitations(trail),
        recommendations=_recommendations(trail, open_ones),
        key_takeaways=_takeaways(ground, findings, len(open_ones)),
        bibliography=_bibliography(ground, findings),
        generated_at=to_iso(trail.ended_at),
    )


# ------------------------------------------------------------------------------------------------------------ findings


def _findings(ground: Ground) -> list[Finding]:
    cited = [source for source in ground.sources if source.cited]
    best = max((source.relevance for source in cited), default=1.0)
    ids = {source.source_id: f"finding_{number:03}" for number, source in enumerate(cited, start=1)}
    return [_finding(ground, source, ids, best) for source in cited]


def _finding(ground: Ground, source: Material, ids: dict[str, str], best: float) -> Finding:
    beside = [pair for pair in ground.pairs if source.number in (pair.one.number, pair.other.number)]
    agreeing = [_other(pair, source) for pair in beside if pair.type == "corroboration"]
    apart = [pair for pair in beside if pair.type == "contradiction"]
    related = [_other(pair, source).source_id for pair in beside if pair.type != "independent"]
    share = source.relevance / best if best else 0.0
    confidence = ground.trail.result.confidence if ground.trail.result else 0.0
    parameters = ground.trail.parameters
    return Finding(
        finding_id=ids[source.source_id],
        title=_title(source),
        description=" ".join(" ".join(citation.quote.split()) for citation in source.cited),
        category=parameters.topics[0] if parameters and parameters.topics else parameters.kind if parameters else "",
        importance=_importance(ids[source.source_id], share),
        confidence=round(min(1.0, confidence * share), 3),
        supporting_sources=[_citation(source, quoted=True), *(_citation(other) for other in agreeing)],
        related_findings=[ids[one] for one in related if one in ids],
        contradictory_evidence=_against(apart, source),
    )


def _other(pair: Compared, source: Material) -> Material:
    return pair.other if pair.one.number == source.number else pair.one


def _title(source: Material) -> str:
    quote = " ".join(source.cited[0].quote.split())
    title = source.packet.summary.topic or quote
    return title if len(title) <= _TITLE else f"{title[: _TITLE - 3].rstrip()}..."


def _importance(finding_id: str, share: float) -> Importance:
    if finding_id == "finding_001":
        return "critical"
    if share >= HIGH_FROM:
        return "high"
    return "medium" if share >= MEDIUM_FROM else "low"


def _against(apart: Sequence[Compared], source: Material) -> str | UnsetType:
    said = []
    for pair in apart:
        held = pair.of_kind("contradiction")[0]
        its = held.other if pair.one.number == source.number else held.one
        said.append(f'[Packet: {_other(pair, source).packet_id}] says: "{its.text}"')
    return " ".join(said) or UNSET


# -------------------------------------------------------------------------------------------------------- bibliography


def _bibliography(ground: Ground, findings: Sequence[Finding]) -> list[SourceCitation]:
    """Every source that a finding stands on, in the order of the sources."""
    cited = {one.source_id for finding in findings for one in finding.supporting_sources}
    return [_citation(source, formatted_in=ground.zone) for source in ground.sources if source.source_id in cited]


def _citation(source: Material, *, quoted: bool = False, formatted_in: tzinfo | None = None) -> SourceCitation:
    return SourceCitation(
        source_id=source.source_id,
        specific_text=source.cited[0].quote if quoted else UNSET,
        relevance=source.relevance,
        citation_format=format_citation(source, formatted_in) if formatted_in else UNSET,
    )


def format_citation(source: Material, zone: tzinfo) -> str:
    """In the manner of APA: `Claude. (2025, November 27). Enumeration [Transmission Packet tp-1]. gaiad archive.`

    The day is that of `zone`.
    """
    summary = source.packet.summary
    author = summary.model or "Unknown"
    day = _UNKNOWN_DATE
    if summary.timestamp:
        moment = datetime.fromisoformat(summary.timestamp).astimezone(zone)
        day = f"{moment.year}, {moment:%B} {moment.day}"
    title = f"{summary.topic or 'Untitled'} [Transmission Packet {summary.packet_id}]"
    return f"{author.rstrip('.')}. ({day}). {title}. {PROVIDER}."


# --------------------------------------------------------------------------------------------------------------- words


def _executive_summary(ground: Ground, contradictions: Sequence[ContradictionRecord]) -> str:
    """Two or three paragraphs: the answer, what it stands on, what is open."""
    trail = ground.trail
    if trail.result is None:
        return f"The run was {trail.status}: {trail.error}\n\n{_stands_on(ground)}"
    parts = [trail.result.answer.strip(), _stands_on(ground)]
    missing = [f"Not found: {', '.join(trail.result.missing_aspects)}."] if trail.result.missing_aspects else []
    open_points = [*missing, *(f"{one.description}." for one in contradictions)]
    return "\n\n".join([*parts, *([" ".join(open_points)] if open_points else [])])


def _stands_on(ground: Ground) -> str:
    cited = sum(bool(source.cited) for source in ground.sources)
    looked, searched, rounds = len(ground.sources), len(ground.trail.searches), len(ground.trail.rounds)
    return (
        f"Packets looked at: {looked}, quoted: {cited}, after {_counted(searched, 'search', 'searches')} in "
        f"{_counted(rounds, 'iteration', 'iterations')}."
    )


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _confidence(trail: Trail) -> str:
    result = trail.result
    if result is None:
        return "There is no answer to be sure of."
    last = trail.rounds[-1].reflection if trail.rounds else None
    criteria = (
        f"{_reason(result, last)} Of the last iteration: likelihood {last.likelihood:.2f}, coverage "
        f"{last.coverage:.2f}, specificity {last.specificity:.2f}, temporality {last.temporality:.2f}, completeness "
        f"{last.completeness:.2f}."
        if last
        else ""
    )
    return (
        f"{result.confidence_band.capitalize()} confidence ({result.confidence:.2f}), status {result.status}.{criteria}"
    )


def _reason(result: ResearchResult, last: ReflectionResult) -> str:
    """What an answer that is not surely right lacks most."""
    if result.confidence_band == "HIGH" or result.status not in ("SUCCESS", "PARTIAL"):
        return ""
    capped = "the answer is PARTIAL" if result.status == "PARTIAL" else "what it cites is in doubt"
    return f" Mainly because {reason_of(result.confidence, last, capped)}."


def _limitations(trail: Trail) -> list[str]:
    found = ["Only what the archive of this tenant holds was searched."]
    if trail.result is None or trail.result.engine == "extractive":
        found.append("The answer quotes packets word for word; rules, not a model, compared them.")
    else:
        found.append(f"{trail.result.engine} wrote the sentences; rules held each against the quotes it names.")
    if trail.result:
        found += [f"Searched with less than usual: {reason}." for reason in trail.result.degraded]
    return found


def _recommendations(trail: Trail, contradictions: Sequence[ContradictionRecord]) -> list[str]:
    found = [f"Look at both packets: {one.description}." for one in contradictions]
    if trail.result:
        found += trail.result.suggestions
    return found


def _takeaways(ground: Ground, findings: Sequence[Finding], contradictions: int) -> list[str]:
    """Three to five: the findings, how sure, what they stand on, what is open."""
    trail = ground.trail
    found = [_takeaway(finding) for finding in findings[:TAKEAWAYS_FROM_FINDINGS]]
    if not findings:
        found.append(f"No packet answers: {trail.request.query}")
    if contradictions:
        number = "1 contradiction is" if contradictions == 1 else f"{contradictions} contradictions are"
        found = [*found[: TAKEAWAYS_FROM_FINDINGS - 1], f"{number} open between the packets."]
    return [*found, _stands_on(ground), _confidence(trail)]


def _takeaway(finding: Finding) -> str:
    """What it says under its title, which is its own beginning where the packet has no topic."""
    own = finding.description.startswith(finding.title.removesuffix("..."))
    return finding.description if own else f"{finding.title}: {finding.description}"


def _summed_up(record: ContradictionRecord) -> ContradictionSummary:
    return ContradictionSummary(
        contradiction_id=record.contradiction_id,
        description=record.description,
        severity=record.severity,
        sources=record.sources_involved,
        possible_explanations=record.possible_explanations,
        resolution=record.resolution,
        impact_on_findings=record.impact_on_findings,
    )


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
    held = [] if sides else [f"{one.words}?" for one in questions(trail.parameters.search_text)]
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
