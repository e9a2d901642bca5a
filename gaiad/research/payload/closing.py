"""The synthesis of a run: summary, findings, takeaways, bibliography. Pure; it says nothing that the run did not find.

A finding is what the answer quotes of one packet. The first is critical, one of a nearly as relevant packet (0.9 of the
best) high, of one half as relevant medium, else low. Its confidence is the answer's, times the share of the best
packet's relevance that its own has.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from msgspec import UNSET, UnsetType

from gaiad.clock import to_iso
from gaiad.payload_schemas import (
    ContradictionRecord,
    ContradictionSummary,
    Finding,
    Importance,
    ResearchSynthesis,
    SourceCitation,
)
from gaiad.research.answer import reason_of
from gaiad.research.payload.comparing import Compared
from gaiad.research.payload.iterations import Ground
from gaiad.research.payload.material import Material
from gaiad.research.payload.sources import PROVIDER
from gaiad.research.reflect import ReflectionResult
from gaiad.research.trail import Trail
from gaiad.schemas import ResearchResult

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
