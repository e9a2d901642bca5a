"""Whether a text says its own prompt: word for word what stands in identity or instructions, at length. Pure.

Compared are words without case and punctuation, in overlapping groups; a character of Chinese, Japanese or Korean is a
word. A rule that is quoted alone is too short to count; of a leak all but its first few words are held back.
"""

import re
from collections import deque
from collections.abc import Iterable

import msgspec

_EAST = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_EAST}]|[^\W_{_EAST}]+")


class LeakLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups of `gram_words` words are compared; `least_words` in a row that stand in the prompt are a leak."""

    gram_words: int
    least_words: int


class LeakRule:
    """Feed runs of text with where they begin; `held_from` is the run with which what may become a leak was noticed."""

    def __init__(self, protected: Iterable[str], limits: LeakLimits) -> None:
        self._limits = limits
        self._grams = frozenset(gram for text in protected for gram in _grams(text, limits.gram_words))
        self._recent: deque[str] = deque(maxlen=limits.gram_words)
        self._row = 0
        self.held_from: int | None = None

    def feed(self, run: str, start: int) -> bool:
        """Whether the prompt has leaked by now; then it did from `held_from` on."""
        if not self._grams:
            return False
        for word in _WORD.findall(run.lower()):
            self._recent.append(word)
            near = len(self._recent) == self._limits.gram_words and tuple(self._recent) in self._grams
            self._row = (self._row + 1 if self._row else self._limits.gram_words) if near else 0
            self.held_from = (start if self.held_from is None else self.held_from) if near else None
            if self._row >= self._limits.least_words:
                return True
        return False


def _grams(text: str, size: int) -> Iterable[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return (tuple(words[place : place + size]) for place in range(len(words) - size + 1))
