"""Sources held against each other, two by two, by their facts: who agrees, who contradicts, who only adds.

Pure. Strength of a corroboration: strong for an equal date or number, moderate for nine tenths of the words, else weak.
"""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from itertools import combinations
from typing import Literal

import msgspec
from msgspec import UNSET

from gaiad.base.clock import day_of, to_iso
from gaiad.research.contradictions import Relation, compare, same_subject
from gaiad.research.payload.material import Fact, Material
from gaiad.wire.research import (
    Comparison,
    ComparisonType,
    ContradictionDetails,
    ContradictionRecord,
    CorroborationDetails,
    Severity,
)

Strength = Literal["strong", "moderate", "weak"]
FULLY_COMPARED = 5  # of the first sources quoted also those pairs are told that have nothing to do with each other
_GRAVER: dict[Severity, int] = {"clarification": 0, "minor": 1, "major": 2}
_MAY_BE = {
    "date": "They may speak of two events, or one of the dates was planned and the other kept.",
    "time": "They may speak of two days, or one of the times was planned and the other kept.",
    "value": "One of them may be of an earlier time, or they may speak of two things.",
    "change": "What was given up may have been taken up again.",
    "number": "They may count at different times, or not quite the same thing.",
    "negation": "One of them may speak of another situation, or of a wish and not of a fact.",
    "wording": "They may speak of different things in the same words.",
}


class FactPair(msgspec.Struct, frozen=True):
    """Two facts and how they stand to each other."""

    one: Fact
    other: Fact
    relation: Relation


class Compared(msgspec.Struct, frozen=True):
    """Two sources and what their facts have to do with each other, graver relations first."""

    one: Material
    other: Material
    held: tuple[FactPair, ...]
    near: bool

    def of_kind(self, kind: str) -> list[FactPair]:
        return [held for held in self.held if held.relation.kind == kind]

    @property
    def type(self) -> ComparisonType:
        if self.of_kind("contradiction"):
            return "contradiction"
        if self.of_kind("agreement"):
            return "corroboration"
        return "complementary" if self.held or self.near else "independent"

    @property
    def iteration(self) -> int:
        """When both were there to be compared."""
        return max(self.one.iteration, self.other.iteration)


def compare_sources(sources: Sequence[Material], facts: Mapping[str, Sequence[Fact]]) -> list[Compared]:
    """The pairs worth telling, in the order of the sources."""
    found = []
    for one, other in combinations(sources, 2):
        pair = _compared(one, other, facts[one.source_id], facts[other.source_id])
        both_quoted = one.cited and other.cited and other.number <= FULLY_COMPARED
        if pair.type != "independent" or both_quoted:
            found.append(pair)
    return found


def _compared(one: Material, other: Material, mine: Sequence[Fact], its: Sequence[Fact]) -> Compared:
    held, near = [], False
    for first in mine:
        for second in its:
            relation = compare(first.assertion, second.assertion)
            near = near or bool(same_subject(first.assertion, second.assertion))
            if relation:
                held.append(FactPair(first, second, relation))
    return Compared(one, other, tuple(held), near)


def comparison_records(pairs: Sequence[Compared], contradiction_ids: Mapping[int, str]) -> list[Comparison]:
    """Numbered as the pairs are; `contradiction_ids` by the number of the pair."""
    return [_record(number, pair, contradiction_ids.get(number)) for number, pair in enumerate(pairs, start=1)]


def _record(number: int, pair: Compared, contradiction_id: str | None) -> Comparison:
    apart = pair.of_kind("contradiction")
    return Comparison(
        comparison_id=f"cmp_{number:03}",
        source_a=pair.one.source_id,
        source_b=pair.other.source_id,
        compared_at=to_iso(max(pair.one.accessed_at, pair.other.accessed_at)),
        comparison_type=pair.type,
        corroboration_details=_corroboration(pair) if pair.type == "corroboration" else UNSET,
        contradiction_details=ContradictionDetails(
            contradiction_id=contradiction_id, conflicting_fact_ids=_fact_ids(apart), severity_level=_gravest(apart)
        )
        if contradiction_id
        else UNSET,
        comparison_notes=_notes(pair),
    )


def _corroboration(pair: Compared) -> CorroborationDetails:
    same = pair.of_kind("agreement")
    best = max(same, key=lambda held: (held.relation.matter != "wording", held.relation.overlap))
    exact = best.relation.matter != "wording"
    strength: Strength = "strong" if exact else "moderate" if best.relation.overlap >= 0.9 else "weak"
    what = f"the same {best.relation.matter}" if exact else "the same in nearly the same words"
    return CorroborationDetails(
        shared_facts=_fact_ids(same),
        strength_level=strength,
        explanation=f'Both say {what}: "{best.one.text}" and "{best.other.text}".',
    )


def _notes(pair: Compared) -> str:
    for kind, words in (
        ("contradiction", "They disagree on a"),
        ("refinement", "They differ without contradiction on a"),
    ):
        if held := pair.of_kind(kind):
            return "; ".join(f"{words} {one.relation.matter}: {_apart(one)}" for one in held)
    return {
        "corroboration": f"They agree on {len(pair.of_kind('agreement'))} of their facts.",
        "complementary": "They speak of the same thing and say different things of it.",
    }.get(pair.type, "Their facts have nothing to do with each other.")


def _apart(held: FactPair) -> str:
    return f'"{held.relation.first}" against "{held.relation.second}"'


def _fact_ids(held: Sequence[FactPair]) -> list[str]:
    return list(dict.fromkeys(fact.fact_id for one in held for fact in (one.one, one.other)))


def _gravest(held: Sequence[FactPair]) -> Severity:
    return max((one.relation.severity for one in held), key=lambda severity: _GRAVER[severity])


# ------------------------------------------------------------------------------------------------------ contradictions


def contradiction_records(pairs: Sequence[Compared], zone: tzinfo) -> dict[int, ContradictionRecord]:
    """One for each pair of sources that contradict each other, by the number of the pair; all of them are open.

    Days are those of `zone`.
    """
    apart = [(number, pair) for number, pair in enumerate(pairs, start=1) if pair.type == "contradiction"]
    return {
        number: _contradiction(f"con_{count:03}", pair, zone) for count, (number, pair) in enumerate(apart, start=1)
    }


def _contradiction(contradiction_id: str, pair: Compared, zone: tzinfo) -> ContradictionRecord:
    held = pair.of_kind("contradiction")
    first = held[0]
    return ContradictionRecord(
        contradiction_id=contradiction_id,
        description=f"[Packet: {pair.one.packet_id}] and [Packet: {pair.other.packet_id}] disagree on a "
        f'{first.relation.matter}: "{first.one.text}" against "{first.other.text}"',
        severity=_gravest(held),
        sources_involved=[pair.one.source_id, pair.other.source_id],
        conflicting_facts=_fact_ids(held),
        possible_explanations=_explanations(pair, first, zone),
        impact_on_findings=_impact(pair),
        status="open",
    )


def _explanations(pair: Compared, held: FactPair, zone: tzinfo) -> list[str]:
    one, other = pair.one.packet.summary, pair.other.packet.summary
    found = [_MAY_BE[held.relation.matter]]
    later, earlier = (one, other) if one.timestamp > other.timestamp else (other, one)
    days = [day_of(packet.timestamp, zone) for packet in (later, earlier)]
    if days[0] != days[1]:
        found.append(
            f"[Packet: {later.packet_id}] is the later one ({days[0]}, the other {days[1]}) and may correct it."
        )
    if one.model and other.model and one.model != other.model:
        found.append(f"They come from different models ({one.model}, {other.model}).")
    return found


def _impact(pair: Compared) -> str:
    quoted = [one for one in (pair.one, pair.other) if one.cited]
    if len(quoted) == 2:
        return "The answer quotes both; what they disagree on is open."
    if quoted:
        other = pair.other if quoted[0] is pair.one else pair.one
        return (
            f"The answer quotes [Packet: {quoted[0].packet_id}], which [Packet: {other.packet_id}] contradicts; "
            "what they disagree on is open."
        )
    return "The answer quotes neither of the two."
