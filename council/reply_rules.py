"""What no reply may be: a leak of a prompt's private parts, a loop, or an echo of its own instructions."""

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
    """Feed runs of text with where they begin; `held_from` is the run with which what may become a leak was noticed.

    What the person said (`asked`) may be said again.
    """

    def __init__(self, protected: Iterable[str], limits: LeakLimits, asked: str = "") -> None:
        self._limits = limits
        own = {gram for text in protected for gram in _grams(text, limits.gram_words)}
        self._grams = own.difference(_grams(asked, limits.gram_words))
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


_CHARACTER_PERIODS = range(1, 65)
_STRETCH = 136
_RUN = re.compile(r"\S+")


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


def before_loop(text: str, limits: RepetitionLimits) -> str:
    """A text that ends in a loop, up to the end of the loop's first round."""
    runs = list(_RUN.finditer(text))
    words = [run[0] for run in runs]
    for period in range(1, min(limits.longest_period, len(words) // 2) + 1):
        same = 0
        while same < len(words) - period and words[-1 - same] == words[-1 - same - period]:
            same += 1
        if same >= max(limits.least_words - period, period * (limits.least_repeats - 1), 1):
            return text[: runs[len(words) - same - 1].end()]
    return text


def stutters(window: str) -> bool:
    """Whether a long run without a space repeats itself with a period of at most 64 characters somewhere in it."""
    return any(
        window[start : start + _STRETCH] == window[start + period : start + period + _STRETCH]
        for start in range(0, len(window) - _STRETCH - _CHARACTER_PERIODS[-1] + 1, _CHARACTER_PERIODS[-1])
        for period in _CHARACTER_PERIODS
    )


_RUN_WORDS = 8
MOST_SHARE = 0.2
_ECHO_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?]+|\n|$)\s*")
_OWN_WORDS = 4  # a shorter sentence is anybody's


def parrots(reply: str, own_texts: Iterable[str], asked: str) -> bool:
    """Whether more than a fifth of the reply's runs stand in `own_texts` (identity, role, directive) and not in what
    was `asked`; a reply of fewer than eight words when all of it does.
    """
    return own_share(reply, own_texts, asked) > MOST_SHARE


def own_share(reply: str, own_texts: Iterable[str], asked: str) -> float:
    """The share of the reply's eight-word runs, 0 to 1, that stand in `own_texts` and not in what was `asked`."""
    words = _words(reply)
    size = min(_RUN_WORDS, len(words))
    if size < 3:
        return 0.0
    runs = _runs(words, size)
    own = {run for text in own_texts for run in _runs(_words(text), size)} - set(_runs(_words(asked), size))
    return sum(run in own for run in runs) / len(runs)


def without_own_sentences(reply: str, own_texts: Iterable[str], asked: str) -> str:
    """The reply without its sentences that stand word for word in `own_texts` and not in what was `asked`."""
    own = {tuple(_words(part)) for text in own_texts for part in _SENTENCE.findall(text)}
    own -= {tuple(_words(part)) for part in _SENTENCE.findall(asked)}
    own = {words for words in own if len(words) >= _OWN_WORDS}
    return "".join(part for part in _SENTENCE.findall(reply) if tuple(_words(part)) not in own)


def _words(text: str) -> list[str]:
    return _ECHO_WORD.findall(text.lower())


def _runs(words: list[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
