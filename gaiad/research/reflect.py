"""The reflection engine (GAM 4): does what was found answer the question, by coverage, specificity, temporality and
completeness; what is missing; how to search better. Rules, no model; the result is the type a model would give too.
"""

from collections.abc import Sequence

import msgspec

from gaiad.research.confidence import combine
from gaiad.research.evidence import Evidence, Term, names_subject, union, weighted
from gaiad.research.query import SearchParameters
from gaiad.research.selection import about_then, likelihoods, of_that_time, told_then
from gaiad.research.whose import somebody_elses
from gaiad.research.words import stem

# Strength of the evidence from which a question counts as answered, and below which what was found is about something
# else. Chosen on conversations with labelled evidence: 3 % of answerable questions fall below RELEVANT, and 97 % of
# those about people and things that stand nowhere (`strangers` left aside).
SUFFICIENT, RELEVANT = 0.65, 0.43
# A page this near in meaning (see evidence.semantic_score) is a paraphrase although hardly a word is shared.
SAME_MEANING, NO_WORDS = 0.64, 0.2
# From here on what is left out of the question is not answered: "Who lives in Porto?" by who comes from Porto.
HALF_LEFT_OUT = 0.45
# Strength is the best page's relevance, more when it stands out from the tenth, less for words that stand nowhere.
STANDS_OUT, FOREIGN_WORDS = 0.35, 0.25
# And more for a page of the very day or month that the question names.
SAID_THEN = 0.15
TENTH, USUAL_TENTH = 9, 0.7

_ACTS = frozenset(
    stem(word) for word in ["decide", "decision", "agree", "choose", "choice", "conclude", "conclusion", "plan"]
)

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
    specificity, likelihood = _specificity(terms, selected, found), _likelihood(parameters, selected, found)
    missing = [*_missing_terms(terms, selected, near), *gaps]
    if temporality == 0.0:
        missing.append(nothing_then(parameters.date_text))
    evidence_strength = strength(terms, selected, found) + _said_then(parameters, selected)
    paraphrase = covered <= NO_WORDS and near >= SAME_MEANING
    other = somebody_elses(parameters, selected, found)
    if other:
        missing.append(f"this of {parameters.people[0]}; {other} speaks of it")
    known = not other and not unheard_of(parameters, terms) and _left_out(terms, selected, near) < HALF_LEFT_OUT
    enough = evidence_strength >= SUFFICIENT and temporality > 0 and completeness >= 0.5 and known
    relevant = (evidence_strength >= RELEVANT or paraphrase or not terms) and not strangers(parameters, terms)
    relevant = relevant and (near >= SAME_MEANING or not of_nothing(terms))
    return ReflectionResult(
        is_sufficient=enough,
        is_relevant=relevant and not other,
        confidence=combine(coverage, specificity, temporality, completeness, likelihood),
        missing_aspects=tuple(dict.fromkeys(missing)),
        refinement_suggestions=_suggestions(parameters, terms, selected, enough, temporality),
        coverage=coverage,
        specificity=specificity,
        temporality=temporality,
        completeness=completeness,
        likelihood=likelihood,
    )


def _left_out(terms: Sequence[Term], selected: Sequence[Evidence], near: float) -> float:
    """The share of the question's weight in words that stand in no page selected, 0 where the meaning is the same."""
    total, earned = sum(term.weight for term in terms), union(selected)
    lost = sum(term.weight for term in terms if not earned.get(term.word))
    return lost / total if total and near < SAME_MEANING else 0.0


def strangers(parameters: SearchParameters, terms: Sequence[Term]) -> bool:
    """Whether the question names somebody or something, and nobody in the archive ever did."""
    unknown = {term.word for term in terms if term.unknown}
    return bool(parameters.names) and not parameters.people and unknown.issuperset(parameters.names)


def of_nothing(terms: Sequence[Term]) -> bool:
    """Whether what it was that we decided, planned or agreed on stands nowhere in the archive."""
    matter = [term for term in terms if term.stem not in _ACTS]
    return len(matter) < len(terms) and bool(matter) and all(term.unknown for term in matter)


def unheard_of(parameters: SearchParameters, terms: Sequence[Term]) -> list[str]:
    """The names and models of the question that stand nowhere in the archive: what is told is not told of them."""
    named = {*parameters.names, *parameters.unknown_models}
    return [term.word for term in terms if term.unknown and term.word in named]


def _said_then(parameters: SearchParameters, selected: Sequence[Evidence]) -> float:
    return SAID_THEN if any(told_then(item.page.timestamp, parameters) for item in selected) else 0.0


def _likelihood(parameters: SearchParameters, selected: Sequence[Evidence], found: Sequence[Evidence]) -> float:
    """How likely the packets chosen for a fact hold it; 1 for what several tell together, or the first or last one."""
    if parameters.kind != "factual" or parameters.order != "relevance":
        return 1.0
    likely = likelihoods(of_that_time(parameters, found))
    return sum(likely.get(packet_id, 0.0) for packet_id in {item.page.packet_id for item in selected})


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
    """The share of the question's weight in words that stand nowhere in the archive, 0 to 1."""
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
    lost = [term for term in terms if not term.cue and not earned.get(term.word)]
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
