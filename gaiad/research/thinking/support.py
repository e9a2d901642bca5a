"""Does a quote carry the sentence that cites it? Rules on words, numbers, names and negations; no model is asked.

Pure. The rules are strict where an invention hurts most: a number or a name that stands neither in the quotes nor in
the question is enough to drop the sentence. What they cannot see is a wrong connection of words that all stand there.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, tzinfo

from gaiad.research.assertions import read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.quantities import written_numbers
from gaiad.research.sentences import split
from gaiad.research.synthesis import show_day
from gaiad.research.thinking.passages import Passage
from gaiad.research.words import content_words, expand_initials, forms, normalise, stem, stems, stop_words, synonyms

COVERED = 0.6
"""The share of a sentence's own words (those the question does not have) that its quotes must have too."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_PAIR = re.compile(r"\b(?:both|couple|pairs?|twice)\b", re.IGNORECASE)
_WORD = re.compile(r"\b[^\W\d_][\w'’-]+")
_OPENING_WORDS = """
additionally also both consequently conversely eventually finally first furthermore however in initially instead
last later meanwhile moreover next nevertheless no originally overall previously recently second similarly
subsequently then therefore third thus ultimately yes yet
"""
_OPENINGS = frozenset(_OPENING_WORDS.split())
"""How a sentence may begin with a capital that is no name."""


def unsupported(sentence: str, quotes: Sequence[Passage], question: str, zone: tzinfo) -> str:
    """Why the quotes do not carry `sentence`, "" when they do."""
    around = _around(quotes, zone)
    sentence = unicodedata.normalize("NFC", sentence)
    said = unicodedata.normalize("NFC", " ".join(quote.text for quote in quotes))
    known = f"{said} {around} {question}"
    if foreign := _foreign_number(sentence, known):
        return f"the number {foreign} stands in no quote"
    standing = stems(known) | {stem(word) for meaning in expand_initials(known) for word in content_words(meaning)}
    if names := [name for name in _names(sentence) if not stems(name) <= standing]:
        return f"the name {names[0]} stands in no quote"
    if _share(sentence, f"{said} {around}", question) < COVERED:
        return "its words stand in no quote"
    if any(_contradicts(sentence, quote) for quote in quotes):
        return "a quote says otherwise"
    return ""


def _around(quotes: Sequence[Passage], zone: tzinfo) -> str:
    """What is known of a quote besides its words: who said it, when, about what."""
    return " ".join(
        f"{quote.page.speaker} {quote.page.topic} {quote.page.model} {quote.page.timestamp[:10]} "
        f"{_day(quote.page.timestamp, zone)}"
        for quote in quotes
    )


def _day(timestamp: str, zone: tzinfo) -> str:
    """The day in digits and in words, its month in full too."""
    moment = datetime.fromisoformat(timestamp).astimezone(zone)
    return f"{show_day(timestamp, zone)} {moment.strftime('%B')} {moment.day} {moment.year} {moment.month:02}"


def _names(sentence: str) -> list[str]:
    """Its capitalised words but for those that a sentence may well begin with."""
    usual = stop_words() | _OPENINGS
    return [word for word in _WORD.findall(sentence) if word[0].isupper() and normalise(word) not in usual]


def _foreign_number(sentence: str, known: str) -> str:
    """A number of the sentence that is not known, in digits or in words, as it is written; "" for none."""
    digits, values = _numbers(known), written_numbers(known)
    in_digits = {f"{value:g}" for value in values}
    if foreign := _numbers(sentence) - digits - in_digits:
        return min(foreign)
    pair = {2.0} if _PAIR.search(known) else set()
    for value, written in written_numbers(sentence).items():
        if written[0].isalpha() and value not in values and value not in pair and f"{value:g}" not in digits:
            return written
    return ""


def _numbers(text: str) -> set[str]:
    """Numbers as written, and their parts: 2025-11-27 has 2025, 11 and 27."""
    found = {number.replace(",", "").lstrip("0") or "0" for number in _NUMBER.findall(text)}
    return found | {part.lstrip("0") or "0" for number in found for part in re.split(r"[.:]", number)}


def _share(sentence: str, said: str, question: str) -> float:
    """The share of the sentence's own content words that are said; all of it when it has none of its own."""
    standing, asked = stems(said), stems(question)
    own = [word for word in content_words(sentence) if stem(word) not in asked]
    if not own:
        return 1.0 if standing & (stems(sentence) | {stem(word) for word in content_words(question)}) else 0.0
    met = sum(any(stem(one) in standing for one in (word, *forms(word), *synonyms(word))) for word in own)
    return met / len(own)


def _contradicts(sentence: str, quote: Passage) -> bool:
    """Whether the sentence says what a sentence of the quote denies, or another number or day of the same thing."""
    page = quote.page
    mine = read_assertion(sentence, page.timestamp, page.speaker)
    for part in split(quote.text):
        relation = compare(mine, read_assertion(part.text, page.timestamp, page.speaker))
        if relation is not None and relation.kind == "contradiction":
            return True
    return False
