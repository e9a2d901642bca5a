"""How complete a run is after an iteration: PAYLOAD's six criteria, each 0 to 1, and their weighted mean. Pure.

questionsAnswered       the share of the research questions that are answered; the question itself counts with GAM's
                        coverage (confidence.py) as long as the evidence does not suffice
sourceDiversity         different (model, session, dialect) of the sources, 3 are enough: all are of one type here
sourceQuantity          sources, against as many as the kind of question wants (WANTED)
contradictionsResolved  1 when there is none; a run of rules resolves none by itself
factCorroboration       the share of the facts that another source agrees with
confidenceInFindings    the confidence of the reflection; of the answer itself after the last iteration
"""

from collections.abc import Sequence

import msgspec

from gaiad.payload_schemas import CompletenessCriteria
from gaiad.research.payload.comparing import Compared
from gaiad.research.payload.facts import Fact
from gaiad.research.payload.material import Material
from gaiad.research.query import Kind

WANTED: dict[Kind, int] = {"factual": 2, "conceptual": 3, "evolution": 3, "comparative": 4, "listing": 1}
DIVERSE = 3
WEIGHTS = {
    "questions_answered": 0.35,
    "source_diversity": 0.05,
    "source_quantity": 0.1,
    "contradictions_resolved": 0.1,
    "fact_corroboration": 0.1,
    "confidence_in_findings": 0.3,
}


def measure(
    *,
    answered: float,
    kind: Kind,
    sources: Sequence[Material],
    facts: Sequence[Fact],
    pairs: Sequence[Compared],
    confidence: float,
) -> CompletenessCriteria:
    """The six, of what there was at the time."""
    makers = {(one.packet.summary.model, one.packet.summary.session_id, one.packet.summary.dialect) for one in sources}
    agreed = {fact.fact_id for pair in pairs for held in pair.of_kind("agreement") for fact in (held.one, held.other)}
    return CompletenessCriteria(
        questions_answered=_score(answered),
        source_diversity=_score(len(makers) / DIVERSE),
        source_quantity=_score(len(sources) / WANTED[kind]),
        contradictions_resolved=0.0 if any(pair.type == "contradiction" for pair in pairs) else 1.0,
        fact_corroboration=_score(len(agreed) / len(facts)) if facts else 0.0,
        confidence_in_findings=_score(confidence),
    )


def completeness(criteria: CompletenessCriteria) -> float:
    """The weighted mean, 0 when nothing was found at all."""
    if not criteria.source_quantity:
        return 0.0
    values = msgspec.structs.asdict(criteria)
    return _score(sum(weight * values[name] for name, weight in WEIGHTS.items()))


def _score(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 3)
