"""Ranges of behavioural metrics in words (GAM 1): "critical thinking above 0.9", "sycophancy between 0.2 and 0.5".

Pure. The names of the metrics, and what people call them, come in; a share may be written in percent.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from gaiad.schemas import MetricRange

HIGH, LOW = 0.7, 0.3
"""What a high metric has at least, and a low one at most, when no number is given."""

_NUMBER = r"(\d*\.?\d+ ?%?)(?![\w.-]*\w)"
_IS = r"(?:\s+(?:score|level|value|rating))?(?:\s+(?:is|was|of|being|at|that is|=))?\s*"
_MORE = r"(?:above|over|exceeding|exceeds|greater than|more than|higher than|at least|no less than|>=?|≥)"
_LESS = r"(?:below|under|less than|lower than|at most|no more than|up to|<=?|≤)"
_BETWEEN = rf"{_IS}(?:between|from)\s+{_NUMBER}\s+(?:and|to)\s+{_NUMBER}"
_OR_MORE = rf"{_IS}{_NUMBER}\s+(?:or|and) (?:more|higher|above|over)\b"
_OR_LESS = rf"{_IS}{_NUMBER}\s+(?:or|and) (?:less|lower|below|under)\b"
_EXACTLY = rf"(?:\s+(?:score|level|value|rating))?\s*(?:of|is|was|=|equal to|equals)\s*{_NUMBER}"
_PACKETS_WITH = r"(?:packets?|conversations?|sessions?|discussions?|chats?|ones?)\s+(?:with|of|that have|having)\s+"
_HIGH_OR_LOW = rf"{_PACKETS_WITH}(?:a |an |very )*"
_ASKS = r"(?:what|who|whom|whose|when|where|why|how|did|does|do|is|was|were|are|has|have)\b"


class MetricWords(msgspec.Struct, frozen=True, kw_only=True):
    """A range and where its words stand in the question, in characters."""

    range: MetricRange
    start: int
    end: int


def find_metrics(question: str, spoken: Mapping[str, Sequence[str]]) -> list[MetricWords]:
    """At most one range a metric, in the order of `spoken`: metric name to what people call it."""
    lower = question.lower()
    found = (_range_of(name, (name, *words), lower) for name, words in spoken.items())
    return [one for one in found if one is not None]


def without_metrics(question: str, found: Sequence[MetricWords]) -> str:
    """The question without the words of its ranges."""
    for one in sorted(found, key=lambda each: -each.start):
        question = f"{question[: one.start]} {question[one.end :]}"
    return " ".join(question.split())


def ranges_of_packets(question: str, found: Sequence[MetricWords]) -> bool:
    """Whether all that the question says of its ranges is that it wants the packets in them, as in "garden packets with
    critical thinking over .8"."""
    lower = question.lower()
    if re.match(_ASKS, lower):
        return False
    return any(re.search(rf"\b{_PACKETS_WITH}(?:a |an |the )?$", lower[: one.start]) for one in found)


def _range_of(name: str, spoken: Sequence[str], lower: str) -> MetricWords | None:
    called = rf"\b(?:{'|'.join(re.escape(words) for words in sorted(spoken, key=len, reverse=True))})"
    for pattern, has_low, has_high in (
        (_BETWEEN, True, True),
        (_OR_MORE, True, False),
        (_OR_LESS, False, True),
        (rf"{_IS}{_MORE}\s*{_NUMBER}", True, False),
        (rf"{_IS}{_LESS}\s*{_NUMBER}", False, True),
        (_EXACTLY, True, True),
    ):
        if match := re.search(called + pattern, lower):
            values = sorted(_value(text) for text in match.groups())
            low, high = values[0] if has_low else None, values[-1] if has_high else None
            return _at(match, 0, MetricRange(name=name, minimum=low, maximum=high))
    if match := re.search(rf"{_HIGH_OR_LOW}(?P<how>high|low)\s+{called}\b", lower):
        high = match["how"] == "high"
        return _at(match, "how", MetricRange(name=name, minimum=HIGH if high else None, maximum=None if high else LOW))
    return None


def _at(match: re.Match[str], first: int | str, metric: MetricRange) -> MetricWords:
    return MetricWords(range=metric, start=match.start(first), end=match.end())


def _value(text: str) -> float:
    return float(text.rstrip(" %")) / (100 if text.endswith("%") else 1)
