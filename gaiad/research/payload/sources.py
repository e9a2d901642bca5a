"""Source records: a packet as PAYLOAD tells a source of type `storage`.

Pure. Reliability by points: 2 for a packet whose integrity is verified, 1 when it has nothing to verify by, 0 when it
is broken; one more when another source of the run agrees, one less when more than one contradicts and fewer agree, one
less for what a model of gaiad said in a chat. 2 and more is high, 1 medium, less low. `relevanceScore` is the relevance
of the best page (`gaiad.research.evidence.weigh`: words, meaning, rank), 1 for a packet of a listing, which fits by
definition.
"""

from collections.abc import Mapping, Sequence
from datetime import tzinfo

from msgspec import UNSET

from gaiad.clock import day_of, to_iso
from gaiad.payload_schemas import CONTENT_MAX, ExtractedFact, Reliability, SourceRecord
from gaiad.research.echoes import own_words
from gaiad.research.payload.comparing import Compared
from gaiad.research.payload.facts import Fact
from gaiad.research.payload.material import Material

PROVIDER = "gaiad archive"
_INTEGRITY = {
    "verified": (2, "its integrity is verified"),
    "unverifiable": (1, "it carries nothing to verify its integrity by"),
    "broken": (0, "its integrity is broken"),
}


def source_records(
    sources: Sequence[Material], facts: Mapping[str, Sequence[Fact]], pairs: Sequence[Compared], zone: tzinfo
) -> list[SourceRecord]:
    """One a source, in their order; days are those of `zone`."""
    related = _related(pairs)
    return [_record(source, facts[source.source_id], pairs, related, zone) for source in sources]


def _record(
    source: Material,
    facts: Sequence[Fact],
    pairs: Sequence[Compared],
    related: Mapping[str, Sequence[str]],
    zone: tzinfo,
) -> SourceRecord:
    summary = source.packet.summary
    against = {kind: _others(source, pairs, kind) for kind in ("contradiction", "corroboration")}
    reliability, why = _reliability(source, against["corroboration"], against["contradiction"])
    return SourceRecord(
        source_id=source.source_id,
        source_type="storage",
        title=summary.topic or summary.packet_id,
        author=summary.model or UNSET,
        published_date=day_of(summary.timestamp, zone) or UNSET,
        storage_provider=PROVIDER,
        file_path=summary.packet_id,
        file_type=summary.media_type or UNSET,
        accessed_at=to_iso(source.accessed_at),
        content=source.text[:CONTENT_MAX],
        content_format="text",
        content_length=len(source.text),
        extracted_facts=[_fact(fact, related.get(fact.fact_id, ())) for fact in facts],
        reliability=reliability,
        reliability_reasoning=why,
        compared_with=_others(source, pairs),
        contradicts=against["contradiction"],
        corroborates=against["corroboration"],
        gathering_iteration=source.iteration,
        search_query=source.query or UNSET,
        relevance_score=source.relevance,
    )


def _others(source: Material, pairs: Sequence[Compared], kind: str = "") -> list[str]:
    """The sources this one was compared with; with `kind` only those it came out so with."""
    found = []
    for pair in pairs:
        if kind in ("", pair.type) and source.number in (pair.one.number, pair.other.number):
            found.append((pair.other if pair.one.number == source.number else pair.one).source_id)
    return found


def _reliability(source: Material, agree: Sequence[str], contradict: Sequence[str]) -> tuple[Reliability, str]:
    points, said = _INTEGRITY[source.packet.summary.integrity]
    reasons = [said]
    if agree:
        points += 1
        reasons.append(f"{', '.join(agree)} says the same")
    if contradict:
        points -= len(contradict) > max(1, len(agree))
        reasons.append(f"{', '.join(contradict)} contradicts it")
    if any(own_words(page) for page in source.packet.pages):
        points -= 1
        reasons.append("a model of gaiad said it in a chat")
    level: Reliability = "high" if points >= 2 else "medium" if points == 1 else "low"
    return level, f"Transmission Packet: {'; '.join(reasons)}."


def _fact(fact: Fact, related: Sequence[str]) -> ExtractedFact:
    return ExtractedFact(
        fact_id=fact.fact_id,
        fact_text=fact.text,
        fact_type=fact.kind,
        confidence=fact.confidence,
        related_fact_ids=list(related),
        supporting_evidence=f"page {fact.page.page_id}, characters {fact.start} to {fact.end}",
        context_snippet=fact.snippet,
    )


def _related(pairs: Sequence[Compared]) -> dict[str, list[str]]:
    """Facts of other sources that agree with, refine or contradict a fact."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        for held in pair.held:
            for fact, other in ((held.one, held.other), (held.other, held.one)):
                known = found.setdefault(fact.fact_id, [])
                if other.fact_id not in known:
                    known.append(other.fact_id)
    return found
