"""Words that say what a question is after and not what about: "What did we decide about heating?" Pure.

A page that says "we chose" answers what we decided; and one that says neither may. Such a word weighs little, stands in
all its kinds, and is not missed. It is the matter itself where the question says nothing else but names.
"""

import functools
from collections.abc import Sequence

import msgspec

from constants.load import load
from gaiad.research.words import content_words, stem

WEIGHT = 0.35
"""Of a cue, against a word that says what about."""


class _CueWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deciding: tuple[str, ...]


def deciding() -> tuple[str, ...]:
    """Words of deciding, agreeing and choosing, normalised."""
    return load("cue_words.toml", _CueWords).deciding


@functools.cache
def deciding_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in deciding())


def cues(keywords: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """Those of the keywords that are cues; none when all others are `names`."""
    found = frozenset(word for word in keywords if stem(word) in deciding_stems())
    named = {word for name in names for word in content_words(name)}
    return found if any(word not in found and word not in named for word in keywords) else frozenset()
