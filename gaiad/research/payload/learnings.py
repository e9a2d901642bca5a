"""What each iteration taught: facts of new sources, who agrees or contradicts, what is still missing. Pure.

A fact's confidence is that of its extraction, a comparison's the lower of its two facts', a gap's how sure it is that
the archive was searched for it: 0.9 when every retriever took part, else 0.6.
"""

from collections.abc import Mapping, Sequence

from gaiad.payload_schemas import Learning, LearningType
from gaiad.research.payload.comparing import Compared, Held
from gaiad.research.payload.facts import Fact
from gaiad.research.payload.material import Material

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

    def _held(self, iteration: int, pair: Compared, held: Held) -> Learning:
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


def _first_of_each_kind(pair: Compared) -> list[Held]:
    return [found[0] for kind in _KINDS if (found := pair.of_kind(kind))]
