"""Sentences with exact offsets, so that a quote is always the page's own characters, and citations of them.

Line breaks inside a sentence (wrapped text) do not end it; an empty line, a list mark, a heading or a `Speaker:` does.
"""

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from gaiad.base.citations import as_text
from gaiad.base.citations import mark as inline
from gaiad.base.ports import Archive, RequestContext
from gaiad.wire.schemas import Citation, Page

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


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

__all__ = ["cite", "confirmed", "inline", "shown", "verifies"]


def cite(page: Page, start: int, end: int) -> Citation:
    """A citation of `page.text[start:end]`; offsets are characters."""
    quote = page.text[start:end]
    return Citation(
        packet_id=page.packet_id,
        page_id=page.page_id,
        start=start,
        end=end,
        sha256=hashlib.sha256(quote.encode()).hexdigest(),
        quote=quote,
        timestamp=page.timestamp,
        topic=page.topic,
        speaker=page.speaker,
        classification=page.classification,
        policy_tags=page.policy_tags,
    )


def verifies(citation: Citation, pages: Mapping[str, Page]) -> bool:
    """Whether the stored page still says exactly this, in the packet it is cited from."""
    page = pages.get(citation.page_id)
    if page is None or page.packet_id != citation.packet_id or not citation.quote:
        return False
    stored = page.text[citation.start : citation.end]
    return stored == citation.quote and hashlib.sha256(stored.encode()).hexdigest() == citation.sha256


async def confirmed(archive: Archive, citations: Sequence[Citation], call: RequestContext) -> list[Citation]:
    """The citations that the archive still confirms, read afresh (decision 22)."""
    page_ids = list(dict.fromkeys(citation.page_id for citation in citations))
    stored = {page.page_id: page for page in await archive.pages(page_ids, call)} if page_ids else {}
    return [citation for citation in citations if verifies(citation, stored)]


def shown(text: str) -> str:
    """Stored text as it may occur in an answer: one line, no control characters, nothing that passes for a citation."""
    return as_text(_CONTROL.sub("", " ".join(text.split())))


_PREFIX = (
    r"\s*(?:[-*>#]+[ \t]+)?(?:\[[^\]\n]{{1,30}}\][ \t]*)?(?:\*\*|__)?{name}"
    r"(?: \([^)\n]{{1,40}}\))?(?:\*\*|__)?:(?:\*\*|__)?\s*"
)


class Quote(msgspec.Struct, frozen=True):
    """page.text[start:end], and how much of the question it covers (0 to about 1.3).

    `counted` is how many it lists of the things that the question counts, as "4 risks"; "" where it counts nothing.
    """

    page: Page
    start: int
    end: int
    score: float
    counted: str = ""

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


class Statement(msgspec.Struct, frozen=True):
    """One quote, its citation, and the side of a comparison it stands on, "" when none."""

    quote: Quote
    citation: Citation
    side: str = ""


def spoken_from(page: Page) -> int:
    """Where what is said begins: after white space and, on a turn's first page, after the speaker's name."""
    if page.speaker:
        match = re.match(_PREFIX.format(name=re.escape(page.speaker)), page.text)
        if match:
            return match.end()
    return len(page.text) - len(page.text.lstrip())
