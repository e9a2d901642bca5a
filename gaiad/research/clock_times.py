"""Times of day in a sentence: "at 14:00", "4:30 pm", "noon", "from 9:00 to 12:30".

Pure. Minutes after midnight, as intervals, so that two sentences can be held against each other by them.
"""

import re

from gaiad.research.quantities import Quantity

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
