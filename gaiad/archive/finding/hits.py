"""From ranked pages to the hits a caller sees: their rows, excerpts, neighbours and explanations."""

import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gaiad.archive.finding import searching
from gaiad.archive.finding.filters import PacketLabels, labels_of
from gaiad.archive.finding.lexical import LexicalScores
from gaiad.archive.finding.query_terms import QueryTerm
from gaiad.archive.finding.ranked import Candidates, Ranked
from gaiad.archive.finding.surroundings import counts_at
from gaiad.archive.storing.catalogue import Positions
from gaiad.wire.schemas import Explanation, Hit, RetrieverScore, SearchRequest

EXCERPT_CHARS = 240
_SHORTEST_PREFIX = 3


class Needle(msgspec.Struct, frozen=True):
    """What to look for, lower case, at the beginning of a word; `whole` when the word must end with it too."""

    text: str
    whole: bool


def needles(terms: Sequence[QueryTerm], phrases: Sequence[str] = ()) -> list[Needle]:
    """What marks a match in a text: words that begin as a term and its stem do, and phrases."""
    wanted = [Needle(phrase.strip().lower(), whole=False) for phrase in phrases if phrase.strip()]
    for term in terms:
        prefix = common_prefix(term.word, term.stems[0])
        short = len(prefix) < _SHORTEST_PREFIX
        written = term.word if short else prefix
        forms = dict.fromkeys((written, unicodedata.normalize("NFD", written)))  # accents as characters of their own
        wanted += [Needle(form, whole=short) for form in forms]
    return wanted


def occurrences(text: str, wanted: Sequence[Needle]) -> list[tuple[int, int, int]]:
    """(start, end, number of the needle) of every match, by start. Plain searching is faster than a pattern."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    found = []
    for number, needle in enumerate(wanted):
        at = lowered.find(needle.text)
        while at >= 0:
            end = at + len(needle.text)
            begins = at == 0 or not lowered[at - 1].isalnum()
            ends = not needle.whole or end == len(lowered) or not lowered[end].isalnum()
            if begins and ends:
                found.append((at, end, number))
            at = lowered.find(needle.text, end)
    found.sort()
    return found


def common_prefix(one: str, other: str) -> str:
    """What both begin with."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def excerpt(text: str, wanted: Sequence[Needle] = (), width: int = EXCERPT_CHARS) -> str:
    """About `width` characters around the most distinct matches, on one line, "…" where something was cut off."""
    if len(text) <= width:
        return " ".join(text.split())
    start, end = best_window(text, wanted, width)
    while start > 0 and not text[start - 1].isspace() and start < end and not text[start].isspace():
        start += 1
    cut = end
    while cut < len(text) and cut > start and not text[cut].isspace() and not text[cut - 1].isspace():
        cut -= 1
    end = cut if cut > start else end
    shown = " ".join(text[start:end].split())
    return f"{'…' if start > 0 else ''}{shown}{'…' if end < len(text.rstrip()) else ''}"


def best_window(text: str, wanted: Sequence[Needle], width: int) -> tuple[int, int]:
    """Character span of at most `width` with the most different matches, the earliest among equals."""
    if len(text) <= width:
        return 0, len(text)
    spans = occurrences(text, wanted)
    if not spans:
        return 0, width
    best, best_count = (spans[0][0], spans[0][1]), 0
    first = 0
    inside: Counter[int] = Counter()  # of the matches from the first to the last, each with its count
    for _, end, needle in spans:
        inside[needle] += 1
        while end - spans[first][0] > width and inside.total() > 1:
            gone = spans[first][2]
            first += 1
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
        if len(inside) > best_count:
            best, best_count = (spans[first][0], end), len(inside)
    slack = max(0, width - (best[1] - best[0]))
    start = max(0, min(best[0] - slack // 2, len(text) - width))
    return start, min(len(text), start + width)


def hits_of(connection: sqlite3.Connection, request: SearchRequest, found: Candidates, ranked: Ranked) -> list[Hit]:
    """The ranked pages as hits, each with its excerpt and, when asked for, its explanation and neighbours."""
    ids = found.catalogue.ids[ranked.positions].tolist()
    rows = searching.rows_by_id(connection, ids)
    labels = labels_of(connection, {row.packet for row in rows.values()})
    wanted = needles(found.terms, request.phrases)
    matched = _matched_words(found.lexical, ranked.positions) if request.explain else []
    near = searching.neighbours(connection, rows.values(), request.adjacent) if request.adjacent else {}
    shown = {row.id: row for some in near.values() for row in some}
    beside = {
        page: _hit(row, 0.0, excerpt(row.text, wanted), [], None, [], labels[row.packet]) for page, row in shown.items()
    }
    hits = []
    for number, page in enumerate(ids):
        row = rows.get(page)
        if row is None:  # deleted between the two steps of this search
            continue
        views = {
            name: RetrieverScore(rank=int(ranks[number]), score=float(raw[number]))
            for name, (ranks, raw) in ranked.views.items()
            if ranks[number]
        }
        explanation = None
        if request.explain:
            boosts = {name: float(part[number]) for name, part in ranked.parts.items() if part[number]}
            explanation = Explanation(retrievers=views, boosts=boosts, matched_terms=matched[number])
        hits.append(
            _hit(
                row,
                float(ranked.scores[number]),
                excerpt(row.text, wanted),
                list(views),
                explanation,
                [beside[other.id] for other in near.get(page, ())],
                labels[row.packet],
            )
        )
    return hits


def _matched_words(lexical: LexicalScores, positions: Positions) -> list[list[str]]:
    """The query's words that stand on each page, sorted."""
    words: list[set[str]] = [set() for _ in positions]
    for term in lexical.terms:
        for number in np.flatnonzero(counts_at(term, positions)).tolist():
            words[number].add(term.word)
    return [sorted(found) for found in words]


def _hit(
    row: searching.PageRow,
    score: float,
    shown: str,
    retrievers: list[Any],
    explanation: Explanation | None,
    adjacent: list[Hit],
    labels: PacketLabels,
) -> Hit:
    return Hit(
        page_id=row.page_id,
        packet_id=row.packet_id,
        session_id=row.session_id,
        score=score,
        excerpt=shown,
        timestamp=row.timestamp,
        topic=row.topic,
        retrievers=retrievers,
        section=row.section,
        speaker=row.speaker,
        model=row.model,
        explanation=explanation,
        adjacent=adjacent,
        classification=labels["classification"],
        policy_tags=labels["policy_tag"],
    )
