"""Where a text of a briefing may end when not all of it fits: never inside a fact or a citation. Pure."""

import re
from collections.abc import Sequence

from gaiad.research.sentences import split

_CITED = re.compile(r"(?:\[Packet: [^\]\n]*\][.,;]?[ \t]*)+")
_WORD = re.compile(r"\S+")


def answers(text: str) -> Sequence[str]:
    """The beginnings of an answer that end behind a citation, shortest first; of one without any, behind a sentence."""
    if found := [match.end() for match in _CITED.finditer(text)]:
        return [text[:end].rstrip() for end in found]
    return _sentences(text)


def excerpts(text: str) -> Sequence[str]:
    """The beginnings of an excerpt that end behind a sentence, shortest first; before these, those of its first
    sentence by words, with a sign that it goes on."""
    whole = _sentences(text)
    first = whole[0] if whole else text
    return [*(f"{first[: match.end()]} …" for match in list(_WORD.finditer(first))[:-1]), *whole]


def _sentences(text: str) -> list[str]:
    return [text[: sentence.end] for sentence in split(text)]
