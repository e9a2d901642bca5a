"""Dates on a page as ISO days or months, read from the day the page was written: "tomorrow" means that day's tomorrow.

Only what names one day or month is listed. A day without a year is the one nearest to the page; weekdays count only
with last, next, this, by or until, for "on Friday" may lie on either side.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from constants.calendar import MONTHS, WEEKDAYS

_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}

_MONTH = "(?P<m>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<d>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>(?:19|20)\d\d)"
_COUNT = r"(?P<n>\d{1,3}|" + "|".join(_COUNTS) + ")"
_WEEKDAY = "(?P<w>" + "|".join(WEEKDAYS) + ")"
_HALF_A_YEAR = timedelta(days=184)


def _near(today: date, month: int, number: int) -> date:
    """That day in the year that brings it nearest to `today`. Raises ValueError when that is not a year near."""
    found = []
    for year in (today.year - 1, today.year, today.year + 1):
        try:
            found.append(date(year, month, number))
        except ValueError:
            continue
    nearest = min(found, key=lambda day: abs(day - today))
    if abs(nearest - today) > _HALF_A_YEAR:
        raise ValueError(f"{number}.{month}. is in no year around {today}")
    return nearest


def _full(match: re.Match[str], today: date) -> str:
    number, month = int(match["d"]), _month_number(match)
    year = match.groupdict().get("y")
    return (date(int(year), month, number) if year else _near(today, month, number)).isoformat()


def _month_only(match: re.Match[str], today: date) -> str:
    year = match.groupdict().get("y")
    day = date(int(year), _month_number(match), 1) if year else _near(today, _month_number(match), 15)
    return f"{day.year:04d}-{day.month:02d}"


def _month_number(match: re.Match[str]) -> int:
    month = match["m"].lower()
    return int(month) if month.isdigit() else MONTHS[month]


def _word(match: re.Match[str], today: date) -> str:
    offset = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1}[match["word"].lower()]
    return (today + timedelta(days=offset)).isoformat()


def _counted(match: re.Match[str], today: date) -> str:
    count = match["n"].lower()
    days = (int(count) if count.isdigit() else _COUNTS[count]) * (7 if match["unit"].lower() == "week" else 1)
    return (today + timedelta(days=-days if match["ago"] else days)).isoformat()


def _weekday(match: re.Match[str], today: date) -> str:
    ahead = (WEEKDAYS.index(match["w"].lower()) - today.weekday()) % 7
    if match["which"].lower() == "last":
        return (today - timedelta(days=(7 - ahead) % 7 or 7)).isoformat()
    return (today + timedelta(days=ahead or (7 if match["which"].lower() == "next" else 0))).isoformat()


_Reader = Callable[[re.Match[str], date], str]


def _forms(*forms: tuple[str, _Reader]) -> list[tuple[re.Pattern[str], _Reader]]:
    return [(re.compile(rf"(?<!\d)(?<![-/]){form}", re.IGNORECASE), read) for form, read in forms]


_FORMS = {
    "number": _forms(
        (r"(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)", _full),
        (r"\b(?P<y>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])(?![\d-])", _month_only),
    ),
    "month": _forms(
        (rf"\b{_DAY}(?: of)? {_MONTH},? {_YEAR}\b", _full),
        (rf"\b{_MONTH} {_DAY},? {_YEAR}\b", _full),
        (rf"\b{_DAY}(?: of)? {_MONTH}", _full),
        (rf"\b{_MONTH} {_DAY}\b(?!\d|:)", _full),
        (rf"\b{_MONTH},?(?: of)? {_YEAR}\b", _month_only),
        (rf"\b(?:in|by|until|since|during) {_MONTH}(?! ?\d)", _month_only),
    ),
    "word": _forms((r"\b(?P<word>today|tonight|tomorrow|yesterday)\b", _word)),
    "count": _forms(
        (rf"\b{_COUNT} (?P<unit>day|week)s? (?P<ago>ago)\b", _counted),
        (rf"\bin {_COUNT} (?P<unit>day|week)s?(?P<ago>)\b", _counted),
    ),
    "weekday": _forms((rf"\b(?P<which>last|next|this|by|until) {_WEEKDAY}\b", _weekday)),
}
_HINTS = {
    **dict.fromkeys(MONTHS, "month"),
    **dict.fromkeys(("today", "tonight", "tomorrow", "yesterday"), "word"),
    **dict.fromkeys(("day", "days", "week", "weeks"), "count"),
    **dict.fromkeys(WEEKDAYS, "weekday"),
}
_TOKEN = re.compile(r"[A-Za-z]+|\d[\d-]+")
_REACH = 24  # characters around a hint that the longest form needs


def dates_in(text: str, today: date) -> Iterator[str]:
    """ISO days (2025-11-27) and months (2025-11) in their order in `text`, each once; anything else is skipped."""
    taken: list[tuple[int, int, str]] = []
    for kind, begin, stop in _windows(text):
        for pattern, read in _FORMS[kind]:
            for match in pattern.finditer(text, begin, stop):
                start, end = match.span()
                if any(start < other_end and other_start < end for other_start, other_end, _ in taken):
                    continue
                try:
                    found = read(match, today)
                except (ValueError, OverflowError):  # 30 February, or a day before the first year
                    continue
                taken.append((start, end, found))
    yield from dict.fromkeys(found for _, _, found in sorted(taken))


def _windows(text: str) -> Iterator[tuple[str, int, int]]:
    """Where a date of which kind may be: around each word or number that one is made with. Numbers come first.

    Windows of one kind that overlap are one. Most of the text is in none, so that the forms need not look there.
    """
    found: dict[str, list[tuple[int, int]]] = {kind: [] for kind in _FORMS}
    for match in _TOKEN.finditer(text):
        token = match.group()
        kind = _HINTS.get(token.lower()) or ("number" if len(token) > 6 and token[4] == "-" else None)
        if kind is None:
            continue
        begin, windows = max(0, match.start() - _REACH), found[kind]
        if windows and begin <= windows[-1][1]:
            begin = windows.pop()[0]
        windows.append((begin, match.end() + _REACH))
    for kind, windows in found.items():
        for begin, stop in windows:
            yield kind, _word_start(text, begin), _word_end(text, stop)


def _word_start(text: str, at: int) -> int:
    """Back to the beginning of the word or number at `at`, so that a window cuts none in two."""
    while at > 0 and (text[at - 1].isalnum() or text[at - 1] in "-/"):
        at -= 1
    return at


def _word_end(text: str, at: int) -> int:
    at = min(at, len(text))
    while at < len(text) and (text[at].isalnum() or text[at] in "-/"):
        at += 1
    return at
