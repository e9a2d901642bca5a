"""From ranked pages to the hits a caller sees: their rows, excerpts, neighbours and explanations."""

import sqlite3
from typing import Any

import numpy as np

from gaiad.archive.finding import searching
from gaiad.archive.finding.excerpts import excerpt, needles
from gaiad.archive.finding.labels import Labels, labels_of
from gaiad.archive.finding.lexical import LexicalScores
from gaiad.archive.finding.ranked import Candidates, Ranked
from gaiad.archive.finding.surroundings import counts_at
from gaiad.archive.storing.catalogue import Positions
from gaiad.schemas import Explanation, Hit, RetrieverScore, SearchRequest


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
    labels: Labels,
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
