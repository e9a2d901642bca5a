"""Do two sentences of different packets contradict each other, or refine one another: by date, number, negation.

Pure, rules only. Precision comes first: a sentence that cannot be shown to be about the same thing is left alone. What
the rules find on labelled pairs is held by a floor in the tests.

contradiction   both cannot hold: days that do not meet, numbers that do not meet, one says what the other denies
refinement      both can: one is more precise, softened, or says that it takes the place of the other
                (`replaces`: then only the later one holds)
agreement       the same thing is said
"""

import functools
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Literal

import msgspec

from gaiad.research.assertions import Assertion, Clause
from gaiad.research.sentence_values import O_CLOCK, Quantity, When, disagreement_words
from gaiad.research.words import cut, stem

RelationKind = Literal["contradiction", "refinement", "agreement"]
Matter = Literal["date", "time", "number", "negation", "value", "change", "wording"]
Severity = Literal["major", "minor", "clarification"]


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """How two assertions stand to each other. `first` and `second` are what differs, in their own words.

    `overlap` is the share of the shorter one's words that both have, 0 to 1; `replaces` is the one that takes the place
    of the other, "" for none.
    """

    kind: RelationKind
    matter: Matter
    severity: Severity
    first: str
    second: str
    overlap: float
    replaces: Literal["", "first", "second"] = ""


def relation(kind: RelationKind, matter: Matter, severity: Severity, first: str, second: str) -> Relation:
    """A relation without its overlap."""
    return Relation(kind=kind, matter=matter, severity=severity, first=first, second=second, overlap=0.0)


SAME_CLAUSE = 0.75  # for a negation, which may belong to another part of a longer sentence
VAGUE_WORDS = 3  # so many words a sentence must share that begins with "it"
# Base forms that are past forms, too: "did not put" denies "put".
_PAST_TOO = frozenset(
    ("put", "read", "cut", "set", "let", "hit", "cost", "shut", "quit", "hurt", "spread", "beat", "cast", "split")
)


def deny(one: Assertion, other: Assertion) -> Relation | None:
    """A clause of one that is a clause of the other turned round."""
    for mine in one.clauses:
        for its in other.clauses:
            if _turned_round(mine, its) and _same_clause(mine, its, one, other):
                return relation("contradiction", "negation", "major", one.text, other.text)
    return None


def _turned_round(mine: Clause, its: Clause) -> bool:
    """Whether one says what the other denies, by a negation or by an opposite of a word of the other's."""
    if mine.rule != its.rule or _never_happened(mine, its) or _never_happened(its, mine):
        return False
    changed = mine.opposite.symmetric_difference(its.opposite) & mine.words & its.words
    return (len(changed) + mine.negated + its.negated) % 2 == 1


def _never_happened(denial: Clause, its: Clause) -> bool:
    """Whether one says that something did not happen, and the other that it does, or is to."""
    verb = denial.did_not
    return (
        bool(verb) and verb not in _PAST_TOO and "did" not in its.written and {verb, f"{verb}s"} & its.written != set()
    )


def _same_clause(mine: Clause, its: Clause, one: Assertion, other: Assertion) -> bool:
    shared, more, less = mine.words & its.words, mine.words - its.words, its.words - mine.words
    smaller = min(len(mine.words), len(its.words))
    if smaller < 2 or len(shared) / smaller < SAME_CLAUSE or (more & one.names and less & other.names):
        return False
    if any(clause.negated and not _holds(clause, beside) for clause, beside in ((mine, its), (its, mine))):
        return False
    vague = (one.vague or other.vague) and len(shared) < VAGUE_WORDS
    return not vague and not (len(more) == len(less) == 1)


def _holds(denial: Clause, beside: Clause) -> bool:
    """Whether what is denied, and not the names alone, occurs in the other clause."""
    return not denial.own or len(denial.own & beside.words) >= 0.5 * len(denial.own)


_VALUE = r" (?:the )?(?P<value>[A-Z][\w+#'’-]*(?: [A-Z][\w+#'’-]*)*)"
_LEAST_SHARED = 2


def exchanged(one: Assertion, other: Assertion) -> tuple[str, str] | None:
    """The two values, as they stand there; None when the two do not name another one of the same thing."""
    if len(one.subject & other.subject) < _LEAST_SHARED:
        return None
    named, its_named = values_in(one.text), values_in(other.text)
    for kind in (kind for kind in named if kind in its_named):
        mine, its = named[kind], its_named[kind]
        values = _stems(mine), _stems(its)
        rest = one.subject - values[0], other.subject - values[1]
        if not values[0] & values[1] and rest[0] == rest[1] and len(rest[0]) >= _LEAST_SHARED:
            return mine, its
    return None


@functools.lru_cache(maxsize=1024)
def values_in(sentence: str) -> Mapping[int, str]:
    """The first value named in each of the ways of the table, by its place there."""
    found = ((place, pattern.search(sentence)) for place, pattern in enumerate(_patterns()))
    return {place: match["value"] for place, match in found if match}


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"(?i:{one}){_VALUE}") for one in disagreement_words().one_value)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word.lower) for word in cut(text))


SAME_SUBJECT = 0.6  # the share of the shorter sentence's words that the other has too
AGREES, AGREEING_WORDS, SAME_LENGTH = 0.8, 3, 0.6  # of the shorter's words, how many at least, of the longer's
FAR_DAYS, FAR_RATIO = 31, 1.5  # from here on a difference is major
_EQUAL = 1e-9


def compare(one: Assertion, other: Assertion) -> Relation | None:
    """The relation of two assertions, None when they are about different things or cannot be held together."""
    if one.asks or other.asks or one.condition != other.condition:
        return None
    overlap, denied = same_subject(one, other), deny(one, other)
    found = _apart(one, other, overlap, denied) or _changed(one, other, overlap)
    found = found or (None if overlap else _apart_in_a_part(one, other))
    if found is not None:
        return _softened(msgspec.structs.replace(found, overlap=found.overlap or overlap or SAME_CLAUSE), one, other)
    if not overlap or (one.change is None) != (other.change is None):
        return None
    dates, numbers = _compare_dates(one, other), _compare_numbers(one, other)
    if _two_events(one, other, dates, numbers, denied):
        return None
    refining = _refining(dates, numbers)
    if refining is None:
        return _agreement(one, other, overlap, dates or numbers)
    return msgspec.structs.replace(refining, overlap=overlap)


def _apart(one: Assertion, other: Assertion, overlap: float, denied: Relation | None) -> Relation | None:
    """What both cannot be: a date, a number, what one denies, the one value of a thing."""
    if not overlap:
        found = denied or _exchanged(one, other)
        return None if found and _other_day(one, other) else found
    dates, numbers = _compare_dates(one, other), _compare_numbers(one, other)
    if _two_events(one, other, dates, numbers, denied):
        return None
    apart = (relation for relation in (dates, numbers) if relation and relation.kind == "contradiction")
    return next(apart, None) or denied or _exchanged(one, other)


def _two_events(
    one: Assertion, other: Assertion, dates: Relation | None, numbers: Relation | None, denied: Relation | None
) -> bool:
    """Another time, and another thing said of it."""
    says_otherwise = denied or (numbers and numbers.kind == "contradiction" and numbers.matter != "time")
    return bool(says_otherwise) and (_other_day(one, other) or bool(dates and dates.kind == "contradiction"))


def _other_day(one: Assertion, other: Assertion) -> bool:
    """Whether both name times that are not shown to meet: a Monday of one week, a Thursday of another."""
    dates = _compare_dates(one, other)
    return bool(one.dates and other.dates) and (dates is None or dates.kind == "contradiction")


def _apart_in_a_part(one: Assertion, other: Assertion) -> Relation | None:
    """Dates or numbers that do not meet in clauses about the same thing, whatever else the two sentences tell."""
    for mine in one.parts or (one,):
        for its in other.parts or (other,):
            shared = mine.subject & its.subject
            more = max(len(mine.subject), len(its.subject))
            if len(shared) < 2 or len(shared) < SAME_CLAUSE * more or not (overlap := same_subject(mine, its)):
                continue
            found = _apart(mine, its, overlap, None)
            if found is not None and found.matter in ("date", "time", "number"):
                return msgspec.structs.replace(found, overlap=overlap)
    return None


def _exchanged(one: Assertion, other: Assertion) -> Relation | None:
    """Another value of what has one at a time."""
    values = exchanged(one, other)
    return relation("contradiction", "value", "major", *values) if values else None


def _changed(one: Assertion, other: Assertion, overlap: float) -> Relation | None:
    """One of them gives up what the other holds."""
    for later, earlier in ((one, other), (other, one)):
        if later.change is None or earlier.change is not None:
            continue
        gone = later.change.given_up
        rest, kept = earlier.subject - gone, later.subject - gone
        named = len(gone & earlier.subject) > 0 and len(rest & kept) >= SAME_CLAUSE * max(1, len(rest))
        if named or (not gone and overlap):
            in_order = not (later.said_at and earlier.said_at) or later.said_at >= earlier.said_at
            texts = (later.text, earlier.text) if later is one else (earlier.text, later.text)
            return relation("refinement" if in_order else "contradiction", "change", "clarification", *texts)
    return None


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
        return relation("contradiction", "date", severity, mine.text, its.text)
    equal = any(_days(mine, its) == _days(its, mine) for mine, its in met)
    if equal:
        return relation("agreement", "date", "clarification", mine.text, its.text)
    nested = _inside(mine, its) or _inside(its, mine)
    return relation("refinement", "date", "clarification", mine.text, its.text) if nested else None


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
    pairs = [pair for pair in pairs if pair[0].unit == O_CLOCK] or pairs
    matter: Matter = "time" if pairs[0][0].unit == O_CLOCK else "number"
    met = [(mine, its) for mine, its in pairs if _touch(mine, its)]
    mine, its = (met or pairs)[0]
    if not met:
        severity: Severity = "major" if _ratio(mine, its) >= FAR_RATIO else "minor"
        return relation("contradiction", matter, severity, mine.text, its.text)
    if any(math.isclose(mine.low, its.low) and math.isclose(mine.high, its.high) for mine, its in met):
        return relation("agreement", matter, "clarification", mine.text, its.text)
    return relation("refinement", matter, "clarification", mine.text, its.text)


def _touch(mine: Quantity, its: Quantity) -> bool:
    """Whether one number can be both: the intervals meet, or one is the other rounded."""
    slack = max(mine.step, its.step) / 2 if mine.step != its.step and mine.step and its.step else 0.0
    slack += _EQUAL * min(abs(end) for end in (mine.low, mine.high, its.low, its.high))
    return mine.low <= its.high + slack and its.low <= mine.high + slack


def _ratio(mine: Quantity, its: Quantity) -> float:
    """How many times the smaller the larger is, by the ends that are nearest to each other."""
    lower, upper = (mine.high, its.low) if mine.high < its.low else (its.high, mine.low)
    return upper / lower if lower > 0 else FAR_RATIO


# ------------------------------------------------------------------------------------------------------------- outcome


def _agreement(one: Assertion, other: Assertion, overlap: float, on: Relation | None) -> Relation | None:
    """An equal date or number, else nearly the same words and enough of them."""
    if on is not None and on.kind == "agreement":
        return msgspec.structs.replace(on, overlap=overlap)
    shared = len(one.subject & other.subject)
    like = shared / max(len(one.subject), len(other.subject)) if shared >= AGREEING_WORDS else 0.0
    denied = any(clause.negated for clause in one.clauses) != any(clause.negated for clause in other.clauses)
    if on is not None or overlap < AGREES or like < SAME_LENGTH or denied:
        return None
    return Relation(kind="agreement", matter="wording", severity="clarification", first="", second="", overlap=overlap)


def _softened(found: Relation, one: Assertion, other: Assertion) -> Relation:
    """A contradiction that one side only supposes, or that the later one announces as a change, is a refinement."""
    if found.matter == "change":
        later = found.kind == "refinement" and ("first" if one.change else "second")
        return msgspec.structs.replace(found, replaces=later or "", severity="clarification" if later else "major")
    if found.kind != "contradiction":
        return found
    replaces: Literal["", "first", "second"] = (
        "first" if _replaces(one, other) else "second" if _replaces(other, one) else ""
    )
    if one.hedged != other.hedged or replaces:
        return msgspec.structs.replace(found, kind="refinement", severity="clarification", replaces=replaces)
    return found


def _replaces(later: Assertion, earlier: Assertion) -> bool:
    in_order = not (later.said_at and earlier.said_at) or later.said_at >= earlier.said_at
    return later.replaces and not earlier.replaces and in_order
