"""Whether a text has come into a loop: the same words again and again with one period, found word by word. Pure.

Each word costs as many steps as it stood among the last words, so that a text takes linear time.
"""

from collections import deque

import msgspec

_CHARACTER_PERIODS = range(1, 65)
_STRETCH = 136


class RepetitionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop is `least_words` words, and `least_repeats` periods, that stood one period before, at most so long."""

    longest_period: int
    least_words: int
    least_repeats: int


class RepetitionRule:
    """Feed words in order; `feed` gives the period of the loop they have come into, 0 while there is none."""

    def __init__(self, limits: RepetitionLimits) -> None:
        self._limits = limits
        self._recent: deque[str] = deque()
        self._places: dict[str, deque[int]] = {}
        self._matched: dict[int, int] = {}
        self._count = 0

    def feed(self, word: str) -> int:
        places = self._places.setdefault(word, deque())
        self._matched = {self._count - place: self._matched.get(self._count - place, 0) + 1 for place in places}
        self._remember(word, places)
        for period, matched in self._matched.items():
            if matched >= max(self._limits.least_words, period * self._limits.least_repeats):
                return period
        return 0

    def _remember(self, word: str, places: deque[int]) -> None:
        places.append(self._count)
        self._recent.append(word)
        self._count += 1
        if len(self._recent) > self._limits.longest_period:
            oldest = self._recent.popleft()
            self._places[oldest].popleft()
            if not self._places[oldest]:
                del self._places[oldest]


def stutters(window: str) -> bool:
    """Whether a long run without a space repeats itself with a period of at most 64 characters somewhere in it."""
    return any(
        window[start : start + _STRETCH] == window[start + period : start + period + _STRETCH]
        for start in range(0, len(window) - _STRETCH - _CHARACTER_PERIODS[-1] + 1, _CHARACTER_PERIODS[-1])
        for period in _CHARACTER_PERIODS
    )
