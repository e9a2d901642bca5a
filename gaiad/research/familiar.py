"""Does a message speak of what the archive holds (GAM, Integration Point 2), though it shows no sign of asking for it?

"Explain the convergent scan" asks for nothing said before, but somebody said it before. One search by words answers
that: a page has to cover the words of the message that are not everyday ones. A needless look costs milliseconds and
some room in the prompt, a missed one costs the answer.
"""

import functools
import re
from collections.abc import Collection, Sequence

import msgspec

from constants.load import load
from gaiad.ports import Archive, Call
from gaiad.research.echoes import own_words, repeats_question
from gaiad.research.query import request_words
from gaiad.research.words import cut, stem, stems, stop_words
from gaiad.schemas import Page, SearchRequest

COVERED, COVERED_OF_OURS, COVERED_FOR_A_TASK = 0.6, 0.5, 1.0
PAGES = 12
MOST_WORDS = 24  # of a long message its first ones


class _Everyday(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]
    ours: tuple[str, ...]
    tasks: tuple[str, ...]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a message can be known by: `words` normalised, once each; `least` of them have to stand in one page, which
    is `share` of them at least."""

    words: tuple[str, ...]
    share: float
    least: int

    def shown_by(self, page: Page) -> list[str]:
        """The words that stand in the page, [] when they are too few."""
        standing = stems(f"{page.text} {page.topic} {page.model}")
        found = [word for word in self.words if stem(word) in standing]
        return found if len(found) >= max(self.least, self.share * len(self.words)) else []


def telling(message: str) -> Told:
    """The words that would tell it: uncommon ones; of what is said to be ours everyday words too."""
    table, plain = _table(), " ".join(message.lower().split())
    spoken = [word.lower for word in cut(message)]
    words = [word for word in dict.fromkeys(spoken) if word not in stop_words() and not _is_number(word)]
    words = [word for word in words if word not in request_words()]
    rare = [word for word in words if stem(word) not in everyday_stems()]
    if any(re.search(pattern, plain) for pattern in table.tasks):
        return Told(words=tuple(rare[:MOST_WORDS]), share=COVERED_FOR_A_TASK, least=2)
    if set(spoken) & set(table.ours) and words:
        return Told(words=tuple(words[:MOST_WORDS]), share=COVERED_OF_OURS, least=1)
    return Told(words=tuple(rare[:MOST_WORDS]), share=COVERED, least=min(2, len(rare)))


async def familiar(archive: Archive, message: str, passed_over: Collection[str], call: Call) -> list[str]:
    """The words of the message that a page knows, [] when none does.

    Pages of `passed_over` (packet ids), the same question asked before and what a model of ours said do not count.
    Raises what the archive raises.
    """
    told = telling(message)
    if not told.words or told.least < 1:
        return []
    request = SearchRequest(query=" ".join(told.words), mode="bm25", limit=PAGES, tenant=call.tenant)
    hits = [hit for hit in (await archive.search(request, call)).hits if hit.packet_id not in passed_over]
    pages = await archive.pages([hit.page_id for hit in hits], call) if hits else []
    return most_shown(told, [page for page in pages if not own_words(page) and not repeats_question(page, message)])


def most_shown(told: Told, pages: Sequence[Page]) -> list[str]:
    """What the page with most of the words has of them."""
    return max((told.shown_by(page) for page in pages), key=len, default=[])


def _is_number(word: str) -> bool:
    return not any(character.isalpha() for character in word)


@functools.cache
def _table() -> _Everyday:
    return load("everyday_words.toml", _Everyday)


@functools.cache
def everyday_stems() -> frozenset[str]:
    """Stems of words of ordinary talk and of everyday tasks."""
    return frozenset(stem(word) for word in _table().words)
