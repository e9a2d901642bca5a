"""The days a sentence names, as stretches of time that can be held against those of another sentence. Pure."""

import re
from calendar import isleap
from collections.abc import Sequence
from datetime import UTC, date, datetime, tzinfo

import msgspec

from constants.calendar import MONTHS, WEEKDAYS
from gaiad.research.dates import Period, find_periods

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
