"""Words of questions and pages: how they are cut, stemmed and weighed, so that both sides meet in the same form.

The text index stems by the same rules (Porter); here the stems decide what a found page covers of the question.
"""

import functools
import math
import re
import unicodedata
from collections.abc import Mapping

import msgspec
import Stemmer

from constants.load import load
from constants.word_forms import families

# Numbers keep their points and versions their prefix (v2.0); an apostrophe inside a word is part of it, and so is an
# accent that stands as a character of its own, as in text from a Mac or a PDF.
_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"
_WORD = re.compile(rf"{_LETTERS}(?:(?:\.\d+)+|(?:['’]{_LETTERS})*)")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:(?:\.[0-9]+)+|(?:'[A-Za-z0-9]+)*)")  # the same where all is ASCII, and faster
_TEXTS_KEPT = 1024  # of one run some 300 are looked at, most of them twice; a page's stems are 2 to 8 KB
_APOSTROPHE = re.compile(r"['’]")


class _WordList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]


class Word(msgspec.Struct, frozen=True):
    """A word as written and where it stands, in characters."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """Lower case; a possessive `'s` and other apostrophes removed."""
        return normalise(self.text)


@functools.lru_cache(maxsize=65536)
def normalise(word: str) -> str:
    """Lower case without possessive, apostrophes or accents: Gemini's -> gemini, don't -> dont, café -> cafe."""
    lower = word.lower().replace("’", "'")
    plain = _APOSTROPHE.sub("", lower.removesuffix("'s"))
    if plain.isascii():
        return plain
    return "".join(mark for mark in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(mark))


def cut(text: str) -> list[Word]:
    """The words of `text` in order, with their offsets."""
    return [Word(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


def lowered(text: str) -> list[str]:
    """The words of `text` in order, normalised, without their offsets: three times as fast as `cut`."""
    words = _ASCII_WORD if text.isascii() else _WORD
    return [normalise(word) for word in words.findall(text)]


def is_letter(word: str) -> bool:
    """Whether a word is a capital alone, as in `plan A`: it names, and is no article."""
    return len(word) == 1 and word.isupper() and word != "I"


def has_letter(text: str, letter: str) -> bool:
    """Whether the capital `letter` stands alone in `text`; an `A` that begins a sentence is an article."""
    names_a = r"(?<=\w )A\b|\bA(?= (?:is|was|and|or|vs)\b|[,:;)])"
    return bool(re.search(names_a if letter == "A" else rf"\b{letter}\b", text))


@functools.lru_cache(maxsize=1)
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("porter")


@functools.lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The Porter stem of a normalised word, as the text index stems; words with digits are left alone."""
    if any(character.isdigit() for character in word):
        return word
    return str(_stemmer().stemWord(word))


@functools.lru_cache(maxsize=_TEXTS_KEPT)
def stems(text: str) -> frozenset[str]:
    """Every stem that occurs in `text`, hyphenated words in their parts."""
    words = _ASCII_WORD if text.isascii() else _WORD
    return frozenset(map(_stem_as_written, words.findall(text)))


@functools.lru_cache(maxsize=65536)
def _stem_as_written(word: str) -> str:
    return stem(normalise(word))


@functools.cache
def stop_words() -> frozenset[str]:
    return frozenset(load("stop_words.toml", _WordList).words)


@functools.cache
def light_stems() -> frozenset[str]:
    """Stems of words of time and quantity and of verbs that say little: an answer may lack them."""
    return frozenset(map(stem, load("light_words.toml", _WordList).words))


def content_words(text: str) -> list[str]:
    """Normalised words of `text` that carry a topic, in order, once each."""
    idle = stop_words()
    return list(dict.fromkeys(word for word in lowered(text) if word not in idle and word))


@functools.cache
def _forms_by_stem() -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for family in families():
        by_stem = {stem(word): word for word in family}
        for own in by_stem:
            table.setdefault(own, []).extend(word for other, word in by_stem.items() if other != own)
    return {own: tuple(dict.fromkeys(words)) for own, words in table.items()}


def forms(word: str) -> tuple[str, ...]:
    """Other forms of a normalised word that the stemmer leaves apart, as `bought` of `buy`; () of a regular word."""
    return _forms_by_stem().get(stem(word), ())


def rarity(frequencies: Mapping[str, int], pages: int) -> dict[str, float]:
    """A weight for each word, 1.0 for one in a single page or in none, falling to 0.05 for one in every page.

    `frequencies` counts the pages a word occurs in, `pages` all pages. Inverse document frequency over its maximum.
    """
    total = max(pages, *frequencies.values(), 2) if frequencies else 2
    ceiling = math.log(1 + (total - 0.5) / 1.5)
    weights = {}
    for word, count in frequencies.items():
        seen = max(count, 1)
        weights[word] = max(0.05, math.log(1 + (total - seen + 0.5) / (seen + 0.5)) / ceiling)
    return weights
