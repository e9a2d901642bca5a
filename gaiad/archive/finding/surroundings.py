"""The surroundings of a page, by the query's words: in the five pages of its window, before it, and in its session.

Computed for the candidates of one query from the terms' places (decision 18): nothing of it is stored, so that a page
that comes later changes no other page's row. Cost follows candidates and postings, not the size of the archive.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.finding.lexical import TermPages, inverse_frequency, term_scores
from gaiad.archive.storing.catalogue import Catalogue, Positions

Scores = NDArray[np.float32]
_STEPS = (-2, -1, 1, 2)
_SESSION_K1 = 1.2
_SESSION_B = 0.75
"""A session is long and of any length: BM25's usual constants, other than those of pages."""


def window_shares(terms: Sequence[TermPages], catalogue: Catalogue, positions: Positions) -> Scores:
    """The share of the words, by weight, on each page together with the two before and the two after it in its packet.

    0 to 1. Names of speakers tell no window from another and count only where the query has no other word.
    """
    names = {word for name in catalogue.speakers for word in name.casefold().split()}
    terms = [term for term in terms if term.word not in names] or terms
    total = np.zeros(len(positions), np.float32)
    if not len(positions) or not terms:
        return total
    beside = [_beside(catalogue, positions, step) for step in _STEPS]
    where = np.concatenate([positions, *(place for place, _ in beside)])
    there = np.concatenate([np.ones(len(positions), np.float32), *(inside for _, inside in beside)])
    shape = (1 + len(_STEPS), len(positions))
    for term in terms:
        holds = (counts_at(term, where) * there > 0).reshape(shape).any(axis=0)
        total += np.float32(term.weight) * holds
    return total / np.float32(sum(term.weight for term in terms) or 1.0)


def own_shares(terms: Sequence[TermPages], positions: Positions) -> Scores:
    """How much of the words each page has itself, 0 to 1: half for any of them, half for their share by weight."""
    total = np.zeros(len(positions), np.float32)
    for term in terms:
        total += np.float32(term.weight) * (counts_at(term, positions) > 0)
    share = total / np.float32(sum(term.weight for term in terms) or 1.0)
    return np.float32(0.5) * (share + (total > 0))


def before_scores(lexical: Scores, catalogue: Catalogue, positions: Positions) -> Scores:
    """The score of the page before each page in its packet, where that one asks: what follows answers it."""
    where, there = _beside(catalogue, positions, -1)
    asked: Scores = (lexical[where] * there * (catalogue.asks[where] > 0)).astype(np.float32)
    return asked


def session_scores(terms: Sequence[TermPages], catalogue: Catalogue, positions: Positions) -> Scores:
    """BM25 of the whole session of each page, as one document among all sessions."""
    total = np.zeros(len(positions), np.float32)
    sessions = len(catalogue.session_length)
    wanted, place = np.unique(catalogue.session[positions], return_inverse=True)
    length, mean = catalogue.session_length[wanted], float(catalogue.session_length.mean()) if sessions else 1.0
    scores = np.zeros(len(wanted), np.float32)
    for term in terms:
        counts = np.bincount(catalogue.session[term.positions], term.counts, sessions).astype(np.float32)
        weight = inverse_frequency(int(np.count_nonzero(counts)), sessions)
        scores += term_scores(counts[wanted], length, mean, weight, _SESSION_K1, _SESSION_B)
    total += scores[place]
    return total


def _beside(catalogue: Catalogue, positions: Positions, step: int) -> tuple[Positions, Scores]:
    """The positions `step` away, and 1 where those are pages of the same packet, else 0."""
    links = catalogue.link_1 if abs(step) == 1 else catalogue.link_2
    where = np.clip(positions + step, 0, max(len(catalogue) - 1, 0))
    first = np.minimum(positions, positions + step)
    inside = (first >= 0) & (first < len(links))
    there = np.zeros(len(positions), np.float32)
    there[inside] = links[first[inside]]
    return where, there


def counts_at(term: TermPages, positions: Positions) -> Scores:
    """The term's count in each of the pages, 0 where it does not stand."""
    found = np.zeros(len(positions), np.float32)
    if len(term.positions):
        slots = np.minimum(np.searchsorted(term.positions, positions), len(term.positions) - 1)
        here = term.positions[slots] == positions
        found[here] = term.counts[slots[here]]
    return found
