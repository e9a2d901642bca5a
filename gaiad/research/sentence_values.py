"""What a sentence names that can be compared: dates, clock times, and numbers with their units. Pure.

The words come from constants/disagreement_words.toml.
"""

import functools
import math
import re
from calendar import isleap
from collections.abc import Sequence
from datetime import UTC, date, datetime, tzinfo

import msgspec

from constants.calendar import MONTHS, WEEKDAYS
from constants.load import load
from gaiad.research.dates import Period, find_periods
from gaiad.research.words import normalise, stem, stop_words


class DisagreementWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As the file has them; `units` maps a word or symbol to its unit and how many of it that is."""

    negations: frozenset[str]
    hedges: frozenset[str]
    replacements: tuple[str, ...]
    given_up: tuple[str, ...]
    one_value: tuple[str, ...]
    about_changes: frozenset[str]
    pronouns: frozenset[str]
    first_person: frozenset[str]
    same: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    numbers: tuple[str, ...]
    tens: tuple[str, ...]
    about: tuple[str, ...]
    at_least: tuple[str, ...]
    at_most: tuple[str, ...]
    opposites: tuple[tuple[str, str], ...]
    units: dict[str, tuple[str, float]]


@functools.cache
def disagreement_words() -> DisagreementWords:
    """The shipped table."""
    return load("disagreement_words.toml", DisagreementWords)


ROUGHLY = 0.15  # "about 40" is 34 to 46
_MULTIPLES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_MOST_DECIMALS = 300  # a float has hardly a smaller last digit
_LOOKED_BACK = 60
"""Characters before a number, among which "no fewer than" and its like stand."""
_TIGHT_UNIT = re.compile(r"(?<=\d)(?=(?:ms|km|kg|mm|cm|mb|gb|kb|mib|gib|ml|min|h|s|m|g|l)\b)")


class Quantity(msgspec.Struct, frozen=True):
    """`low` to `high` of `unit` ("" when it counts nothing that is named); `text` is how it occurs in the sentence.

    `step` is what its last digit counts, 0.0 for an interval or a rough number: "12.4 ms" has 0.0001 seconds.
    """

    low: float
    high: float
    unit: str
    text: str
    step: float = 0.0


class Numbers(msgspec.Struct, frozen=True):
    """What occurs in a sentence; `rest` is the sentence, in lower case, without them and their units."""

    quantities: tuple[Quantity, ...]
    labels: tuple[str, ...]
    rest: str


@functools.cache
def _small() -> dict[str, int]:
    return {word: number for number, word in enumerate(disagreement_words().numbers)} | {"dozen": 12, "a dozen": 12}


@functools.cache
def _tens() -> dict[str, int]:
    return {word: 10 * number for number, word in enumerate(disagreement_words().tens, start=2)}


@functools.cache
def number_words() -> frozenset[str]:
    """The words without which, or a digit, no number is written."""
    return frozenset(part for word in (*_small(), *_tens()) for part in word.split())


@functools.cache
def _pattern() -> re.Pattern[str]:
    ones = "|".join(sorted(_small(), key=len, reverse=True))
    written = rf"(?:(?:{'|'.join(_tens())})(?:-(?:{ones}))?|{ones})\b"
    number = rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|{written})"
    low = rf"(?P<low>{number})(?: ?(?P<low_times>{'|'.join(_MULTIPLES)})\b)?"
    high = low.replace("<low", "<high")
    after = r"(?![\w:/]|-\d|[.,]\d)(?:(?P<percent> ?%)|[ -](?P<unit>[a-z]+)\b)?"
    return re.compile(rf"(?<![\w.,:/-])(?P<symbol>[$€£])?{low}(?: ?(?:-|–|to|and) ?{high})?{after}")


@functools.cache
def _label_pattern() -> re.Pattern[str]:
    names = "|".join(disagreement_words().labels)
    return re.compile(
        rf"\b(?P<name>{names})\.? #?(?P<number>\d+(?:\.\d+)*)(?!\w|[.,]\d| ?%)"
        r"|#(?P<bare>\d+)\b|@ ?(?P<cut>\d+)\b|\bat (?P<at>\d+)(?= (?:is|was|of|reached|rose|fell)\b)"
    )


def read_numbers(text: str) -> Numbers:
    """The quantities and labels of `text`; dates should be gone from it."""
    rest = _TIGHT_UNIT.sub(" ", text.lower())
    labels = [
        f"{match['name'] or 'number'} {match['number'] or match['bare'] or match['cut'] or match['at']}"
        for match in _label_pattern().finditer(rest)
    ]
    rest = _label_pattern().sub(" ", rest)
    quantities, pieces, last = [], [], 0
    for match in _pattern().finditer(rest):
        quantity = _quantity(match, rest[max(0, match.start() - _LOOKED_BACK) : match.start()])
        if quantity is None:
            continue
        quantities.append(quantity)
        pieces.append(rest[last : match.start()])
        last = match.end() if _is_measure(match) else match.end("high") if match["high"] else match.end("low")
        last = max(last, match.end("high_times"), match.end("low_times"))
    return Numbers(tuple(quantities), tuple(labels), " ".join([*pieces, rest[last:]]))


def written_numbers(text: str) -> dict[float, str]:
    """The numbers of `text` without their units, and how each is written; `one` is a pronoun more often than not."""
    found: dict[float, str] = {}
    for match in _pattern().finditer(text.lower()):
        for end in ("low", "high"):
            if match[end] and match[end] != "one":
                found.setdefault(_value(match[end], match[f"{end}_times"]), match[end])
    return found


def _is_measure(match: re.Match[str]) -> bool:
    return bool(match["percent"]) or (match["unit"] or "") in disagreement_words().units


def _quantity(match: re.Match[str], before: str) -> Quantity | None:
    unit, factor = _unit(match)
    if match["low"] == "one" and not factor:
        return None  # "the one that"
    factor = factor or 1.0
    words = re.split(r"[^a-z ]", before)[-1].rstrip()
    text = match.group().strip()
    ends = _ends(match, words)
    if ends is not None:
        return Quantity(ends[0] * factor, ends[1] * factor, unit, text)
    value = _value(match["low"], match["low_times"]) * factor
    table = disagreement_words()
    if _ends_with(words, table.about):
        return Quantity(value * (1 - ROUGHLY), value * (1 + ROUGHLY), unit, f"about {text}")
    if phrase := _ends_with(words, (*table.at_most, *table.at_least)):  # "no fewer than" before "fewer than"
        low, high = (-math.inf, value) if phrase in table.at_most else (value, math.inf)
        return Quantity(low, high, unit, f"{phrase} {text}")
    decimals = len(match["low"].partition(".")[2]) if match["low"][0].isdigit() else 0
    return Quantity(
        value, value, unit, text, factor * _MULTIPLES.get(match["low_times"], 1) / 10.0 ** min(decimals, _MOST_DECIMALS)
    )


def _ends(match: re.Match[str], words: str) -> tuple[float, float] | None:
    """The two ends of "3-5" or "between 3 and 5", None for a number alone."""
    if not match["high"]:
        return None
    joined = match.string[match.end("low") : match.start("high")]
    if "and" in joined and not _ends_with(words, ("between",)):
        return None
    low, high = (
        _value(match["low"], match["low_times"] or match["high_times"]),
        _value(match["high"], match["high_times"]),
    )
    return (low, high) if low < high else None


def _ends_with(words: str, phrases: tuple[str, ...]) -> str:
    """The longest phrase that `words` end with, "" for none."""
    found = [phrase for phrase in phrases if words == phrase or words.endswith(f" {phrase}")]
    return max(found, key=len, default="")


def _unit(match: re.Match[str]) -> tuple[str, float]:
    """The unit, and how many of it one is; 0.0 when it is a noun that is counted."""
    units = disagreement_words().units
    symbol = match["symbol"] or ("%" if match["percent"] else match["unit"] or "")
    if symbol in units:
        return units[symbol]
    word = normalise(symbol)
    return (stem(word), 0.0) if word and word not in stop_words() else ("", 0.0)


def _value(written: str, times: str | None) -> float:
    multiple = _MULTIPLES[times] if times else 1
    if written[0].isdigit():
        return float(written.replace(",", "")) * multiple
    if written in _small():
        return float(_small()[written]) * multiple
    tens, _, ones = written.partition("-")
    return float(_tens()[tens] + (_small()[ones] if ones else 0)) * multiple


O_CLOCK = "o'clock"
"""The unit of a time of day."""
_ONE = r"(?:(?:[01]?\d|2[0-3])[:.][0-5]\d(?: ?[ap]\.?m\b\.?)?|(?:1[0-2]|[1-9]) ?[ap]\.?m\b\.?|noon\b|midnight\b)"
_TIMES = re.compile(
    rf"(?<![\w:.,/-])(?:(?:at|by|from|around|about|until) )?(?P<first>{_ONE})"
    rf"(?: ?(?:-|–|to|until) ?(?P<last>{_ONE}))?(?![\w:/%])",
    re.IGNORECASE,
)
_PARTS = re.compile(r"(?P<hour>\d+)(?:[:.](?P<minute>\d\d))? ?(?P<half>[ap])?", re.IGNORECASE)
_DAY = 24 * 60.0
_NAMED = {"noon": 12 * 60, "midnight": 0}
_MARKED = re.compile(r":|[ap]\.?m|noon|midnight", re.IGNORECASE)


def read_times(sentence: str) -> tuple[tuple[Quantity, ...], str]:
    """The times of day named, and the sentence without them. "14.30" is a number, "14:30" and "2.30 pm" are times."""
    found, rest, last = [], [], 0
    for match in _TIMES.finditer(sentence):
        if not _MARKED.search(match["first"]):
            continue
        low = _minutes(match["first"])
        high = _minutes(match["last"]) if match["last"] else low
        high += _DAY if high < low else 0  # past midnight
        found.append(Quantity(low, high, O_CLOCK, match.group().strip()))
        rest.append(sentence[last : match.start()])
        last = match.end()
    return tuple(found), " ".join([*rest, sentence[last:]]) if found else sentence


def _minutes(written: str) -> float:
    parts = _PARTS.match(written)
    if parts is None:
        return float(_NAMED[written.lower()])
    half = (parts["half"] or "").lower()
    hour = int(parts["hour"]) % 12 if half else int(parts["hour"])
    return float(60 * (hour + (12 if half == "p" else 0)) + int(parts["minute"] or 0))


_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_DIGIT = re.compile(r"\d")
_RELATIVE = re.compile(r"yesterday|today|tomorrow|tonight|night|last|this|previous|past|ago", re.IGNORECASE)
_MAY_BE_DATED = re.compile(
    r"\d|yesterday|today|tonight|\bago\b|\b(?:last|this|previous|past)\b|\b(?:"
    + "|".join((*MONTHS, *WEEKDAYS))
    + r")\b",
    re.IGNORECASE,
)
# A day before the verb tells a thing from others, as a name does: "the meeting on March 3 was about the budget".
_VERB_AFTER = re.compile(
    r",? ?(?:was|were|is|are|will|had|has|have|did|went|brought|ended|lasted|covered)\b", re.IGNORECASE
)
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_WEEKDAY_BESIDE = re.compile(
    rf"\b(?:{'|'.join(WEEKDAYS)}),? (?:the )?(?=\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b|(?:{_MONTH})\b\.? \d)",
    re.IGNORECASE,
)  # which is the day that follows it
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


def dates_in(
    sentence: str, said_at: str, zone: tzinfo
) -> tuple[tuple[When, ...], tuple[str, ...], str, Sequence[Period]]:
    """The closed stretches of time named, the narrower of two that lie in each other; the days that stand there as
    names; the sentence without any of them; and their places."""
    if not may_be_dated(sentence):
        return (), (), sentence, ()
    now = datetime.fromisoformat(said_at) if said_at else _ANY_DAY
    periods = find_periods(sentence, now if now.tzinfo else now.replace(tzinfo=zone), zone)
    found, names, rest, last = [], [], [], 0
    for period in periods:
        before = sentence[last : period.start]
        rest.append(before)
        last = period.end
        if period.since is None or period.until is None:
            continue
        when = _when(period.since.astimezone(zone), period.until.astimezone(zone), period.text)
        if before.strip() and _VERB_AFTER.match(sentence[period.end :].lstrip()):
            names.append(f"of {when.first}")
        else:
            found.append(when)
    narrow = [one for one in found if not any(_strictly_inside(other, one) for other in found)]
    return tuple(narrow), tuple(names), " ".join([*rest, sentence[last:]]), periods


def may_be_dated(sentence: str) -> bool:
    """Whether a word or a digit of it may belong to a date."""
    return bool(_MAY_BE_DATED.search(sentence))


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


def without_weekdays(sentence: str) -> str:
    """The sentence without a weekday before its date, of which the date tells: "Friday, 5 December"."""
    return _WEEKDAY_BESIDE.sub("", sentence) if _DIGIT.search(sentence) else sentence
