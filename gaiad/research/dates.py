"""Dates in words, read against an injected day and zone: "in November", "last week", "between March and May 2025".

A month without a year is the most recent one that is neither in the future nor later than the newest packet: "in
November", asked before this November has a packet, means the last one. A word that is also a name or a verb (may,
march, april) counts as a date only beside a preposition of time, a day or a year.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache

import msgspec

from constants.calendar import MONTHS, WEEKDAYS

Days = tuple[date, date]  # first day, day after the last

_WEEKDAYS = {name: number for number, name in enumerate(WEEKDAYS)}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_NUMBERS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}

_MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_SAFE_MONTH = r"(?:january|february|july|september|october|november|december)\b"
_YEAR = r"(?:19|20)\d\d"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_WEEKDAY = "(?:" + "|".join(_WEEKDAYS) + ")"
_COUNT = "(?:" + r"\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + ")"
_UNIT = r"(?:day|week|month|year)"
_PART = r"(?:early|mid|late|the beginning of|the start of|the middle of|the end of)"


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time a question names. UTC, `since` inclusive, `until` exclusive; None is open.

    `start` and `end` are where its words stand in the question, in characters.
    """

    since: datetime | None
    until: datetime | None
    text: str
    start: int
    end: int


def _month_days(year: int, month: int) -> Days:
    first = date(year, month, 1)
    return first, (first + timedelta(days=32)).replace(day=1)


def _latest_month(month: int, today: date) -> int:
    """The year of the most recent such month that is not in the future."""
    return today.year if month <= today.month else today.year - 1


def _part_of(days: Days, part: str) -> Days:
    """The first, middle or last third."""
    third = (days[1] - days[0]) / 3
    if part.startswith(("early", "the beginning", "the start")):
        return days[0], days[0] + third
    if part.startswith(("late", "the end")):
        return days[1] - third, days[1]
    return days[0] + third, days[1] - third


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _month_number(text: str) -> int:
    return MONTHS[text.rstrip(".")]


def _iso_day(match: re.Match[str], _today: date) -> Days:
    day = date(int(match["y"]), int(match["m"]), int(match["d"]))
    return day, day + timedelta(days=1)


def _day(match: re.Match[str], today: date) -> Days:
    month, number = _month_number(match["m"]), int(re.sub(r"\D", "", match["d"]))
    year = int(match["y"]) if match["y"] else today.year
    day = date(year, month, number)
    if not match["y"] and day > today:
        day = date(year - 1, month, number)
    return day, day + timedelta(days=1)


def _month(match: re.Match[str], today: date) -> Days:
    month = _month_number(match["m"])
    days = _month_days(int(match["y"]) if match["y"] else _latest_month(month, today), month)
    return _part_of(days, match["part"].replace("-", " ").strip()) if match["part"] else days


def _iso_month(match: re.Match[str], _today: date) -> Days:
    return _month_days(int(match["y"]), int(match["m"]))


def _year(match: re.Match[str], _today: date) -> Days:
    days = date(int(match["y"]), 1, 1), date(int(match["y"]) + 1, 1, 1)
    return _part_of(days, match["part"].replace("-", " ").strip()) if match["part"] else days


def _quarter(match: re.Match[str], today: date) -> Days:
    year, first = int(match["y"] or today.year), int(match["q"]) * 3 - 2
    return date(year, first, 1), _month_days(year, first + 2)[1]


def _named_day(match: re.Match[str], today: date) -> Days:
    back = {"today": 0, "tonight": 0, "yesterday": 1, "last night": 1, "the day before yesterday": 2}[match["name"]]
    day = today - timedelta(days=back)
    return day, day + timedelta(days=1)


def _calendar(unit: str, back: int, today: date) -> Days:
    """The calendar day, week (Monday first), month or year that lies `back` units before today's."""
    if unit == "day":
        return today - timedelta(days=back), today - timedelta(days=back - 1)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return monday, monday + timedelta(days=7)
    if unit == "month":
        months = today.year * 12 + today.month - 1 - back
        return _month_days(months // 12, months % 12 + 1)
    return date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1)


def _this_or_last(match: re.Match[str], today: date) -> Days:
    return _calendar(match["unit"], 0 if match["which"] == "this" else 1, today)


def _ago(match: re.Match[str], today: date) -> Days:
    return _calendar(match["unit"], _number(match["n"]), today)


def _rolling(match: re.Match[str], today: date) -> Days:
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]] * _number(match["n"] or "a")
    return today - timedelta(days=days), today + timedelta(days=1)


def _weekday(match: re.Match[str], today: date) -> Days:
    back = (today.weekday() - _WEEKDAYS[match["w"]]) % 7
    if back == 0 and match["last"]:
        back = 7
    day = today - timedelta(days=back)
    return day, day + timedelta(days=1)


# (needs a preposition, pattern, reader); longer forms before the shorter ones they contain.
_FORMS: list[tuple[bool, str, Callable[[re.Match[str], date], Days]]] = [
    (False, r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)", _iso_day),
    (False, r"(?P<y>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])(?![\d-])", _iso_month),
    (False, rf"(?:the )?(?P<d>{_DAY})(?: of)? (?P<m>{_MONTH})(?:,? ?(?P<y>{_YEAR}))?", _day),
    (False, rf"(?P<m>{_MONTH}) (?:the )?(?P<d>{_DAY})\b(?:,? ?(?P<y>{_YEAR}))?", _day),
    (False, rf"(?:(?P<part>{_PART})[ -])?(?P<m>{_MONTH}),?(?: of)? (?P<y>{_YEAR})\b", _month),
    (False, rf"(?P<part>{_PART})[ -](?P<m>{_MONTH})(?P<y>)", _month),
    (False, rf"(?P<part>{_PART})[ -](?P<y>{_YEAR})\b", _year),
    (False, rf"(?P<part>)(?P<m>{_SAFE_MONTH})(?P<y>)", _month),
    (False, rf"q(?P<q>[1-4])(?: of)?(?: (?P<y>{_YEAR}))?\b", _quarter),
    (False, r"(?P<name>the day before yesterday|today|tonight|yesterday|last night)\b", _named_day),
    (False, rf"(?:the )?(?:last|past|previous) (?P<n>{_COUNT}) (?P<unit>{_UNIT})s?\b", _rolling),
    (False, rf"(?:the )?past(?P<n>) (?P<unit>{_UNIT})\b", _rolling),
    (False, rf"(?:earlier )?(?:the )?(?P<which>this|last|previous) (?P<unit>{_UNIT})\b", _this_or_last),
    (False, rf"(?P<n>{_COUNT}) (?P<unit>{_UNIT})s? ago\b", _ago),
    (False, rf"(?P<last>last|previous) (?P<w>{_WEEKDAY})\b", _weekday),
    (True, rf"(?P<last>)(?:this )?(?P<w>{_WEEKDAY})\b", _weekday),
    (True, rf"(?P<part>)(?P<m>{_MONTH})(?P<y>)", _month),
    (True, rf"(?P<part>)(?P<y>{_YEAR})\b(?!-)", _year),
]


def _anonymous(pattern: str) -> str:
    return re.sub(r"\?P<\w+>", "?:", pattern)


_ANY = "(?:" + "|".join(_anonymous(pattern) for _, pattern, _ in _FORMS) + ")"
_STRONG = "(?:" + "|".join(_anonymous(pattern) for weak, pattern, _ in _FORMS if not weak) + ")"
_YEARLESS = (_day, _month, _quarter)
_READERS = [(re.compile(pattern), reader) for _, pattern, reader in _FORMS]
_TO = "(?:to|until|till|through|-|–|and)"
_PERIODS = (
    rf"\b(?:between (?P<a>{_ANY}) and (?P<b>{_ANY})|from (?P<c>{_ANY}) ?{_TO} ?(?P<d>{_ANY}))",
    rf"\b(?P<side>since|after|before|until|till|up to|by|prior to|starting) (?P<a>{_ANY})",
    rf"\b(?:in|during|on|from|of|for|throughout|dated|within|around) (?P<a>{_ANY})",
    rf"(?<![\w-])(?P<a>{_STRONG})",
)


@cache
def _periods() -> list[re.Pattern[str]]:
    """Compiled at the first question: these patterns are long, and the daemon starts without them."""
    return [re.compile(pattern) for pattern in _PERIODS]


def read_days(text: str, today: date, latest: date | None = None) -> Days | None:
    """The days one expression such as `november 2025` names, or None when it is none or no such day exists.

    A month, day or quarter without its year is the last one up to `latest` (default: today).
    """
    for pattern, reader in _READERS:
        match = pattern.fullmatch(text.strip())
        if match:
            try:
                yearless = reader in _YEARLESS and not match["y"]
                return reader(match, min(today, latest or today) if yearless else today)
            except (ValueError, OverflowError):
                return None
    return None


def _with_year_of(text: str, other: str) -> str:
    """`march` beside `may 2025` is March 2025."""
    year = re.search(_YEAR, other)
    return f"{text} {year.group()}" if year and not re.search(r"\d{4}", text) and re.match(_MONTH, text) else text


def _range(first: str, last: str, today: date, latest: date | None) -> Days | None:
    end = read_days(last, today, latest)
    start = read_days(_with_year_of(first, last), today, latest) if end else None
    if start is None or end is None:
        return None
    if start[0] >= end[1] and first in _WEEKDAYS:
        start = start[0] - timedelta(days=7), start[1] - timedelta(days=7)
    elif start[0] >= end[1] and not re.search(_YEAR, first + last):
        ends = (read_days(f"{last} {start[0].year + more}", today) for more in (0, 1))
        later = next((days for days in ends if days and start[0] < days[1] and days[0] <= today), None)
        end = later or end
        start = start if later else read_days(f"{first} {end[0].year - 1}", today) or start
    return (start[0], end[1]) if start[0] < end[1] else (end[0], start[1])


def _side(side: str, days: Days) -> tuple[date | None, date | None]:
    if side in ("since", "starting"):
        return days[0], None
    if side == "after":
        return days[1], None
    return (None, days[0]) if side in ("before", "prior to") else (None, days[1])


def _resolve(match: re.Match[str], today: date, latest: date | None) -> tuple[date | None, date | None] | None:
    groups = match.groupdict()
    if "b" in groups:
        return _range(groups["a"] or groups["c"], groups["b"] or groups["d"], today, latest)
    days = read_days(groups["a"], today, latest)
    return _side(groups["side"], days) if days and groups.get("side") else days


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


def hull(periods: list[Period]) -> tuple[datetime | None, datetime | None]:
    """The smallest span that holds all periods; (None, None) for none. An open side stays open."""
    if not periods:
        return None, None
    starts = [period.since for period in periods]
    ends = [period.until for period in periods]
    if len(periods) == 2 and None in starts + ends and _one_open_each(periods):
        return next(s for s in starts if s), next(e for e in ends if e)
    first = None if None in starts else min(s for s in starts if s)
    last = None if None in ends else max(e for e in ends if e)
    return first, last


def _one_open_each(periods: list[Period]) -> bool:
    """`after March and before June`: two half-open periods that bound one span."""
    return {(p.since is None, p.until is None) for p in periods} == {(True, False), (False, True)}


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time.min, zone).astimezone(UTC)
