"""The forms in which one date is written in English: "27 November 2025", "last week", "the first half of May".

Each form is a pattern and the reader of its groups; `gaiad.research.dates` puts them beside prepositions. A day in
slashes counts only when no other order of day and month is possible.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from constants.calendar import MONTHS, WEEKDAYS

Days = tuple[date, date]  # first day, day after the last

WEEKDAY_NUMBERS = {name: number for number, name in enumerate(WEEKDAYS)}
NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
NUMBERS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
PLACES = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1, "final": -1}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


def span_days(count: str, unit: str) -> int:
    """Days of `two`, `week`; one unit when the count is no number."""
    return _UNIT_DAYS[unit] * (_number(count) if count.isdigit() or count in NUMBERS else 1)


def _month_days(year: int, month: int) -> Days:
    first = date(year, month, 1)
    return first, (first + timedelta(days=32)).replace(day=1)


def _latest_month(month: int, today: date) -> int:
    """The year of the most recent such month that is not in the future."""
    return today.year if month <= today.month else today.year - 1


def _part_of(days: Days, part: str) -> Days:
    """The first, middle or last third."""
    third = (days[1] - days[0]) / 3
    if part == "early" or "beginning" in part or "start" in part:
        return days[0], days[0] + third
    if part == "late" or "end" in part:
        return days[1] - third, days[1]
    return days[0] + third, days[1] - third


def _number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS[text]


def _month_number(text: str) -> int:
    return MONTHS[text.rstrip(".")]


def read_iso_day(match: re.Match[str], _today: date) -> Days:
    day = date(int(match["y"]), int(match["m"]), int(match["d"]))
    return day, day + timedelta(days=1)


def read_day(match: re.Match[str], today: date) -> Days:
    month, number = _month_number(match["m"]), int(re.sub(r"\D", "", match["d"]))
    year = int(match["y"]) if match["y"] else today.year
    day = date(year, month, number)
    if not match["y"] and day > today:
        day = date(year - 1, month, number)
    return day, day + timedelta(days=1)


def read_month(match: re.Match[str], today: date) -> Days:
    month = _month_number(match["m"])
    days = _month_days(int(match["y"]) if match["y"] else _latest_month(month, today), month)
    return _part_of(days, match["part"].replace("-", " ").strip()) if match["part"] else days


def read_iso_month(match: re.Match[str], _today: date) -> Days:
    return _month_days(int(match["y"]), int(match["m"]))


def read_year(match: re.Match[str], _today: date) -> Days:
    days = date(int(match["y"]), 1, 1), date(int(match["y"]) + 1, 1, 1)
    return _part_of(days, match["part"].replace("-", " ").strip()) if match["part"] else days


def read_quarter(match: re.Match[str], today: date) -> Days:
    first = int(match["q"]) * 3 - 2
    year = int(match["y"]) if match["y"] else _latest_month(first, today)
    return date(year, first, 1), _month_days(year, first + 2)[1]


def read_named_day(match: re.Match[str], today: date) -> Days:
    back = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(match["name"], 0)
    day = today - timedelta(days=back)
    return day, day + timedelta(days=1)


def _calendar(unit: str, back: int, today: date) -> Days:
    """The calendar day, week (Monday first), month or year that lies `back` units before today's."""
    if unit == "day":
        return today - timedelta(days=back), today - timedelta(days=back - 1)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return monday, monday + timedelta(days=7)
    if unit == "quarter":
        quarters = today.year * 4 + (today.month - 1) // 3 - back
        first = quarters % 4 * 3 + 1
        return date(quarters // 4, first, 1), _month_days(quarters // 4, first + 2)[1]
    if unit == "month":
        months = today.year * 12 + today.month - 1 - back
        return _month_days(months // 12, months % 12 + 1)
    return date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1)


def read_this_or_last(match: re.Match[str], today: date) -> Days:
    days = _calendar(match["unit"], 0 if match["which"] == "this" else 1, today)
    return _part_of(days, match["part"]) if match["part"] in ("early", "mid", "late") else days


def read_before_last(match: re.Match[str], today: date) -> Days:
    return _calendar(match["unit"], 2, today)


def read_month_beside_today(match: re.Match[str], today: date) -> Days:
    """`last november` is one that is over, `this november` that of the running year."""
    month = _month_number(match["m"])
    if match["which"] == "this":
        return _month_days(today.year, month)
    return _month_days(today.year if month < today.month else today.year - 1, month)


def read_week_of(match: re.Match[str], today: date) -> Days:
    first, _ = read_day(match, today)
    monday = first - timedelta(days=first.weekday()) if match["how"] == "of" else first
    return monday, monday + timedelta(days=7)


def read_day_range(match: re.Match[str], today: date) -> Days:
    first, _ = read_day(match, today)
    last = first.replace(day=int(re.sub(r"\D", "", match["e"])))
    if last < first:
        raise ValueError(f"{last} is before {first}")
    return first, last + timedelta(days=1)


def read_day_of_month(match: re.Match[str], today: date) -> Days:
    """The most recent day of that number, as `the 27th`."""
    number, months = int(re.sub(r"\D", "", match["d"])), today.year * 12 + today.month - 1
    for back in range(3):  # of three months in a row one has 31 days
        first, after = _month_days((months - back) // 12, (months - back) % 12 + 1)
        day = first + timedelta(days=number - 1)
        if day < after and day <= today:
            return day, day + timedelta(days=1)
    raise ValueError(f"no month has {number} days")


def read_numeric(match: re.Match[str], _today: date) -> Days:
    one, other, year = int(match["a"]), int(match["b"]), int(match["y"])
    if match["sign"] == "/" and one != other and max(one, other) <= 12:
        raise ValueError(f"{match.group()} may be either of two days")
    day_first = match["sign"] == "." or one > 12
    day = date(year, other, one) if day_first else date(year, one, other)
    return day, day + timedelta(days=1)


def read_fraction(match: re.Match[str], today: date) -> Days:
    """The first week of a month, the second half of a year; weeks of a month are its days 1 to 7 and so on."""
    if match["m"]:
        month = _month_number(match["m"])
        year = int(match["y"]) if match["y"] else _latest_month(month, today)
        return _part_of_month(_month_days(year, month), PLACES[match["nth"]], match["unit"])
    months = {"half": 6, "quarter": 3}[match["unit"]]
    first = range(1, 13, months)[PLACES[match["nth"]]]
    return date(int(match["whole"]), first, 1), _month_days(int(match["whole"]), first + months - 1)[1]


def _part_of_month(month: Days, place: int, unit: str) -> Days:
    if unit == "half":
        middle = month[0] + timedelta(days=15)
        return ((month[0], middle), (middle, month[1]))[place]
    length = timedelta(days=_UNIT_DAYS[unit])
    first = month[1] - length if place == -1 else month[0] + place * length
    return first, first + length


def read_season(match: re.Match[str], today: date) -> Days:
    """The season of a year, else the most recent that has begun, `last` one that is over; winter begins in December."""
    month = SEASONS[match["s"]]

    def of(year: int) -> Days:
        return date(year, month, 1), date(year + month // 12, (month + 2) % 12 + 1, 1)

    if match["y"]:
        return of(int(match["y"]))
    if match["which"] == "this":
        return of(today.year)
    seasons = [of(today.year - back) for back in range(3)]
    return next(days for days in seasons if (days[1] if match["which"] else days[0]) <= today)


def read_weekend(match: re.Match[str], today: date) -> Days:
    """Saturday and Sunday of the running week, or the last ones that are over."""
    saturday = today - timedelta(days=today.weekday() - 5)
    saturday -= timedelta(days=0 if match["which"] == "this" else 7)
    return saturday, saturday + timedelta(days=2)


def read_ago(match: re.Match[str], today: date) -> Days:
    return _calendar(match["unit"], _number(match["n"]), today)


def read_rolling(match: re.Match[str], today: date) -> Days:
    days = span_days(match["n"] or "a", match["unit"])
    return today - timedelta(days=days), today + timedelta(days=1)


def read_weekday(match: re.Match[str], today: date) -> Days:
    back = (today.weekday() - WEEKDAY_NUMBERS[match["w"]]) % 7
    if back == 0 and match["last"]:
        back = 7
    day = today - timedelta(days=back)
    return day, day + timedelta(days=1)


MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
YEAR = r"(?:19|20)\d\d"
COUNT = "(?:" + r"\d{1,3}|" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + ")"
UNIT = r"(?:day|week|month|year)"
_SAFE_MONTH = r"(?:january|february|july|september|october|november|december)\b"
_FULL_MONTH = r"(?:january|february|april|june|july|august|september|october|november|december)\b"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_WEEKDAY = "(?:" + "|".join(WEEKDAY_NUMBERS) + ")"
_PART = r"(?:early|mid|late|(?:the )?(?:beginning|start|middle|end) of)"
_SEASON = "(?:" + "|".join(SEASONS) + ")"
_NTH = "(?:the )?(?P<nth>" + "|".join(PLACES) + ")"
_WEEK = "(?:the )?week (?P<how>of|starting|beginning)"
_ITS_YEAR = rf"(?:,? ?(?P<y>{YEAR}))?"
_BESIDE_NOW = "(?P<which>this|last|previous)"
_NO_VERB = "".join(
    rf"(?<!\b{word} )" for word in ("will", "would", "can", "could", "should", "may", "might", "to", "not")
)
_NOT_ANY = "".join(rf"(?<!\b{word} )" for word in ("the", "his", "her", "its", "my", "our", "your", "their", "'s"))
_CLAUSE_ENDS = r"(?=\s*(?:$|[?.!,;]|(?:about|with|for|and|in|at)\b))"
_TO = "(?:-|–|to|through|until|till)"
_TODAY = "today|tonight|this morning|this afternoon|this evening|the day before yesterday|yesterday|last night"


# (needs a preposition, pattern, reader); longer forms before the shorter ones they contain.
FORMS: list[tuple[bool, str, Callable[[re.Match[str], date], Days]]] = [
    (False, r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)", read_iso_day),
    (False, r"(?P<y>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])(?![\d-])", read_iso_month),
    (False, rf"(?P<a>\d{{1,2}})(?P<sign>[./])(?P<b>\d{{1,2}})(?P=sign)(?P<y>{YEAR})\b", read_numeric),
    (
        False,
        rf"(?:the )?(?P<d>{_DAY}) ?(?:{_TO}|and) ?(?:the )?(?P<e>{_DAY})(?: of)? (?P<m>{MONTH}){_ITS_YEAR}",
        read_day_range,
    ),
    (
        False,
        rf"(?P<m>{MONTH}) (?:the )?(?P<d>{_DAY}) ?{_TO} ?(?:the )?(?P<e>{_DAY})\b(?! (?:of )?{MONTH}){_ITS_YEAR}",
        read_day_range,
    ),
    (
        False,
        rf"{_WEEK} (?:the )?(?P<d>{_DAY})(?: of)? (?P<m>{MONTH}){_ITS_YEAR}",
        read_week_of,
    ),
    (
        False,
        rf"{_WEEK} (?P<m>{MONTH}) (?:the )?(?P<d>{_DAY})\b{_ITS_YEAR}",
        read_week_of,
    ),
    (
        False,
        rf"{_NTH} (?P<unit>day|week|half) of (?P<m>{MONTH}){_ITS_YEAR}",
        read_fraction,
    ),
    (
        False,
        rf"{_NTH} (?P<unit>half|quarter) of (?P<m>)(?P<y>)(?P<whole>{YEAR})\b",
        read_fraction,
    ),
    (False, rf"(?P<which>last|this|past) (?P<m>{_FULL_MONTH})", read_month_beside_today),
    (False, rf"{_NOT_ANY}(?P<which>last) (?P<m>march|may){_CLAUSE_ENDS}", read_month_beside_today),
    (False, rf"(?:in|during|over) (?:the )?(?P<which>)(?P<s>{_SEASON})\b(?P<y>)", read_season),
    (False, r"(?P<which>last|this|past|previous) weekend\b", read_weekend),
    (False, rf"(?P<which>last|this|past) (?P<s>{_SEASON})\b(?P<y>)", read_season),
    (False, rf"(?:the )?(?P<which>)(?P<s>{_SEASON})(?: of)? (?P<y>{YEAR})\b", read_season),
    (False, r"the (?P<unit>week|month|year) before last\b", read_before_last),
    (False, rf"(?:the )?(?P<d>{_DAY})(?: of)? (?P<m>{MONTH}){_ITS_YEAR}", read_day),
    (False, rf"(?P<m>{MONTH}) (?:the )?(?P<d>{_DAY})\b{_ITS_YEAR}", read_day),
    (False, rf"(?:(?P<part>{_PART})[ -])?(?P<m>{MONTH}),?(?: of)? (?P<y>{YEAR})\b", read_month),
    (False, rf"(?P<part>{_PART})[ -](?P<m>{MONTH})(?P<y>)", read_month),
    (False, rf"(?P<part>{_PART})[ -](?P<y>{YEAR})\b", read_year),
    (False, rf"(?P<part>)(?P<m>{_SAFE_MONTH})(?P<y>)", read_month),
    (False, rf"q(?P<q>[1-4])(?: of)?(?: (?P<y>{YEAR}))?\b", read_quarter),
    (
        False,
        rf"(?P<name>{_TODAY})\b",
        read_named_day,
    ),
    (False, rf"(?:the )?(?:{_NO_VERB}last|past|previous) (?P<n>{COUNT}) (?P<unit>{UNIT})s?\b", read_rolling),
    (False, rf"(?:the )?past(?P<n>) (?P<unit>{UNIT})\b", read_rolling),
    (
        False,
        rf"(?:(?P<part>early|mid|late|earlier|later) )?(?:the )?{_BESIDE_NOW} (?P<unit>{UNIT}|quarter)\b",
        read_this_or_last,
    ),
    (False, rf"(?P<n>{COUNT}) (?P<unit>{UNIT})s? ago\b", read_ago),
    (False, rf"(?P<last>last|previous) (?P<w>{_WEEKDAY})\b", read_weekday),
    (True, rf"(?P<last>)(?:this )?(?P<w>{_WEEKDAY})\b", read_weekday),
    (True, rf"(?P<part>)(?P<m>{MONTH})(?P<y>)", read_month),
    (True, rf"(?P<part>)(?P<y>{YEAR})\b(?!-)", read_year),
    (
        True,
        r"the (?P<d>\d{1,2}(?:st|nd|rd|th))(?P<y>)(?=\s*(?:$|[?.!,;]|and\b|to\b|until\b|till\b))",
        read_day_of_month,
    ),
]


def anonymous(pattern: str) -> str:
    """The pattern without its names, for use inside another."""
    return re.sub(r"\(\?P=sign\)", "[./]", re.sub(r"\?P<\w+>", "?:", pattern))


_YEARLESS = (
    read_day,
    read_month,
    read_quarter,
    read_day_range,
    read_week_of,
    read_fraction,
    read_season,
    read_day_of_month,
)


@cache
def _readers() -> list[tuple[re.Pattern[str], Callable[[re.Match[str], date], Days]]]:
    """Compiled at the first question, not when the daemon starts."""
    return [(re.compile(pattern), reader) for _, pattern, reader in FORMS]


def read_days(text: str, today: date, latest: date | None = None) -> Days | None:
    """The days one expression such as `november 2025` names, or None when it is none or no such day exists.

    A month, day or quarter without its year is the last one up to `latest` (default: today).
    """
    for pattern, reader in _readers():
        match = pattern.fullmatch(text.strip())
        if match:
            try:
                yearless = reader in _YEARLESS and not match["y"]
                return reader(match, min(today, latest or today) if yearless else today)
            except (ValueError, OverflowError, IndexError):
                return None
    return None
