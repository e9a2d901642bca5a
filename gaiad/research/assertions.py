"""A sentence as something that can be held against another: what it is about, its dates, its numbers, its negations.

Pure. Rules over English words, no model; what they cannot read they leave out, so that two sentences which they cannot
compare do not disagree.
"""

import functools
import re
from calendar import isleap
from datetime import UTC, date, datetime, tzinfo

import msgspec

from constants.calendar import MONTHS, WEEKDAYS
from gaiad.research.dates import find_periods
from gaiad.research.disagreement_words import disagreement_words
from gaiad.research.quantities import Quantity, read_numbers
from gaiad.research.words import cut, normalise, stem, stop_words

_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_RELATIVE = re.compile(r"yesterday|today|tomorrow|tonight|night|last|this|previous|past|ago", re.IGNORECASE)
_MAY_BE_DATED = re.compile(
    r"\d|yesterday|today|tonight|\bago\b|\b(?:last|this|previous|past)\b|\b(?:"
    + "|".join((*MONTHS, *WEEKDAYS))
    + r")\b",
    re.IGNORECASE,
)
_CLAUSE_ENDS = re.compile(
    r"[;:,]|\s[-–]\s|—|\b(?:but|and|because|although|though|while|whereas|since|so that|that|which|who|whose|where|"
    r"unless|if|when)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\[[^\]]*\]")
_ORDINAL = re.compile(r"\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))\b")
_IT_TAKES = re.compile(r"it (?:takes|took|costs?|is (?:im)?possible)\b")  # "it" stands for nothing here
_CONTRACTED = re.compile(r"\b(\w+)n['’]t\b", re.IGNORECASE)
_ANY_DAY = datetime(2000, 1, 5, 12, tzinfo=UTC)  # a Wednesday, for a sentence of which nobody knows when it was said
_SAME_YEAR = 2000  # a leap year


class When(msgspec.Struct, frozen=True):
    """Days from `first` up to but without `end`, as ISO days. Without `year` the two are of some year or other.

    `weekday` says that it names a day of a week, or one counted from when it was said.
    """

    first: str
    end: str
    text: str
    year: bool
    relative: bool


class Clause(msgspec.Struct, frozen=True):
    """A part of a sentence with one statement: its words, whether it is negated, and which of its words stand there by
    their opposite (rejected, for accepted)."""

    words: frozenset[str]
    negated: bool
    opposite: frozenset[str] = frozenset()


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence read, without what stands in square brackets. `subject` are stems without numbers, dates and
    negations; `names` are those of its words that name one thing among others (capitalised in the sentence, numbered,
    or the speaker of an "I")."""

    text: str
    said_at: str
    subject: frozenset[str]
    names: frozenset[str]
    quantities: tuple[Quantity, ...]
    dates: tuple[When, ...]
    clauses: tuple[Clause, ...]
    vague: bool
    hedged: bool
    replaces: bool
    asks: bool


@functools.lru_cache(maxsize=4096)  # half a millisecond each, and the same packets are found again
def read_assertion(text: str, said_at: str = "", speaker: str = "", zone: tzinfo = UTC) -> Assertion:
    """Read one sentence. `said_at` (ISO 8601, "" when unknown) is what "yesterday" counts from, in days of `zone`."""
    table = disagreement_words()
    sentence = " ".join(_ASIDE.sub(" ", text).split())
    dates, undated = _dates(sentence, said_at, zone)
    numbers = read_numbers(undated)
    spoken = _CONTRACTED.sub(r"\1 not", numbers.rest)
    words = [word.lower for word in cut(spoken)]
    own = table.first_person & set(words[:8])
    names = {
        *_capitalised(sentence),
        *numbers.labels,
        *_ORDINAL.findall(numbers.rest),
        *([f"said by {normalise(speaker)}"] if own and speaker else []),
    }
    return Assertion(
        text=sentence,
        said_at=said_at,
        subject=frozenset(_telling(words)) | names,
        names=frozenset(names),
        quantities=tuple(one for one in numbers.quantities if one.unit or not _is_year(one)),
        dates=dates,
        clauses=_clauses(spoken, frozenset(names)),
        vague=bool(words) and words[0] in table.pronouns and not _IT_TAKES.match(spoken.strip()),
        hedged=bool(table.hedges & set(words)),
        replaces=any(pattern.search(sentence.lower()) for pattern in _replacements()),
        asks=sentence.endswith("?"),
    )


@functools.cache
def _replacements() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in disagreement_words().replacements)


@functools.cache
def _opposite() -> dict[str, tuple[str, int]]:
    """A word of the table -> the stem of its pair's positive word, and 1 when it is the negative one."""
    found: dict[str, tuple[str, int]] = {}
    for positive, negative in disagreement_words().opposites:
        found.setdefault(positive, (stem(positive), 0))
        found.setdefault(negative, (found[positive][0], 1))
    return found


@functools.cache
def _same() -> dict[str, str]:
    """A word of the table -> the stem of the first of those that say the same."""
    return {word: stem(group[0]) for group in disagreement_words().same for word in group}


def _is_year(quantity: Quantity) -> bool:
    return bool(_YEAR.fullmatch(quantity.text))


# -------------------------------------------------------------------------------------------------------------- words


def _telling(words: list[str]) -> list[str]:
    """The stems of the words that say what a sentence is about."""
    idle, same = _idle(), _same()
    return [same.get(word) or stem(word) for word in words if word not in idle and not word[0].isdigit()]


@functools.cache
def _idle() -> frozenset[str]:
    """Words that do not say what a sentence is about."""
    table = disagreement_words()
    return frozenset(stop_words() | table.about_changes | table.hedges | table.negations)


def _capitalised(sentence: str) -> list[str]:
    """Stems of words with a capital inside the sentence, months and weekdays left out."""
    words = cut(sentence)[1:]
    named = [word.lower for word in words if word.text[0].isupper() and word.text != "I"]
    return [stem(word) for word in named if word not in MONTHS and word not in WEEKDAYS and word not in stop_words()]


def _clauses(spoken: str, names: frozenset[str]) -> tuple[Clause, ...]:
    """The clauses of a sentence that state something; each is about the sentence's names."""
    read = [_clause(part) for part in _CLAUSE_ENDS.split(spoken)]
    return tuple(msgspec.structs.replace(one, words=one.words | names) for one in read if len(one.words) > 1)


def _clause(part: str) -> Clause:
    table, opposites = disagreement_words(), _opposite()
    negations = 0
    kept: set[str] = set()
    opposite: set[str] = set()
    for word in (one.lower for one in cut(part)):
        if word in table.negations:
            negations += 1
        elif word in opposites and (word not in stop_words() or _ends_so(part, word)):
            token, sign = opposites[word]
            kept.add(token)
            opposite |= {token} if sign else set()
        else:
            kept.update(_telling([word]))
    return Clause(frozenset(kept), bool(negations % 2), frozenset(opposite))


def _ends_so(part: str, word: str) -> bool:
    """ "on" and "off" are opposites only where the clause ends with them: the light is on."""
    return bool(re.search(rf"\b{word}\W*$", part))


# -------------------------------------------------------------------------------------------------------------- dates


def _dates(sentence: str, said_at: str, zone: tzinfo) -> tuple[tuple[When, ...], str]:
    """The closed stretches of time named, the narrower of two that lie in each other, and the sentence without them."""
    if not _MAY_BE_DATED.search(sentence):
        return (), sentence
    now = datetime.fromisoformat(said_at) if said_at else _ANY_DAY
    found, rest, last = [], [], 0
    for period in find_periods(sentence, now if now.tzinfo else now.replace(tzinfo=zone), zone):
        rest.append(sentence[last : period.start])
        last = period.end
        if period.since is not None and period.until is not None:
            found.append(_when(period.since.astimezone(zone), period.until.astimezone(zone), period.text))
    narrow = [one for one in found if not any(_strictly_inside(other, one) for other in found)]
    return tuple(narrow), " ".join([*rest, sentence[last:]])


def _when(since: datetime, until: datetime, text: str) -> When:
    year = bool(_YEAR.search(text))
    relative = not re.search(r"\d", text) and not any(re.search(rf"\b{month}\b", text.lower()) for month in MONTHS)
    relative = relative or bool(_RELATIVE.search(text))
    first, end = since.date(), until.date()
    if not year and not relative:
        later = end.year - first.year
        first, end = first.replace(year=_SAME_YEAR), _in_year(end, _SAME_YEAR + later)
    return When(first.isoformat(), end.isoformat(), text, year, relative)


def _in_year(day: date, year: int) -> date:
    """The same day of another year; 1 March for a 29 February that the year has not."""
    leap = day.month == 2 and day.day == 29
    return date(year, 3, 1) if leap and not isleap(year) else day.replace(year=year)


def _strictly_inside(inner: When, outer: When) -> bool:
    return (
        (inner.first, inner.end) != (outer.first, outer.end) and outer.first <= inner.first and inner.end <= outer.end
    )
