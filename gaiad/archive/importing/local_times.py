"""Times as programs show them to people: month names of some languages, zone abbreviations, local times without one."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from gaiad.archive.reading.conversation import iso_time

# fmt: off
_MONTHS = {
    1: "jan ene gen ocak янв", 2: "feb fév fev şub фев", 3: "mar mär maa mrt mrz мар", 4: "apr avr abr nis апр",
    5: "may mai maj mei mag мая май", 6: "jun juin giu haz июн", 7: "jul juil lug tem июл",
    8: "aug aoû ago août ağu авг", 9: "sep set eyl сен", 10: "oct okt ott out eki окт", 11: "nov kas ноя",
    12: "dec déc dez dic ara дек",
}
_ZONES = {
    "UTC": 0, "GMT": 0, "WET": 0, "BST": 1, "WEST": 1, "IST": 5.5, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EET": 2,
    "EEST": 3, "MSK": 3, "SAST": 2, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "ACST": 9.5, "AWST": 8,
    "NZST": 12, "NZDT": 13,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8,
    "HST": -10, "BRT": -3, "ART": -3, "CLT": -4, "CLST": -3, "COT": -5, "PET": -5, "UYT": -3, "SGT": 8, "HKT": 8,
    "PHT": 8, "WIB": 7, "ICT": 7, "PKT": 5, "NPT": 5.75, "TRT": 3,
}
# fmt: on
_ZONE_IN_CHINA = timezone(timedelta(hours=8))
_BY_PREFIX = {prefix: number for number, prefixes in _MONTHS.items() for prefix in prefixes.split()}
_CLOCK = re.compile(
    r"(오전|오후|上午|下午|午前|午後)?\s*(\d{1,2})[:h](\d{2})(?:[:.](\d{2}))?\s*([apπμ]\.?\s?[mμ]\.?)?", re.IGNORECASE
)
_AFTERNOON = ("오후", "下午", "午後", "p", "P", "μ")
_NUMBERS = re.compile(r"(\d{1,4}) ?[./年년-] ?(\d{1,2}) ?[./月월-] ?(\d{1,4})")
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?\b")


def shown_time(text: str, zone: tzinfo) -> str:
    """A time such as `Jul 11, 2026, 12:00:47 PM MDT` as UTC ISO 8601, "" for anything else.

    `zone` is that of a time which names none, or one that is not known.
    """
    plain = " ".join(text.split())
    clock = _CLOCK.search(plain)
    date = plain[: clock.start()] + plain[clock.end() :] if clock and len(plain) < 80 else ""
    day = _day(date, month_first="/" in date and clock is not None and (clock[5] or "").lower().endswith(("m", "m.")))
    if clock is None or day is None:
        return ""
    hour, half = int(clock[2]), clock[1] or clock[5]
    if half:
        hour = hour % 12 + (12 if half.startswith(_AFTERNOON) else 0)
    named = _ZONE_IN_CHINA if "年" in plain and "CST" in plain else _zone(plain[clock.end() :])
    try:
        moment = datetime(*day, hour, int(clock[3]), int(clock[4] or 0), tzinfo=named or zone)
    except ValueError:
        return ""
    return iso_time(moment.astimezone(UTC).isoformat())


def local_time(text: str, zone: tzinfo) -> str:
    """An ISO 8601 time, in `zone` when it names none, as UTC; "" for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return ""
    return iso_time((moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC).isoformat())


def _zone(rest: str) -> tzinfo | None:
    for word in re.findall(r"[A-Z]{2,5}", rest):
        if word in _ZONES and not _OFFSET.search(rest):
            return timezone(timedelta(hours=_ZONES[word]))
    offset = _OFFSET.search(rest)
    if offset is None:
        return None
    minutes = int(offset[2]) * 60 + int(offset[3] or 0)
    return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes)) if minutes < 24 * 60 else None


def _day(text: str, *, month_first: bool) -> tuple[int, int, int] | None:
    """(year, month, day); a date in numbers is day first unless the year leads, it cannot be, or `month_first`."""
    if numbers := _NUMBERS.search(text):
        first, second, third = (int(each) for each in numbers.groups())
        if first > 31:
            return first, second, third
        year = third + 2000 if third < 100 else third
        american = second > 12 or (month_first and first <= 12)
        return (year, first, second) if american else (year, second, first)
    months = [_BY_PREFIX[key] for word in re.findall(r"[^\W\d_]+", text.lower()) if (key := _prefix(word))]
    digits = [int(each) for each in re.findall(r"\d+", text)]
    years = [each for each in digits if 1990 <= each < 2100]
    days = [each for each in digits if 1 <= each <= 31]
    return (years[0], months[-1], days[0]) if years and months and days else None


def _prefix(word: str) -> str:
    return next((word[:length] for length in (4, 3) if word[:length] in _BY_PREFIX), "")
