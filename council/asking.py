"""What a message asks for, by words (constants/asking_words.toml): something to be done, and with what risk. Pure.

A first look that costs nothing and decides only how deep the council thinks; permission is never read from it.
"""

import re
from collections.abc import Iterable
from functools import cache

import msgspec

from constants.load import load
from prompts.packet import RiskLevel

_SENTENCE = re.compile(r"[.!?;:\n]+")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_QUOTED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*", re.DOTALL | re.MULTILINE)


class AskingWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/asking_words.toml."""

    actions: tuple[str, ...]
    objects: tuple[str, ...]
    courtesies: tuple[str, ...]
    high: tuple[str, ...]
    med: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`action` is the words that ask for something to be done, "" for none; `risk_words` those that made the risk."""

    action: str
    risk: RiskLevel
    risk_words: tuple[str, ...]


def what_is_asked(message: str) -> Asked:
    """Read a message as the shipped words have it; what is quoted in it counts for the risk, not as an order."""
    words = load("asking_words.toml", AskingWords)
    for risk, entries in (("high", words.high), ("med", words.med)):
        found = tuple(dict.fromkeys(hit[0].lower() for hit in _any_of(entries).finditer(message)))
        if found:
            return Asked(action=_action(message, words), risk=msgspec.convert(risk, RiskLevel), risk_words=found)
    return Asked(action=_action(message, words), risk="low", risk_words=())


def _action(message: str, words: AskingWords) -> str:
    """The first sentence that begins with an action and names what it is done to."""
    passed, actions, objects = frozenset(words.courtesies), frozenset(words.actions), _any_of(words.objects)
    for sentence in _SENTENCE.split(_QUOTED.sub(" ", message)):
        said = _WORD.findall(sentence.lower())
        start = next((place for place, word in enumerate(said) if word not in passed), len(said))
        if said[start : start + 1] and said[start] in actions and objects.search(" ".join(said[start + 1 :])):
            return " ".join(said[start : start + 6])
    return ""


@cache
def _any_of(entries: Iterable[str]) -> re.Pattern[str]:
    """Any of the words, whole; a star at the end stands for any ending."""
    parts = [
        re.escape(entry.removesuffix("*")).replace(r"\ ", r"\s+") + (r"\w*" if entry.endswith("*") else "")
        for entry in entries
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)
