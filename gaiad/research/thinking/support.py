"""Does a quote carry the sentence that cites it? Rules on words, numbers, names and negations; no model is asked. Pure.

The rules are strict where an invention hurts most: a number or a name that is neither in the quotes nor in the question
is enough to drop the sentence. What they cannot see is a wrong connection of words that are all there.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

import msgspec

from gaiad.research.assertions import read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.evidence import Evidence
from gaiad.research.query import SearchParameters
from gaiad.research.sentence_values import written_numbers
from gaiad.research.sentences import (
    Quote,
    Statement,
    cite,
    cut_at_word,
    inline,
    shown,
    split,
    spoken_from,
)
from gaiad.research.synthesis import show_day
from gaiad.research.thinking.asking import Sentence, Synthesis
from gaiad.research.thinking.steps import Draft, WrittenSentence, statements_of
from gaiad.research.units import TURN_MAX_CHARS
from gaiad.research.words import content_words, forms, normalise, stem, stems, stop_words
from gaiad.wire.generation import Segment
from gaiad.wire.schemas import Page
from prompts.fence import fenced
from prompts.packet import ContextItem

PER_PAGE, PASSAGE_MAX_CHARS = 24, 700


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
    if page.speaker and 0 < end - begin <= TURN_MAX_CHARS:
        yield begin, end
        return
    for sentence in split(page.text):
        start = max(begin, sentence.start)
        stop = (
            sentence.end
            if sentence.end - start <= PASSAGE_MAX_CHARS
            else cut_at_word(page.text, start, start + PASSAGE_MAX_CHARS)
        )
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
    if foreign := foreign_number(sentence, known):
        return f"the number {foreign} is in no quote"
    standing = stems(known)
    if names := [name for name in _names(sentence) if not stems(name) <= standing]:
        return f"the name {names[0]} is in no quote"
    if _share(sentence, f"{said} {around}", question) < COVERED:
        return "its words are in no quote"
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


def foreign_number(sentence: str, known: str) -> str:
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
    met = sum(any(stem(one) in standing for one in (word, *forms(word))) for word in own)
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


_MARK = re.compile(r"\s*[\[(]\s*(?:packet\s*:|s\d+\b)[^\])]*[\])]", re.IGNORECASE)


def carried(
    said: Synthesis, passages: Mapping[str, Passage], parameters: SearchParameters, engine: str, zone: tzinfo
) -> tuple[Draft, list[str]]:
    """The sentences that their passages carry, in the order of the answer, and why others were dropped."""
    kept: list[WrittenSentence] = []
    dropped: list[str] = []
    for sentence in said.sentences:
        written, why = _held(sentence, passages, parameters.text, zone)
        if written is None:
            dropped.append(why)
        elif written.text not in [other.text for other in kept]:
            kept.append(written)
    if parameters.kind == "evolution" or parameters.dated:
        kept.sort(key=_first_said)
    return Draft(
        statements=statements_of(kept), sentences=tuple(kept), engine=engine, unsupported=len(dropped)
    ), dropped


def _held(
    sentence: Sentence, passages: Mapping[str, Passage], question: str, zone: tzinfo
) -> tuple[WrittenSentence | None, str]:
    text = shown(_MARK.sub("", sentence.text)).strip()
    if unknown := [label for label in sentence.sources if label not in passages]:
        return None, f"{unknown[0]!r} is not a passage of the context"
    quotes = [passages[label] for label in dict.fromkeys(sentence.sources)]
    if not text:
        return None, "it says nothing"
    if why := unsupported(text, quotes, question, zone):
        return None, why
    return WrittenSentence(text, tuple(_statement(quote) for quote in quotes)), ""


def _statement(passage: Passage) -> Statement:
    quote = Quote(passage.page, passage.start, passage.end, 1.0)
    return Statement(quote, cite(passage.page, passage.start, passage.end))


def _first_said(written: WrittenSentence) -> str:
    return min(statement.quote.page.timestamp for statement in written.statements)


def composed(parameters: SearchParameters, sentences: Sequence[WrittenSentence], zone: tzinfo) -> str:
    """The answer's text: a line a moment for an evolution, else one paragraph. Dates are days of `zone`."""
    if parameters.kind == "evolution":
        return "\n".join(f"- {show_day(_first_said(one), zone)}: {_with_marks(one)}" for one in sentences)
    return " ".join(_with_marks(one) for one in sentences)


def _with_marks(written: WrittenSentence) -> str:
    packets = dict.fromkeys(statement.citation.packet_id for statement in written.statements)
    return " ".join([written.text, *(inline(packet_id) for packet_id in packets)])
