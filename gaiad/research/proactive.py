"""Proactive context: an earlier packet that bears on what a person says, though nobody asked for it.

One search and rules: a page bears on a message when it covers the words that tell what the message is about, and is
near to it in meaning. Both have to be so to a good part, for what is shown unasked must seldom be beside the point.
Which candidate is shown, and that none is shown twice, is the turn's business.
"""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo

import msgspec

from gaiad.base.clock import day_of
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.evidence import COSINE_FLOOR, COSINE_FULL, asks, own_words
from gaiad.research.familiar import everyday_stems
from gaiad.research.sentences import inline, shown
from gaiad.research.words import content_words, rarity, stem, stems
from gaiad.wire.schemas import Hit, Page, SearchRequest

SEARCHED, PAGES = 30, 12
"""Hits, and how many of those are read that are not passed over; the rest is no better (measured)."""
MOST_CHARACTERS = 2000  # of a long message its beginning
MOST_WORDS = 40
EVERYDAY = 0.3
"""What a word of ordinary talk counts, beside one that tells something."""
LEXICAL_SHARE = 0.5
BEARS = 0.55
"""Covered words and nearness, half and half, from 0 to 1: from here on a page bears on the message."""
BEARS_BY_WORDS = 0.65
"""The same without an embedder, of the covered words alone, of which two then have to tell something."""
NEWS = 3
"""So many words of its own a page has to have beside those of the message: what only repeats it adds nothing."""
_TITLE_CHARACTERS = 120
_DATA = frozenset(("header", "behavior", "integrity"))
"""Sections that tell of a packet, and nothing that was covered in it."""
_ATTRIBUTES = re.compile(r"\([^()]*\)$", re.MULTILINE)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A packet by the page of it that bears most on the message; `score` is 0 to 1."""

    packet_id: str
    topic: str
    timestamp: str
    excerpt: str
    score: float


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a message: what each counts, by its stem, and which of them tell something."""

    weights: dict[str, float]
    telling: frozenset[str]


async def bearing_on(
    archive: Archive, message: str, call: RequestContext, session_id: str = "", passed_over: Collection[str] = ()
) -> list[Candidate]:
    """Packets that bear on the message, a packet once, best first; [] for a message that tells nothing.

    None is of the session, nor among `passed_over` (packet ids). Raises what the archive raises.
    """
    said = message[:MOST_CHARACTERS]
    words = content_words(said)[:MOST_WORDS]
    if all(stem(word) in everyday_stems() for word in words):
        return []
    request = SearchRequest(query=said, limit=SEARCHED, explain=True, tenant=call.tenant)
    response, frequencies, facets = await asyncio.gather(
        archive.search(request, call), archive.document_frequency(words, call), archive.facets(call)
    )
    hits = [hit for hit in response.hits if hit.packet_id not in passed_over]
    hits = [hit for hit in hits if not session_id or hit.session_id != session_id][:PAGES]
    pages = await archive.pages([hit.page_id for hit in hits], call) if hits else []
    return candidates(weigh(frequencies, facets.pages), list(zip(hits, pages, strict=True)))


def weigh(frequencies: Mapping[str, int], pages: int) -> Weighed:
    """`frequencies` counts, for each word of the message, the pages it occurs in, of `pages` in all."""
    rare = rarity(frequencies, pages)
    weights: dict[str, float] = {}
    for word, weight in rare.items():
        own = stem(word)
        weights[own] = max(weights.get(own, 0.0), weight * (EVERYDAY if own in everyday_stems() else 1.0))
    return Weighed(weights=weights, telling=frozenset(weights) - everyday_stems())


def candidates(said: Weighed, found: Sequence[tuple[Hit, Page]]) -> list[Candidate]:
    """The packets of those pages that bear on the message, best first."""
    by_meaning = any(_cosine(hit) is not None for hit, _ in found)
    best: dict[str, Candidate] = {}
    for hit, page in found:
        score = _score(said, hit, page, by_meaning=by_meaning)
        known = best.get(page.packet_id)
        if score and (known is None or score > known.score):
            best[page.packet_id] = Candidate(
                packet_id=page.packet_id,
                topic=page.topic,
                timestamp=page.timestamp,
                excerpt=hit.excerpt,
                score=round(score, 3),
            )
    return sorted(best.values(), key=lambda one: -one.score)


def first_new(found: Sequence[Candidate], passed_over: Collection[str]) -> Candidate | None:
    """The best one that is not among `passed_over` (packet ids)."""
    return next((one for one in found if one.packet_id not in passed_over), None)


def title_of(found: Candidate) -> str:
    """What the packet is about, as it may be shown; "" when it does not say."""
    topic = shown(found.topic)
    return topic if len(topic) <= _TITLE_CHARACTERS else f"{topic[: _TITLE_CHARACTERS - 1]}…"


def told(found: Candidate, zone: tzinfo) -> str:
    """The candidate in a sentence for the person; its day is that of `zone`."""
    about = title_of(found) or "this"
    said = shown(found.excerpt)
    return f'In {inline(found.packet_id)} of {day_of(found.timestamp, zone)} we also covered {about}: "{said}"'


def _score(said: Weighed, hit: Hit, page: Page, *, by_meaning: bool) -> float:
    """How much the page bears on the message, 0.0 when not enough.

    What only asks, only repeats the message, was written by a model of ours, or is data of a packet bears on nothing.
    """
    score = _covering(said, hit, page, by_meaning=by_meaning)
    if not score or _is_data(page) or own_words(page) or (page.speaker == "user" and asks(page.text)):
        return 0.0
    return 0.0 if _repeats(said, page) else score


def _covering(said: Weighed, hit: Hit, page: Page, *, by_meaning: bool) -> float:
    """How much of the message it covers and how near it is, 0.0 when not enough."""
    standing = stems(page.text) | stems(page.topic)
    covered = [own for own in said.weights if own in standing]
    telling = sum(own in said.telling for own in covered)
    lexical = sum(said.weights[own] for own in covered) / sum(said.weights.values())
    if not by_meaning:
        return lexical if telling >= 2 and lexical >= BEARS_BY_WORDS else 0.0
    nearness = ((_cosine(hit) or 0.0) - COSINE_FLOOR) / (COSINE_FULL - COSINE_FLOOR)
    score = LEXICAL_SHARE * lexical + (1.0 - LEXICAL_SHARE) * min(1.0, max(0.0, nearness))
    return score if telling and score >= BEARS else 0.0


def _is_data(page: Page) -> bool:
    """Whether nobody said it: fields of a packet, or elements that have attributes alone."""
    words = max(len(line.split()) for line in _ATTRIBUTES.sub("", page.text).splitlines() or [""])
    return page.section in _DATA or (page.section == "other" and words < NEWS)


def _repeats(said: Weighed, page: Page) -> bool:
    """Whether the page says next to nothing but words of the message."""
    told = {stem(word) for word in content_words(page.text)}
    return len(told - said.weights.keys()) < NEWS


def _cosine(hit: Hit) -> float | None:
    seen = hit.explanation.retrievers.get("dense") if hit.explanation else None
    return None if seen is None else seen.score
