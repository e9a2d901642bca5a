"""The reflection engine (GAM 4): does what was found answer the question, by coverage, specificity, temporality and
completeness; what is missing; how to search better. Rules, no model; the result is the type a model would give too.

    criteria   = 0.45 coverage + 0.20 specificity + 0.15 temporality + 0.20 completeness
    confidence = likelihood * (0.5 + 0.5 criteria)

the criteria each 0 to 1; `likelihood` is how likely what is cited for a fact holds it (`answering.confidence_of`), 1
where several packets answer together. At most 0.95; at most 0.74 for a PARTIAL answer, for
one that rests on a model's own earlier words alone, and for one whose packets contradict each other; less by the share
of citations that did not verify. NOT_FOUND and CLARIFY have no answer to be sure of: 0.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gaiad.research.evidence import Evidence, Term, names_subject, union, weighted
from gaiad.research.query import SearchParameters, about_then
from gaiad.wire.schemas import ResearchStatus

Band = Literal["LOW", "MEDIUM", "HIGH"]

COVERAGE, SPECIFICITY, TEMPORALITY, COMPLETENESS = 0.45, 0.20, 0.15, 0.20
CRITERIA_FLOOR = 0.5
MEDIUM_FROM, HIGH_FROM = 0.5, 0.75
PARTIAL_CAP, CAP = 0.74, 0.95
DOUBTFUL_CAP = PARTIAL_CAP


def combine(
    coverage: float, specificity: float, temporality: float, completeness: float, likelihood: float = 1.0
) -> float:
    """GAM 4's four criteria in one, and how likely the right packets were chosen; each 0 to 1, and so is the result."""
    criteria = COVERAGE * coverage + SPECIFICITY * specificity + TEMPORALITY * temporality + COMPLETENESS * completeness
    return min(CAP, max(0.0, likelihood * (CRITERIA_FLOOR + (1 - CRITERIA_FLOOR) * criteria)))


def main_reason(
    confidence: float,
    coverage: float,
    specificity: float,
    temporality: float,
    completeness: float,
    likelihood: float,
    capped: str,
) -> str:
    """What takes most from an answer's `confidence`, in words, with its value where it is one of `combine`'s.

    `capped` are the words for what `final` took beside them.
    """
    criteria = {
        f"it leaves out words of the question (coverage {coverage:.2f})": COVERAGE * (1 - coverage),
        f"other pages say nearly as much (specificity {specificity:.2f})": SPECIFICITY * (1 - specificity),
        f"not all of it is of the time asked about (temporality {temporality:.2f})": TEMPORALITY * (1 - temporality),
        f"a part of what was asked is missing (completeness {completeness:.2f})": COMPLETENESS * (1 - completeness),
    }
    surest = 1 - (1 - CRITERIA_FLOOR) * sum(criteria.values())
    lost = {why: likelihood * (1 - CRITERIA_FLOOR) * share for why, share in criteria.items()}
    lost[f"the quotes may not hold the answer (likelihood {likelihood:.2f})"] = (1 - likelihood) * surest
    lost[capped] = min(CAP, likelihood * surest) - confidence
    return max(lost, key=lambda why: lost[why])


def final(confidence: float, status: ResearchStatus, verified: int, removed: int, *, doubtful: bool = False) -> float:
    """The confidence of an answer with `verified` citations left after `removed` ones failed; two decimals.

    `doubtful` says that all of them are of what a model of ours said before, which proves nothing, or that some
    contradict each other.
    """
    if status in ("NOT_FOUND", "CLARIFY") or verified == 0:
        return 0.0
    kept = confidence * verified / (verified + removed)
    cap = min(PARTIAL_CAP if status == "PARTIAL" else CAP, DOUBTFUL_CAP if doubtful else CAP)
    return round(min(kept, cap), 2)


def band(confidence: float) -> Band:
    """LOW below 0.5, MEDIUM from there, HIGH from 0.75 (GAM shows 0.65 as MEDIUM)."""
    if confidence < MEDIUM_FROM:
        return "LOW"
    return "MEDIUM" if confidence < HIGH_FROM else "HIGH"


# Strength of the evidence from which a question counts as answered, and below which what was found is about something
# else. Chosen on conversations with labelled evidence: 3 % of answerable questions fall below RELEVANT, and 97 % of
# those about people and things that occur nowhere (`strangers` left aside).
SUFFICIENT, RELEVANT = 0.65, 0.43
# A page this near in meaning (see evidence.semantic_score) is a paraphrase although hardly a word is shared.
SAME_MEANING, NO_WORDS = 0.64, 0.2
# From here on what is left out of the question is not answered: "Who lives in Porto?" by who comes from Porto.
HALF_LEFT_OUT = 0.45
# Strength is the best page's relevance, more when it stands out from the tenth, less for words that stand nowhere.
STANDS_OUT, FOREIGN_WORDS = 0.35, 0.25
TENTH, USUAL_TENTH = 9, 0.7
# Of units, by `scoring.confidence_of`: from where they answer, and below which nothing found is about the question.
LIKELY, NEAR_MISS = 0.27, 0.03
# Nothing comes near a question with this share of its weight in words that are nowhere in the archive.
MOSTLY_FOREIGN = 0.7

EXPAND_DATES = "expand date range"
LOWER_THRESHOLD = "lower threshold"
DROP_FILTERS = "drop filters"
WIDEN_FOCUS = "widen focus"
ADD_TERM = "add term: "


class ReflectionResult(msgspec.Struct, frozen=True, kw_only=True):
    """GAM 4. `confidence` and the four criteria are 0 to 1; `is_relevant` is false when what was found is about
    something else, so that no answer may be made of it; `likelihood` is how likely the packets chosen hold the answer,
    given that one of those found does."""

    is_sufficient: bool
    is_relevant: bool
    confidence: float
    missing_aspects: tuple[str, ...]
    refinement_suggestions: tuple[str, ...]
    coverage: float = 0.0
    specificity: float = 0.0
    temporality: float = 0.0
    completeness: float = 0.0
    likelihood: float = 1.0


def evaluate_sufficiency(
    parameters: SearchParameters, terms: Sequence[Term], selected: Sequence[Evidence], found: Sequence[Evidence]
) -> ReflectionResult:
    """Judge the evidence an answer would be made of (`selected`, best first) among all that was `found`, best first."""
    if not selected:
        return ReflectionResult(
            is_sufficient=False,
            is_relevant=False,
            confidence=0.0,
            missing_aspects=tuple(term.word for term in terms),
            refinement_suggestions=_suggestions(parameters, terms, [], False, 0.0),
        )
    covered, near = _coverage(parameters, terms, selected), max(item.semantic for item in selected)
    coverage = max(covered, near if near >= SAME_MEANING else 0.0)
    temporality = _temporality(parameters, selected)
    completeness, gaps = _completeness(parameters, selected)
    specificity = _specificity(terms, selected, found)
    missing = [*_missing_terms(terms, selected, near), *gaps]
    if temporality == 0.0:
        missing.append(nothing_then(parameters.date_text))
    evidence_strength = strength(terms, selected, found)
    known = _left_out(terms, selected, near) < HALF_LEFT_OUT
    enough = evidence_strength >= SUFFICIENT and temporality > 0 and completeness >= 0.5 and known
    paraphrase = covered <= NO_WORDS and near >= SAME_MEANING
    relevant = (evidence_strength >= RELEVANT or paraphrase or not terms) and not strangers(parameters, terms)
    return ReflectionResult(
        is_sufficient=enough,
        is_relevant=relevant,
        confidence=combine(coverage, specificity, temporality, completeness),
        missing_aspects=tuple(dict.fromkeys(missing)),
        refinement_suggestions=_suggestions(parameters, terms, selected, enough, temporality),
        coverage=coverage,
        specificity=specificity,
        temporality=temporality,
        completeness=completeness,
    )


def judge_units(
    parameters: SearchParameters,
    terms: Sequence[Term],
    selected: Sequence[Evidence],
    found: Sequence[Evidence],
    confidence: float,
) -> ReflectionResult:
    """Judge units on the `selected` pages, which answer by this `confidence` (0 to 1), among all that was `found`."""
    judged = evaluate_sufficiency(parameters, terms, selected, found)
    if not selected:
        return judged
    near = max(item.semantic for item in selected)
    whole = _left_out(terms, selected, near) < HALF_LEFT_OUT
    paraphrase = near >= SAME_MEANING and _coverage(parameters, terms, selected) <= NO_WORDS
    relevant = not strangers(parameters, terms) and (confidence >= LIKELY or paraphrase)
    more = judged.refinement_suggestions
    if relevant:  # weaker pages and other words find nothing that answers better
        more = tuple(one for one in more if one != LOWER_THRESHOLD and not one.startswith(ADD_TERM))
    return msgspec.structs.replace(
        judged,
        refinement_suggestions=more,
        is_relevant=relevant,
        is_sufficient=relevant and whole and judged.temporality > 0,
        confidence=confidence,
        likelihood=confidence,
    )


def near_miss(parameters: SearchParameters, terms: Sequence[Term], confidence: float) -> bool:
    """Whether units that do not answer are worth telling: they are about some of what is asked."""
    alien = foreign_share(terms) > MOSTLY_FOREIGN or strangers(parameters, terms)
    return confidence >= NEAR_MISS and not alien


def _left_out(terms: Sequence[Term], selected: Sequence[Evidence], near: float) -> float:
    """The share of the question's weight in words that occur in no page selected, 0 where the meaning is the same."""
    total, earned = sum(term.weight for term in terms), union(selected)
    lost = sum(term.weight for term in terms if not earned.get(term.word))
    return lost / total if total and near < SAME_MEANING else 0.0


def strangers(parameters: SearchParameters, terms: Sequence[Term]) -> bool:
    """Whether the question names somebody or something, and nobody in the archive ever did."""
    unknown = {term.word for term in terms if term.unknown}
    return bool(parameters.names) and not parameters.people and unknown.issuperset(parameters.names)


def nothing_then(date_text: str) -> str:
    """The missing aspect of a dated question when everything found is of another time."""
    return f"anything {date_text}"


def strength(terms: Sequence[Term], selected: Sequence[Evidence], found: Sequence[Evidence]) -> float:
    """How strongly what was found speaks to the question, 0 to about 1.3; see the constants above."""
    best = max(item.relevance for item in selected)
    return best + STANDS_OUT * _lead(selected, found) - FOREIGN_WORDS * foreign_share(terms)


def _lead(selected: Sequence[Evidence], found: Sequence[Evidence]) -> float:
    """By how much the best page leads the tenth; where fewer were found, by as much as is usual."""
    best = max(item.relevance for item in selected)
    return max(0.0, best - (found[TENTH].relevance if len(found) > TENTH else USUAL_TENTH * best))


def foreign_share(terms: Sequence[Term]) -> float:
    """The share of the question's weight in words that occur nowhere in the archive, 0 to 1."""
    total = sum(term.weight for term in terms)
    return sum(term.weight for term in terms if term.unknown) / total if total else 0.0


def _coverage(parameters: SearchParameters, terms: Sequence[Term], selected: Sequence[Evidence]) -> float:
    """The best single place for a fact; for what needs several places, half that and half all together."""
    if not terms:
        return 1.0
    best = max(item.lexical for item in selected)
    if parameters.kind == "factual":
        return best
    return 0.5 * best + 0.5 * weighted(union(selected), terms)


def _specificity(terms: Sequence[Term], selected: Sequence[Evidence], found: Sequence[Evidence]) -> float:
    """Half: how much of the rarer half of the question the best page covers. Half: how far it leads the tenth page, for
    where ten pages answer alike the question is answered in general only."""
    rare = sorted(terms, key=lambda term: -term.weight)[: max(1, (len(terms) + 1) // 2)]
    covered = max(max(weighted(item.credits, rare), item.semantic) for item in selected) if rare else 1.0
    return 0.5 * covered + 0.5 * min(1.0, _lead(selected, found) / STANDS_OUT)


def _temporality(parameters: SearchParameters, selected: Sequence[Evidence]) -> float:
    """The share of the selected pages that lie in the period asked about."""
    inside = [about_then(item.page.timestamp, parameters) for item in selected]
    return sum(inside) / len(inside)


def _completeness(parameters: SearchParameters, selected: Sequence[Evidence]) -> tuple[float, list[str]]:
    """Logical gaps by kind: a side of the comparison without a page, a history with one moment."""
    if len(parameters.subjects) == 2:
        lacking = [s for s in parameters.subjects if not any(names_subject(item, s) for item in selected)]
        return 1.0 - 0.6 * len(lacking), [f"anything about {subject}" for subject in lacking]
    moments = {item.page.packet_id for item in selected}
    if parameters.kind == "evolution" and len(moments) < 2:
        return 0.4, ["a second point in time"]
    return 1.0, []


def _missing_terms(terms: Sequence[Term], selected: Sequence[Evidence], near: float) -> list[str]:
    """Terms that earned nothing; forgiven for common words when the meaning is the same."""
    earned = union(selected)
    lost = [term for term in terms if not earned.get(term.word)]
    return [term.word for term in lost if term.unknown or near < SAME_MEANING]


def _suggestions(
    parameters: SearchParameters,
    terms: Sequence[Term],
    selected: Sequence[Evidence],
    enough: bool,
    temporality: float,
) -> tuple[str, ...]:
    found: list[str] = []
    if parameters.dated and temporality < 1:
        found.append(EXPAND_DATES)
    if parameters.focus != "full_context":
        found.append(WIDEN_FOCUS)
    if not enough:
        earned = union(selected)
        weak = [term.word for term in terms if earned.get(term.word, 0.0) < 1.0]
        found += [f"{ADD_TERM}{word}" for word in weak]
        found.append(LOWER_THRESHOLD)
    if parameters.phrases:
        found.append(DROP_FILTERS)
    return tuple(found)
