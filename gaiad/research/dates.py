"""Dates in words, read against an injected day and zone: "in November", "last week", "between March and May 2025".

A month without a year is the most recent one that is neither in the future nor later than the newest packet: "in
November", asked before this November has a packet, means the last one. A word that is also a name or a verb (may,
march, april) counts as a date only beside a preposition of time, a day or a year.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache

import msgspec

from gaiad.research.date_forms import (
    COUNT,
    FORMS,
    MONTH,
    UNIT,
    WEEKDAY_NUMBERS,
    YEAR,
    Days,
    anonymous,
    read_days,
    span_days,
)


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time a question names. UTC, `since` inclusive, `until` exclusive; None is open.

    `start` and `end` are where its words occur in the question, in characters.
    """

    since: datetime | None
    until: datetime | None
    text: str
    start: int
    end: int


ANY = "(?:" + "|".join(anonymous(pattern) for _, pattern, _ in FORMS) + ")"
_STRONG = "(?:" + "|".join(anonymous(pattern) for weak, pattern, _ in FORMS if not weak) + ")"
_TO = "(?:to|until|till|through|-|–|and)"
_BEFORE, _AFTER = ("before", "prior to", "earlier than", "leading up to"), ("after", "later than", "following")
LENGTH = (
    rf"(?:(?:the (?P<count>{COUNT}|)|(?P<number>{COUNT})) ?(?P<unit>{UNIT})s? "
    "(?=before|prior|leading|after|following))?"
)
"""How long before or after something, as `the week` and `two days`."""
_USUAL_YEARS = (1100, 8900)
"""999 years, the most that a question can name, before and after their days there are days still."""
_SIDES = "|".join(("no later than", *_BEFORE, *_AFTER, "since", "until", "till", "up to", "by", "starting"))
_PERIODS = (
    rf"\b(?:between|from) (?P<a>{ANY}) ?{_TO} ?(?P<b>{ANY})",
    rf"(?<![\w-])(?P<a>{_STRONG}) ?(?:to|until|till|through|–| - ) ?(?P<b>{ANY})",
    rf"\b{LENGTH}(?P<side>{_SIDES}) (?P<a>{ANY})",
    rf"\b(?:in|during|on|from|of|for|throughout|dated|within|around|at|between) (?P<a>{ANY})",
    rf"(?<![\w-])(?P<a>{_STRONG})",
)


@cache
def _periods() -> list[re.Pattern[str]]:
    """Compiled at the first question: these patterns are long, and the daemon starts without them."""
    return [re.compile(pattern) for pattern in _PERIODS]


def _completed(text: str, other: str) -> str:
    """`march` beside `may 2025` is March 2025, `the 3rd` beside `the 5th of may` the 3rd of May."""
    if re.fullmatch(r"the \d{1,2}(?:st|nd|rd|th)", text) and (month := re.search(rf"{MONTH}(?:,? ?{YEAR})?", other)):
        return f"{text} of {month.group()}"
    year = re.search(YEAR, other)
    return f"{text} {year.group()}" if year and not re.search(r"\d{4}", text) and re.match(MONTH, text) else text


def _range(first: str, last: str, today: date, latest: date | None) -> Days | None:
    end = read_days(last, today, latest)
    start = read_days(_completed(first, last), today, latest) if end else None
    if start is None or end is None:
        return None
    if start[0] >= end[1] and first in WEEKDAY_NUMBERS:
        start = start[0] - timedelta(days=7), start[1] - timedelta(days=7)
    elif start[0] >= end[1] and not re.search(YEAR, first + last):
        ends = (read_days(f"{last} {start[0].year + more}", today) for more in (0, 1))
        later = next((days for days in ends if days and start[0] < days[1] and days[0] <= today), None)
        end = later or end
        start = start if later else read_days(f"{first} {end[0].year - 1}", today) or start
    return (start[0], end[1]) if start[0] < end[1] else (end[0], start[1])


def _side(side: str, days: Days, length: timedelta | None) -> tuple[date | None, date | None]:
    """The open side of `days`, or as much of it as `length`: `the week before November 27`."""
    if side in ("since", "starting"):
        return days[0], None
    if side in _AFTER:
        return days[1], days[1] + length if length else None
    if side in _BEFORE:
        return days[0] - length if length else None, days[0]
    return None, days[1]


def length_named(groups: dict[str, str | None]) -> timedelta | None:
    """What LENGTH matched; None when nothing."""
    unit = groups.get("unit")
    return timedelta(days=span_days(groups["count"] or groups["number"] or "", unit)) if unit else None


def _resolve(match: re.Match[str], today: date, latest: date | None) -> tuple[date | None, date | None] | None:
    """The days that the words name; None for none, and for days that are hardly meant (0001-01-01, 9999-12-31)."""
    groups = match.groupdict()
    if "b" in groups:
        span = _range(groups["a"], groups["b"], today, latest)
        return span if span and _usual(span) else None
    days = read_days(groups["a"], today, latest)
    if days is None or not _usual(days):
        return None
    if not groups.get("side"):
        return days
    ends = _side(groups["side"], days, length_named(groups))
    return ends if _usual(ends) else None


def _usual(days: tuple[date | None, date | None]) -> bool:
    """Whether zones and searches that are widened have days for them, too."""
    return all(_USUAL_YEARS[0] <= day.year <= _USUAL_YEARS[1] for day in days if day)


def find_periods(text: str, now: datetime, zone: tzinfo, newest: datetime | None = None) -> list[Period]:
    """Every period `text` names, in the order of their places; `now` is zone-aware, days are those of `zone`.

    `newest` is when the archive's last packet was made; None when there is none.
    """
    latest = newest.astimezone(zone).date() if newest else None
    today = now.astimezone(zone).date()
    lower = text.lower()
    if len(lower) != len(text):  # a few letters change their length in lower case; keep the offsets true
        lower = "".join(character.lower() if len(character.lower()) == 1 else character for character in text)
    matches = [match for pattern in _periods() for match in pattern.finditer(lower)]
    matches.sort(key=lambda match: match.start() - match.end())  # the longest reading of a place wins
    found: list[Period] = []
    for match in matches:
        if any(match.start() < period.end and period.start < match.end() for period in found):
            continue
        resolved = _resolve(match, today, latest)
        if resolved is not None:
            since, until = (_midnight(day, zone) if day else None for day in resolved)
            words = text[match.start() : match.end()]
            found.append(Period(since=since, until=until, text=words, start=match.start(), end=match.end()))
    return sorted(found, key=lambda period: period.start)


def moved(moment: datetime, by: timedelta) -> datetime | None:
    """`moment + by`, None (open) where the calendar has no such time."""
    try:
        return moment + by
    except OverflowError:
        return None


def hull(periods: list[Period]) -> tuple[datetime | None, datetime | None]:
    """The smallest span that holds all periods; (None, None) for none. An open side stays open.

    `in November before the 20th`: of a period with both ends what an open one leaves of it.
    """
    if not periods:
        return None, None
    starts = [period.since for period in periods]
    ends = [period.until for period in periods]
    if len(periods) == 2 and _one_open_each(periods):
        return _bounded(next(p for p in periods if p.since), next(p for p in periods if p.until))
    if inside := _inside(periods):
        return inside
    first = None if None in starts else min(s for s in starts if s)
    last = None if None in ends else max(e for e in ends if e)
    return first, last


def _one_open_each(periods: list[Period]) -> bool:
    """`after March and before June`: two half-open periods that bound one span."""
    return {(p.since is None, p.until is None) for p in periods} == {(True, False), (False, True)}


def _bounded(after: Period, before: Period) -> tuple[datetime | None, datetime | None]:
    """`since November until February`: the November before that February. What no year mends bounds nothing."""
    since, until = after.since, before.until
    if since and until and since >= until and _is_yearless(after) and _is_yearless(before):
        since = since.replace(year=since.year - 1, day=min(since.day, 28) if since.month == 2 else since.day)
    return (since, until) if since and until and since < until else (None, None)


def _is_yearless(period: Period) -> bool:
    text = period.text.lower()
    return bool(re.search(MONTH, text)) and not re.search(YEAR, text)


def _inside(periods: list[Period]) -> tuple[datetime, datetime] | None:
    """What open periods leave of the closed ones; None when there are not both, or nothing is left."""
    closed = [(period.since, period.until) for period in periods if period.since and period.until]
    if not closed or len(closed) == len(periods):
        return None
    starts = [period.since for period in periods if period.since and not period.until]
    ends = [period.until for period in periods if period.until and not period.since]
    since = max([min(first for first, _ in closed), *starts])
    until = min([max(last for _, last in closed), *ends])
    return (since, until) if since < until else None


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time.min, zone).astimezone(UTC)
