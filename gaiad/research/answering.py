"""From a question to the fewest units that answer it, and how likely they do.

Small to find, the page to show: units of the likeliest packets are scored one by one, whole packets are read where they
are short, and of a long one the pages that were found with those beside them.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
import numpy as np

from gaiad.base.text import words_of
from gaiad.research.evidence import Evidence
from gaiad.research.query import request_words
from gaiad.research.scoring import COVERED, Question, asks_how_many, counted_in, counts, deed_of, weights
from gaiad.research.sentences import Quote
from gaiad.research.unit_index import Scored, UnitScores, UnitShelf, ranked
from gaiad.research.units import Unit
from gaiad.research.words import light_stems, stem
from gaiad.wire.schemas import Page

PACKETS_READ = 8
"""Packets whose units are scored, the likeliest first."""
WORDS_MAX, UNITS_MAX = 80, 8
LOOKED_AT = 40
COMPARED, COMPARED_CHARS = 4, 200
"""Units that are compared with the question by meaning, the best by their score, and how much of each."""
NEARNESS, UNLIKE = 4.0, 0.25
"""What a cosine of 1 to the question adds to a unit's score (log odds), and at most the cosine of one not compared."""
NEAR_BEST = 4.0
"""How far below the best unit's score (log odds) another one may be that is told beside it."""
OTHER_PACKET = 0.8
"""How likely another packet must be against the best one for its units to be told beside it."""
PACKET_DOUBT = 0.2
"""What an answer loses of its confidence where other packets are as likely to hold it."""
LEXICAL_COSINE = 0.6
"""Of a page found by its words alone, against its cover of the question: what its cosine usually is."""


class FoundUnits(msgspec.Struct, frozen=True):
    """The units that answer, best first, and how likely they do, 0 to 1; `near` is one that comes near."""

    chosen: tuple[Scored, ...]
    confidence: float
    near: Scored | None = None


Similarity = Callable[[Sequence[str]], Awaitable[list[float]]]
"""Texts to the cosine of each to the question; [] where nothing can be compared."""


class Answerer:
    """Scores units for one run; `packets` are pages by packet id as the run has read them."""

    def __init__(self, shelf: UnitShelf) -> None:
        self._shelf = shelf

    async def find(
        self,
        question: Question,
        evidence: Sequence[Evidence],
        packets: Mapping[str, Sequence[Page]],
        threshold: float,
        similarity: Similarity,
        *,
        of_then: bool,
    ) -> FoundUnits:
        """The answer from `evidence`, pages as they were found; `threshold` is how likely a further packet must be.

        `of_then` says that the question names a period and the evidence is of it.
        """
        held = self._held(question, evidence, packets, PACKETS_READ)
        measured = any(item.cosine is not None for item in evidence)
        scored = await _by_meaning(ranked(list(held.values()), LOOKED_AT), similarity, measured=measured)
        likely = _likelihood(scored)
        chosen = _with_answers(fewest(scored, likely, threshold), held)
        if asks_how_many(question):
            chosen = _counted(question, chosen, held)
        share = sum(likely[one] for one in {each.unit.page.packet_id for each in chosen})
        return FoundUnits(tuple(chosen), confidence_of(question, chosen, share, of_then), _near(question, chosen))

    def best_of(
        self,
        question: Question,
        selected: Sequence[Evidence],
        packets: Mapping[str, Sequence[Page]],
        per_packet: int,
        total: int,
        accepts: Callable[[Quote], bool],
    ) -> list[Quote]:
        """The best units of the packets of the selected pages that are accepted, best first, each place once."""
        held = list(self._held(question, selected, packets, len(selected)).values())
        chosen: list[Scored] = []
        for one in ranked(held, sum(len(each.units) for each in held)):
            page = one.unit.page
            beside = [other for other in chosen if other.unit.page.packet_id == page.packet_id]
            near = not beside or (len(beside) < per_packet and one.score >= beside[0].score - NEAR_BEST)
            if near and all(map(accepts, quotes_of([one]))) and _is_new(one, chosen):
                chosen.append(one)
            if len(chosen) == total:
                break
        return quotes_of(chosen)

    def _held(
        self, question: Question, evidence: Sequence[Evidence], packets: Mapping[str, Sequence[Page]], most: int
    ) -> dict[str, UnitScores]:
        """By packet id the units of the likeliest packets, at most so many, against the question."""
        places = _places(evidence)
        best: dict[str, float] = {}
        for item in evidence:
            best[item.page.packet_id] = max(best.get(item.page.packet_id, 0.0), item.fused)
        read = [
            (packet_id, self._shelf.units(packets.get(packet_id, ())))
            for packet_id in sorted(best, key=lambda one: -best[one])[:most]
        ]
        return {packet_id: units.hold(question, places, best[packet_id]) for packet_id, units in read if units}


async def _by_meaning(scored: Sequence[Scored], similarity: Similarity, *, measured: bool) -> list[Scored]:
    """The units, best first, with how near each is to the question in meaning as a part of its score.

    What somebody says is as near as its page; another unit that is not compared as the farthest, or `UNLIKE`. Where no
    page is `measured` and nothing can be compared, words alone decide.
    """
    own = [one for one in scored if not one.unit.page.speaker]
    texts = list(dict.fromkeys(map(_compared_text, own)))[:COMPARED]
    found = dict(zip(texts, await similarity(texts), strict=False)) if texts else {}
    if not (found or measured):
        return list(scored)
    least = min(UNLIKE, *found.values()) if found else 0.0
    told = []
    for one in scored:
        near = found.get(_compared_text(one), least) if found and not one.unit.page.speaker else one.cosine
        told.append(msgspec.structs.replace(one, near=near, score=one.score + NEARNESS * near))
    return sorted(told, key=lambda one: -one.score)


def _compared_text(one: Scored) -> str:
    """A unit below what stands above it, names of fields in words."""
    unit = one.unit
    return ": ".join(filter(None, (unit.path, words_of(unit.text))))[:COMPARED_CHARS]


def _near(question: Question, chosen: Sequence[Scored]) -> Scored | None:
    """The best of the chosen units that has a word of what is asked about: not only the deed, words of asking or light
    ones."""
    idle = light_stems() | {stem(word) for word in request_words()}
    about = [at for at, term in enumerate(question.terms) if term.stem not in idle and at != deed_of(question)]
    return next((one for one in chosen if any(one.credits[at] >= COVERED for at in about)), None)


def _with_answers(chosen: Sequence[Scored], held: Mapping[str, UnitScores]) -> list[Scored]:
    """The chosen units; behind a turn that asks, the turn that answers it."""
    told: list[Scored] = []
    for one in chosen:
        told.append(one)
        page = one.unit.page
        if one.unit.kind != "turn" or not one.unit.text.endswith("?"):
            continue
        answer = held[page.packet_id].best_of(page.sequence + 1, ("turn", "sentence"))
        if answer is not None and all(answer.unit != other.unit for other in chosen):
            told.append(answer)
    return told


def _places(evidence: Sequence[Evidence]) -> dict[str, tuple[float, float]]:
    by_meaning = any(item.cosine is not None for item in evidence)
    return {
        item.page.page_id: (item.fused, (item.cosine or 0.0) if by_meaning else LEXICAL_COSINE * item.lexical)
        for item in evidence
    }


def _likelihood(scored: Sequence[Scored]) -> dict[str, float]:
    """By packet, how likely it is the one that holds the answer if one of these does; sums to 1."""
    best: dict[str, float] = {}
    for one in scored:
        best.setdefault(one.unit.page.packet_id, one.score)
    top = max(best.values(), default=0.0)
    odds = {packet_id: math.exp(value - top) for packet_id, value in best.items()}
    total = sum(odds.values())
    return {packet_id: value / total for packet_id, value in odds.items()}


def fewest(scored: Sequence[Scored], likely: Mapping[str, float], threshold: float) -> list[Scored]:
    """The best unit and those near it that add to it, within `WORDS_MAX` words; none that repeats another's place."""
    if not scored:
        return []
    home = scored[0].unit.page.packet_id
    chosen: list[Scored] = []
    words = 0
    for one in scored:
        length = len(one.unit.text.split())
        if chosen and (one.score < scored[0].score - NEAR_BEST or words + length > WORDS_MAX):
            continue
        packet_id = one.unit.page.packet_id
        if packet_id != home and likely[packet_id] < max(threshold, OTHER_PACKET) * likely[home]:
            continue
        if not _is_new(one, chosen):
            continue
        chosen.append(one)
        words += length
        if len(chosen) == UNITS_MAX:
            break
    return chosen


def _is_new(one: Scored, chosen: Sequence[Scored]) -> bool:
    """Whether it repeats no place of those chosen."""
    return not any(_overlap(one.unit, other.unit) for other in chosen)


def quotes_of(scored: Sequence[Scored]) -> list[Quote]:
    """Each place of the units as a quote, in their order."""
    return [Quote(*piece, one.score, one.counted) for one in scored for piece in one.unit.pieces]


def _counted(question: Question, chosen: Sequence[Scored], held: Mapping[str, UnitScores]) -> list[Scored]:
    """The chosen units, each with how many of the things asked for it lists, by itself or by a list within it."""
    told: list[Scored] = []
    named = " ".join(question.terms[at].word for at in sorted(question.head))
    for one in chosen:
        lists = [other for other in held[one.unit.page.packet_id].units if _within(other, one.unit)]
        many = max((counted_in(question, each) for each in lists), default=0)
        told.append(msgspec.structs.replace(one, counted=f"{many} {named}" if many else ""))
    return told


def _within(unit: Unit, other: Unit) -> bool:
    """Whether a unit occurs in a single place of the other one, or is that one."""
    (page, start, end) = unit.pieces[0]
    places = [piece for piece in other.pieces if piece.page.page_id == page.page_id]
    return len(unit.pieces) == len(other.pieces) == 1 and any(a.start <= start and end <= a.end for a in places)


def _overlap(unit: Unit, other: Unit) -> bool:
    """Whether half of the shorter one occurs in the other."""
    shared = sum(
        max(0, min(a.end, b.end) - max(a.start, b.start))
        for a in unit.pieces
        for b in other.pieces
        if a.page.page_id == b.page.page_id
    )
    shorter = min(sum(one.end - one.start for one in each.pieces) for each in (unit, other))
    return shared * 2 > shorter or unit.text == other.text


def confidence_of(question: Question, chosen: Sequence[Scored], share: float, of_then: bool) -> float:
    """How likely the chosen units hold the answer, 0 to 1; `share` is how likely one of their packets is the right one.

    A period that the question names is a part of it like a word, covered where the units are `of_then`; it alone is no
    answer.
    """
    if not chosen:
        return 0.0
    union = [max(column) for column in zip(*(one.credits for one in chosen), strict=True)]
    asked = [at for at, term in enumerate(question.terms) if union[at] >= COVERED or term.stem not in light_stems()]
    lost = [at for at in asked if union[at] < COVERED]
    parts = len(asked) + (of_then and len(lost) < len(asked))
    values = {
        "bias": 1.0,
        "head_unknown": float(any(not question.terms[at].known and at in lost for at in question.head)),
        "uncounted": float(question.wants == "number" and not (chosen[0].counted or counts(question, chosen[0].unit))),
        "cosine": max(one.cosine for one in chosen),
        "near": max(one.near or one.cosine for one in chosen),
        "lost": len(lost) / parts if parts else 0.0,
        "label": max(one.label for one in chosen),
        "deed_lost": float(deed_of(question) in lost),
    }
    odds = sum(weights().confidence[name] * value for name, value in values.items())
    return float((1 - PACKET_DOUBT * (1 - share)) / (1 + np.exp(-odds)))
