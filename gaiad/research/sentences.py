"""Sentences with exact offsets, so that a quote is always the page's own characters.

Line breaks inside a sentence (wrapped text) do not end it; an empty line, a list mark, a heading or a `Speaker:` does.
"""

import functools
import re

import msgspec

_CAPITALS = "".join(letter for letter in map(chr, range(0x2000)) if letter.isupper())  # of scripts that have them
_BREAK = re.compile(
    rf"""(?P<blank>\n[ \t]*\n\s*)                                   # an empty line
      | (?P<line>(?<=[.!?:;…"”)\]])[ \t]*\n\s*)                    # a line that ends as a sentence ends
      | (?P<mark>(?<![ \t])[ \t]*+\n\s*(?=[-*•#>–—]\s|\d{{1,3}}[.)]\s|\w[\w .()/'-]{{0,60}}:\s|\[))  # a list, speaker
      | (?P<stop>(?<![.!?…])[.!?…]++["'”’)\]]*+(?=\s+["'“‘(\[]?[{_CAPITALS}0-9¿¡]))   # a full stop before a capital
      | (?P<wide>[。！？]+)""",
    re.VERBOSE,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|approx|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Sec|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    rf"|(?:^|[\s(])[{_CAPITALS}])$"
)


LONGEST_ABBREVIATION = 8


class Sentence(msgspec.Struct, frozen=True):
    """`text` is page.text[start:end], without white space at its ends."""

    text: str
    start: int
    end: int


def split(text: str) -> list[Sentence]:
    """The sentences of `text` in order; every character but white space between them belongs to one."""
    return list(_split(text))


@functools.lru_cache(maxsize=512)  # a page is split for its quotes, its echoes and what it says against another
def _split(text: str) -> tuple[Sentence, ...]:
    sentences: list[Sentence] = []
    start = 0
    for match in _BREAK.finditer(text):
        if match.group("stop") and _ABBREVIATION.search(
            text[max(start, match.start() - LONGEST_ABBREVIATION) : match.start()]
        ):
            continue
        end = match.end() if match.group("stop") or match.group("wide") else match.start()
        _append(sentences, text, start, end)
        start = match.end()
    _append(sentences, text, start, len(text))
    return tuple(sentences)


def _append(sentences: list[Sentence], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        first = start + len(piece) - len(piece.lstrip())
        sentences.append(Sentence(stripped, first, first + len(stripped)))


def lead_end(text: str, start: int, limit: int) -> int:
    """Where as many whole sentences from `start` on end as fit in `limit` characters; at a word when none fits."""
    ends = [start + sentence.end for sentence in split(text[start:]) if sentence.end <= limit]
    return max(ends, default=cut_at_word(text, start, start + limit))


def cut_at_word(text: str, start: int, end: int) -> int:
    """The last offset at or before `end` where a word ends, at least one character past `start`."""
    if end >= len(text):
        return len(text.rstrip())
    space = max(text.rfind(" ", start, end + 1), text.rfind("\n", start, end + 1))
    return space if space > start else end
