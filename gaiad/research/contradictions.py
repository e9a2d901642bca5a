"""Do two sentences of different packets contradict each other, or refine one another: by date, number, negation.

Pure, rules only. Precision comes first: a sentence that cannot be shown to be about the same thing is left alone. What
the rules find on labelled pairs is held by a floor in the tests.

contradiction   both cannot hold: days that do not meet, numbers that do not meet, one says what the other denies
refinement      both can: one is more precise, softened, or says that it takes the place of the other
agreement       the same thing is said
"""

import math
from datetime import date
from typing import Literal

import msgspec

from gaiad.research.assertions import Assertion, Clause, When
from gaiad.research.quantities import Quantity

RelationKind = Literal["contradiction", "refinement", "agreement"]
Matter = Literal["date", "number", "negation", "wording"]
Severity = Literal["major", "minor", "clarification"]

SAME_SUBJECT = 0.6  # the share of the shorter sentence's words that the other has too
SAME_CLAUSE = 0.75  # for a negation, which may belong to another part of a longer sentence
AGREES, AGREEING_WORDS, SAME_LENGTH = 0.8, 3, 0.6  # of the shorter's words, how many at least, of the longer's
VAGUE_WORDS = 3  # so many words a sentence must share that begins with "it"
FAR_DAYS, FAR_RATIO = 31, 1.5  # from here on a difference is major
_EQUAL = 1e-9


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """How two assertions stand to each other. `first` and `second` are what differs, in their own words.

    `overlap` is the share of the shorter one's words that both have, 0 to 1.
    """

    kind: RelationKind
    matter: Matter
    severity: Severity
    first: str
    second: str
    overlap: float


def compare(one: Assertion, other: Assertion) -> Relation | None:
    """The relation of two assertions, None when they are about different things or cannot be held together."""
    if one.asks or other.asks:
        return None
    overlap, denied = same_subject(one, other), _deny(one, other)
    if not overlap and denied is None:
        return None
    dates, numbers = _compare_dates(one, other), _compare_numbers(one, other)
    apart = [found for found in (dates, numbers) if found and found.kind == "contradiction"]
    if dates in apart and (numbers in apart or denied):
        return None  # another time, and another thing said of it: two events
    if not overlap:
        dates = numbers = None
        apart = []
    found = next(iter(apart), None) or denied or _refining(dates, numbers)
    if found is None:
        return _agreement(one, other, overlap, dates or numbers)
    return _softened(msgspec.structs.replace(found, overlap=overlap or SAME_CLAUSE), one, other)


def _refining(*relations: Relation | None) -> Relation | None:
    return next((relation for relation in relations if relation and relation.kind == "refinement"), None)


def same_subject(one: Assertion, other: Assertion) -> float:
    """The overlap of what two assertions are about when that is the same thing, else 0.0."""
    shared, mine, its = one.subject & other.subject, one.subject - other.subject, other.subject - one.subject
    if not shared or (mine & one.names and its & other.names):
        return 0.0
    overlap = len(shared) / min(len(one.subject), len(other.subject))
    exchanged = len(mine) == len(its) == 1  # the old pump, the new pump
    too_vague = (one.vague or other.vague) and len(shared) < VAGUE_WORDS
    alone = len(shared) == 1 and max(len(one.subject), len(other.subject)) > 2
    return 0.0 if overlap < SAME_SUBJECT or exchanged or too_vague or alone else overlap


# --------------------------------------------------------------------------------------------------------------- dates


def _compare_dates(one: Assertion, other: Assertion) -> Relation | None:
    pairs = [(mine, its) for mine in one.dates for its in other.dates if _comparable(mine, its, one, other)]
    if not pairs or len(pairs) < len(one.dates) * len(other.dates):
        return None
    met = [(mine, its) for mine, its in pairs if _meet(mine, its)]
    mine, its = (met or pairs)[0]
    if not met:
        severity: Severity = "major" if _days_apart(mine, its) > FAR_DAYS else "minor"
        return _relation("contradiction", "date", severity, mine.text, its.text)
    equal = any(_days(mine, its) == _days(its, mine) for mine, its in met)
    if equal:
        return _relation("agreement", "date", "clarification", mine.text, its.text)
    nested = _inside(mine, its) or _inside(its, mine)
    return _relation("refinement", "date", "clarification", mine.text, its.text) if nested else None


def _comparable(mine: When, its: When, one: Assertion, other: Assertion) -> bool:
    """Weekdays and "last week" recur: they mean the same only when said in the same week."""
    if not (mine.relative or its.relative):
        return True
    if not (one.said_at and other.said_at):
        return one.said_at == other.said_at
    said = (date.fromisoformat(one.said_at[:10]), date.fromisoformat(other.said_at[:10]))
    return abs((said[0] - said[1]).days) < 7 and said[0].isocalendar()[:2] == said[1].isocalendar()[:2]


def _days(mine: When, beside: When) -> tuple[str, str]:
    """First and end, without the year where one of the two has none."""
    if mine.year == beside.year or mine.relative or beside.relative or not mine.year:
        return mine.first, mine.end
    years = int(mine.end[:4]) - int(mine.first[:4])
    return f"2000{mine.first[4:]}", f"{2000 + years}{mine.end[4:]}"


def _meet(mine: When, its: When) -> bool:
    first, second = _days(mine, its), _days(its, mine)
    return first[0] < second[1] and second[0] < first[1]


def _inside(mine: When, its: When) -> bool:
    inner, outer = _days(mine, its), _days(its, mine)
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _days_apart(mine: When, its: When) -> int:
    first, second = _days(mine, its)[0], _days(its, mine)[0]
    return abs((date.fromisoformat(first) - date.fromisoformat(second)).days)


# ------------------------------------------------------------------------------------------------------------- numbers


def _compare_numbers(one: Assertion, other: Assertion) -> Relation | None:
    pairs = [(mine, its) for mine in one.quantities for its in other.quantities if mine.unit == its.unit]
    if not pairs:
        return None
    met = [(mine, its) for mine, its in pairs if _touch(mine, its)]
    mine, its = (met or pairs)[0]
    if not met:
        severity: Severity = "major" if _ratio(mine, its) >= FAR_RATIO else "minor"
        return _relation("contradiction", "number", severity, mine.text, its.text)
    if any(math.isclose(mine.low, its.low) and math.isclose(mine.high, its.high) for mine, its in met):
        return _relation("agreement", "number", "clarification", mine.text, its.text)
    return _relation("refinement", "number", "clarification", mine.text, its.text)


def _touch(mine: Quantity, its: Quantity) -> bool:
    """Whether one number can be both: the intervals meet, or one is the other rounded."""
    slack = max(mine.step, its.step) / 2 if mine.step != its.step and mine.step and its.step else 0.0
    slack += _EQUAL * min(abs(end) for end in (mine.low, mine.high, its.low, its.high))
    return mine.low <= its.high + slack and its.low <= mine.high + slack


def _ratio(mine: Quantity, its: Quantity) -> float:
    """How many times the smaller the larger is, by the ends that are nearest to each other."""
    lower, upper = (mine.high, its.low) if mine.high < its.low else (its.high, mine.low)
    return upper / lower if lower > 0 else FAR_RATIO


# ----------------------------------------------------------------------------------------------------------- negations


def _deny(one: Assertion, other: Assertion) -> Relation | None:
    """A clause of one that is a clause of the other turned round."""
    for mine in one.clauses:
        for its in other.clauses:
            if _turned_round(mine, its) and _same_clause(mine, its, one, other):
                return _relation("contradiction", "negation", "major", one.text, other.text)
    return None


def _turned_round(mine: Clause, its: Clause) -> bool:
    """Whether one says what the other denies, by a negation or by an opposite of a word of the other's."""
    changed = mine.opposite.symmetric_difference(its.opposite) & mine.words & its.words
    return (len(changed) + mine.negated + its.negated) % 2 == 1


def _same_clause(mine: Clause, its: Clause, one: Assertion, other: Assertion) -> bool:
    shared, more, less = mine.words & its.words, mine.words - its.words, its.words - mine.words
    smaller = min(len(mine.words), len(its.words))
    if smaller < 2 or len(shared) / smaller < SAME_CLAUSE or (more & one.names and less & other.names):
        return False
    vague = (one.vague or other.vague) and len(shared) < VAGUE_WORDS
    return not vague and not (len(more) == len(less) == 1)


# ------------------------------------------------------------------------------------------------------------- outcome


def _relation(kind: RelationKind, matter: Matter, severity: Severity, first: str, second: str) -> Relation:
    return Relation(kind=kind, matter=matter, severity=severity, first=first, second=second, overlap=0.0)


def _agreement(one: Assertion, other: Assertion, overlap: float, on: Relation | None) -> Relation | None:
    """An equal date or number, else nearly the same words and enough of them."""
    if on is not None and on.kind == "agreement":
        return msgspec.structs.replace(on, overlap=overlap)
    shared = len(one.subject & other.subject)
    like = shared / max(len(one.subject), len(other.subject)) if shared >= AGREEING_WORDS else 0.0
    if on is not None or overlap < AGREES or like < SAME_LENGTH:
        return None
    return Relation(kind="agreement", matter="wording", severity="clarification", first="", second="", overlap=overlap)


def _softened(found: Relation, one: Assertion, other: Assertion) -> Relation:
    """A contradiction that one side only supposes, or that the later one announces as a change, is a refinement."""
    if found.kind != "contradiction":
        return found
    supposed = one.hedged != other.hedged
    if supposed or _replaces(one, other) or _replaces(other, one):
        return msgspec.structs.replace(found, kind="refinement", severity="clarification")
    return found


def _replaces(later: Assertion, earlier: Assertion) -> bool:
    in_order = not (later.said_at and earlier.said_at) or later.said_at >= earlier.said_at
    return later.replaces and not earlier.replaces and in_order
