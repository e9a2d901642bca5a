"""Words that say what a question is after and not what about: "What did we decide about heating?" Pure.

A page that says "we chose" answers what we decided; and one that says neither may. Such a word weighs little, stands in
all its kinds, and is not missed. It is the matter itself where the question says nothing else but names.
"""

import functools
import re
from collections.abc import Sequence

import msgspec

from constants.load import load
from gaiad.research.words import content_words, cut, stem

WEIGHT = 0.35
"""Of a cue, against a word that says what about."""
_BEFORE = 30  # characters before a word in which its negation stands


class _CueWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deciding: tuple[tuple[str, ...], ...]


# "What did we decide about heating?" asks for all that was decided of it; "Why did we choose Lisbon?" does not.
_ASKS_WHAT = re.compile(r"(?:what|which)\b(?: \w+){0,2}? (?:did|do|have|has|had|was|were|is|are)\b", re.IGNORECASE)
_NOT = re.compile(r"(?:\b(?:not|never|no|nothing|cannot|hardly)|n['’]t)(?: \w+)?\W*$", re.IGNORECASE)


@functools.cache
def deciding() -> tuple[str, ...]:
    """Words of deciding, agreeing and choosing, normalised."""
    return tuple(word for line in load("cue_words.toml", _CueWords).deciding for word in line)


@functools.cache
def own_forms(word: str) -> frozenset[str]:
    """The stems of the words that are forms of a word of deciding: agreement, of agree. Empty for any other word."""
    for line in load("cue_words.toml", _CueWords).deciding:
        if stem(word) in (stems := frozenset(stem(one) for one in line)):
            return stems
    return frozenset()


def asks_what_was_decided(text: str, keywords: Sequence[str], names: Sequence[str]) -> bool:
    """Whether it asks for all that was decided about something."""
    return bool(cues(keywords, names)) and _ASKS_WHAT.match(text) is not None


def all_denied(text: str, forms: frozenset[str]) -> bool:
    """Whether each of the words with these stems is denied where it stands in `text`: "we did not agree"."""
    places = [word.start for word in cut(text) if stem(word.lower) in forms]
    return bool(places) and all(_NOT.search(text[max(0, start - _BEFORE) : start]) for start in places)


@functools.cache
def deciding_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in deciding())


def cues(keywords: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """Those of the keywords that are cues; none when all others are `names`."""
    found = frozenset(word for word in keywords if stem(word) in deciding_stems())
    named = {word for name in names for word in content_words(name)}
    return found if any(word not in found and word not in named for word in keywords) else frozenset()
