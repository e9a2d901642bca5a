"""A static look at a persona's free text: wordings that work against a rule of identity, as data in constants.

It reads sentences, not meanings: a list of wordings in English and a count of the negations before each, so that "never
make up facts" passes and "never hesitate to make up facts" does not. It warns; whoever can read must decide.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

import msgspec

from constants.load import load

_SENTENCE_END = re.compile(r"[.;:!?\n]+(?:\s|$)|\n+")
_PARENTHESIS = re.compile(r",\s*(?:under|at|in|by|for|even|of course|please|however)\b[^,]{0,40},")
_SPELT_OUT = re.compile(r"\b(?:\w[ \-_*]){3,}\w\b")
_LOOKALIKES = str.maketrans("авекмнорстухѕіјԁоαεικνορτυχ’‘`", "abekmhopctyxsijdoaeiknoptux'''")


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of constants/persona_wording.toml; what its keys mean stands at the top of that file."""

    rule: str
    when: Literal["asked", "denied", "always"]
    first: tuple[str, ...]
    within: int
    then: tuple[str, ...] = ()


class Wordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: words that turn a sense around, how many words far, and the wordings."""

    negations: tuple[str, ...]
    negation_reach: int
    wordings: tuple[Wording, ...]


class Suspicion(msgspec.Struct, frozen=True):
    """A wording that was found: the rule it works against and the words as they were read."""

    rule: str
    words: str


def suspicions(text: str) -> list[Suspicion]:
    """What in the text seems to work against identity, each rule and wording once, in the order they stand."""
    found: dict[Suspicion, None] = {}
    for sentence in _sentences(text):
        for wording in load("persona_wording.toml", Wordings).wordings:
            for match in _pattern(wording).finditer(sentence):
                if wording.when == "always" or (wording.when == "denied") == _negated(sentence[: match.start()]):
                    found[Suspicion(wording.rule, match.group().strip())] = None
    return list(found)


def plain_letters(text: str) -> str:
    """The text as it looks: compatibility forms, accents, look-alike letters, hidden characters and case undone."""
    shown = "".join(part for part in unicodedata.normalize("NFKD", text) if not unicodedata.combining(part))
    visible = "".join(part for part in shown.casefold() if unicodedata.category(part) != "Cf")
    return _SPELT_OUT.sub(lambda found: re.sub(r"[ \-_*]", "", found.group()), visible.translate(_LOOKALIKES))


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(plain_letters(text)):
        words = " ".join(_PARENTHESIS.sub(" ", sentence).split())
        if words:
            yield words


@cache
def _pattern(wording: Wording) -> re.Pattern[str]:
    first = rf"\b(?:{'|'.join(wording.first)})\b"
    if not wording.then:
        return re.compile(first)
    return re.compile(rf"{first}(?:\W+[\w'-]+){{0,{wording.within}}}?\W+(?:{'|'.join(wording.then)})\b")


@cache
def _negation() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(load('persona_wording.toml', Wordings).negations)})\b")


def _negated(before: str) -> bool:
    """Whether an odd number of negations stands in the last words before a wording, up to a comma."""
    clause = before.rpartition(",")[2].split()[-load("persona_wording.toml", Wordings).negation_reach :]
    return len(_negation().findall(" ".join(clause))) % 2 == 1
