"""What a model may cite: the sentences of the pages it is given, each with a label that stands in the prompt. Pure.

A label is all that a reply can name, so that every citation is a span of a page that was in the context (decision 3).
"""

from collections.abc import Iterator, Sequence

import msgspec

from gaiad.generation import Segment
from gaiad.research.evidence import Evidence
from gaiad.research.quotes import LIST_MAX, TURN_MAX, spoken_from
from gaiad.research.sentences import cut_at_word, split
from gaiad.schemas import Page
from prompts.fence import fenced
from prompts.packet import ContextItem

PER_PAGE = 24


class Passage(msgspec.Struct, frozen=True):
    """page.text[start:end] under its label, `s1`, `s2` and so on through all pages."""

    label: str
    page: Page
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


def context_pages(
    selected: Sequence[Evidence], more: Sequence[Evidence], most: int, others: Sequence[Evidence] = ()
) -> list[Page]:
    """At most `most` pages for a model, best first: those selected with the answer to what one asks, then those that
    were searched for besides, which have a third of the places if they need them; `others` take what places are left.
    """
    pages: dict[str, Page] = {}
    for item in selected:
        pages.setdefault(item.page.page_id, item.page)
        if (following := _answer_to(item)) is not None:
            pages.setdefault(following.page_id, following)
    besides = {item.page.page_id: item.page for item in more if item.page.page_id not in pages}
    first = list(pages.values())[: most - min(len(besides), most // 3)]
    left = (item.page for item in others if item.page.page_id not in pages and item.page.page_id not in besides)
    return [*first, *besides.values(), *left][:most]


def _answer_to(item: Evidence) -> Page | None:
    """The turn after a turn that asks."""
    page = item.page
    if not page.speaker or not page.text.rstrip().endswith("?"):
        return None
    place = (page.packet_id, page.section, page.sequence + 1)
    near = (one for one in item.neighbours if (one.packet_id, one.section, one.sequence) == place)
    return next(near, None)


def passages_of(pages: Sequence[Page]) -> list[list[Passage]]:
    """For each page its passages in order; labels count through all of them."""
    numbered, given = [], 0
    for page in pages:
        spans = list(_spans(page))[:PER_PAGE]
        numbered.append([Passage(f"s{given + at}", page, *span) for at, span in enumerate(spans, start=1)])
        given += len(spans)
    return numbered


def _spans(page: Page) -> Iterator[tuple[int, int]]:
    begin, end = spoken_from(page), len(page.text.rstrip())
    if page.speaker and 0 < end - begin <= TURN_MAX:
        yield begin, end
        return
    for sentence in split(page.text):
        start = max(begin, sentence.start)
        stop = sentence.end if sentence.end - start <= LIST_MAX else cut_at_word(page.text, start, start + LIST_MAX)
        if stop > start:
            yield start, stop


def shown_with_labels(passages: Sequence[Passage]) -> list[Segment]:
    """A page fenced with its packet id (decision 8), its speaker, and a label before each passage."""
    page = passages[0].page
    head = f"{page.speaker}:\n" if page.speaker else ""
    text = head + "\n".join(f"({one.label}) {' '.join(one.text.split())}" for one in passages)
    return fenced(_item(page, text))


def shown_plain(page: Page) -> list[Segment]:
    """A page fenced with its packet id, as it stands."""
    return fenced(_item(page, page.text))


def shown_memo(page: Page, memo: str) -> list[Segment]:
    """A page by its id and what its memo says of it, its first words where it has none."""
    return fenced(_item(page, f"page {page.page_id}: {memo or page.text[: cut_at_word(page.text, 0, 160)]}"))


def _item(page: Page, text: str) -> ContextItem:
    return ContextItem(
        packet_id=page.packet_id, page_id=page.page_id, text=text, timestamp=page.timestamp, topic=page.topic
    )
