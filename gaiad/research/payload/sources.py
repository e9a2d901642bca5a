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

from gaiad.base.clock import day_of, to_iso
from gaiad.research.evidence import own_words
from gaiad.research.payload.comparing import Compared, FactPair
from gaiad.research.payload.material import Fact, Material
from gaiad.wire.research import CONTENT_MAX, ExtractedFact, Learning, LearningType, Reliability, SourceRecord

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


GAP, GAP_DEGRADED = 0.9, 0.6
_KINDS: dict[str, tuple[LearningType, str]] = {
    "contradiction": ("contradiction", "contradicts"),
    "agreement": ("validation", "agrees with"),
    "refinement": ("insight", "can stand beside"),
}


class Lessons:
    """Learnings of one run, numbered through; `of` is called once an iteration, in order."""

    def __init__(self, facts: Mapping[str, Sequence[Fact]], *, degraded: bool) -> None:
        self._facts = facts
        self._gap = GAP_DEGRADED if degraded else GAP
        self._count = 0
        self._by_source: dict[str, str] = {}

    def of(
        self, iteration: int, new: Sequence[Material], pairs: Sequence[Compared], gaps: Sequence[str]
    ) -> list[Learning]:
        """From the iteration's new sources, new comparisons and new gaps."""
        found = [self._fact(iteration, source) for source in new if self._facts[source.source_id]]
        for pair in pairs:
            found += [self._held(iteration, pair, held) for held in _first_of_each_kind(pair)]
        return found + [self._made(iteration, "gap", f"Not found: {gap}", self._gap, [], []) for gap in gaps]

    def _fact(self, iteration: int, source: Material) -> Learning:
        best = self._facts[source.source_id][0]
        made = self._made(iteration, "fact", best.text, best.confidence, [source.source_id], [])
        self._by_source[source.source_id] = made.learning_id
        return made

    def _held(self, iteration: int, pair: Compared, held: FactPair) -> Learning:
        kind, verb = _KINDS[held.relation.kind]
        sources = [pair.one.source_id, pair.other.source_id]
        related = [self._by_source[one] for one in sources if one in self._by_source]
        confidence = min(held.one.confidence, held.other.confidence)
        return self._made(
            iteration, kind, f'"{held.one.text}" {verb} "{held.other.text}"', confidence, sources, related
        )

    def _made(
        self,
        iteration: int,
        kind: LearningType,
        description: str,
        confidence: float,
        sources: list[str],
        related: list[str],
    ) -> Learning:
        self._count += 1
        return Learning(
            learning_id=f"learn_{self._count:03}",
            learning_type=kind,
            description=description,
            confidence=confidence,
            supporting_sources=sources,
            related_learnings=related,
            iteration_discovered=iteration,
        )


def _first_of_each_kind(pair: Compared) -> list[FactPair]:
    return [found[0] for kind in _KINDS if (found := pair.of_kind(kind))]
