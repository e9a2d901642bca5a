"""The forms in which one date is written in English: "27 November 2025", "last week", "the first half of May".

Each form is a pattern and the reader of its groups; `gaiad.research.dates` puts them beside prepositions. A day in
slashes counts only when no other order of day and month is possible.
"""

import re
from collections.abc import Callable
from datetime import date
from functools import cache

from constants.calendar import MONTHS
from gaiad.research.date_readers import (
    NUMBERS,
    PLACES,
    SEASONS,
    WEEKDAY_NUMBERS,
    Days,
    read_ago,
    read_before_last,
    read_day,
    read_day_of_month,
    read_day_range,
    read_fraction,
    read_iso_day,
    read_iso_month,
    read_month,
    read_month_beside_today,
    read_named_day,
    read_numeric,
    read_quarter,
    read_rolling,
    read_season,
    read_this_or_last,
    read_week_of,
    read_weekday,
    read_weekend,
    read_year,
)

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
    """The pattern without its names, to stand in another."""
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
