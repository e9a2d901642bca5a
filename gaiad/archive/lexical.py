"""BM25 over FTS5's postings, in arrays: FTS5's own bm25() visits every posting of every term for each query.

The rarest terms, up to a budget of postings, are read whole and choose the candidates; terms too common for the budget
only rescore those. Postings read once are kept until the index changes.
"""

import math
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.catalogue import Catalogue, Positions
from gaiad.archive.query_terms import QueryTerm, quote

Scores = NDArray[np.float32]
K1 = 0.9
B = 0.4
"""Pages are short and of similar length: counts saturate early and length says little (measured on conversations)."""
SPEAKER_WEIGHT = 0.8
"""A speaker's name stands on every page of theirs: it says who, the text says what."""
HEADING_WEIGHT = 0.4
"""Topic and date are the same on all pages of a packet, so they tell packets apart and pages not at all."""
_CACHED_POSTINGS = 1_000_000
_PLAIN_PAGES = 1_000


@dataclass(frozen=True, slots=True)
class Postings:
    """Ids of the pages a term stands on, rising, and its weighted count in each."""

    ids: NDArray[np.int64]
    counts: Scores


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 for every position of the catalogue (0 where no term stands) and the share of each term."""

    scores: Scores
    shares: list[tuple[str, Positions, Scores]] = field(default_factory=list)


class LexicalIndex:
    """Reads term statistics and postings; caches both for one state of the index. Safe from any thread."""

    def __init__(self, postings_budget: int) -> None:
        self._budget = postings_budget
        self._lock = threading.Lock()
        self._state: tuple[bytes, ...] = ()
        self._postings: OrderedDict[str, Postings] = OrderedDict()
        self._frequencies: dict[str, int] = {}
        self._held = 0

    def score(self, connection: sqlite3.Connection, terms: Sequence[QueryTerm], catalogue: Catalogue) -> LexicalScores:
        """BM25 of all terms over the pages that the rarest terms, within the budget, stand on."""
        self.notice_changes(connection)
        result = LexicalScores(np.zeros(len(catalogue), np.float32))
        frequencies = {stem: self.frequency(connection, stem) for term in terms for stem in term.stems}
        chosen: list[str] = []
        spent = 0
        for stem, word in _rarest_first(terms, frequencies):
            frequency = frequencies[stem]
            weight = inverse_frequency(frequency, catalogue.active_count)
            within = not chosen or spent + frequency <= self._budget
            cached = self._postings.get(stem)
            if within or cached is not None:
                postings = cached or self._read_postings(connection, stem)
                spent += frequency if within else 0
            else:
                postings = self._common(connection, stem, chosen)
            self._add(result, word, postings, weight, catalogue, all_pages=within)
            if within:
                chosen.append(stem)
        return result

    def frequency(self, connection: sqlite3.Connection, stem: str) -> int:
        """On how many pages an index term stands. Call `notice_changes` first, once a snapshot."""
        known = self._frequencies.get(stem)
        if known is None:
            row = connection.execute("SELECT doc FROM pages_terms WHERE term = ?", (stem,)).fetchone()
            known = int(row[0]) if row else 0
            with self._lock:
                if len(self._frequencies) > _CACHED_POSTINGS // 10:
                    self._frequencies.clear()
                self._frequencies[stem] = known
        return known

    def _add(
        self,
        result: LexicalScores,
        word: str,
        postings: Postings,
        weight: float,
        catalogue: Catalogue,
        *,
        all_pages: bool,
    ) -> None:
        ids = postings.ids
        known = ids < len(catalogue.by_id)
        positions = catalogue.by_id[ids if known.all() else ids[known]].astype(np.int64)
        counts = postings.counts if known.all() else postings.counts[known]
        keep = positions >= 0
        if not all_pages:
            keep &= result.scores[positions] > 0
        if not keep.all():
            positions, counts = positions[keep], counts[keep]
        share = term_scores(counts, catalogue.length[positions], catalogue.mean_length, weight)
        result.scores[positions] += share
        result.shares.append((word, positions, share))

    def notice_changes(self, connection: sqlite3.Connection) -> None:
        """Forget everything once FTS5's averages or structure records differ: any change to the index rewrites them."""
        rows = connection.execute("SELECT block FROM pages_text_data WHERE id IN (1, 10) ORDER BY id").fetchall()
        state = tuple(bytes(row[0]) for row in rows)
        if state == self._state:
            return
        with self._lock:
            self._state, self._held = state, 0
            self._postings, self._frequencies = OrderedDict(), {}

    def _read_postings(self, connection: sqlite3.Connection, stem: str) -> Postings:
        state = self._state
        (listed,) = connection.execute(
            "SELECT group_concat(doc * 4 + (col = 'speaker') + 2 * (col = 'heading')) FROM pages_postings"
            " WHERE term = ?",
            (stem,),
        ).fetchone()
        postings = _decode(listed or "")
        with self._lock:
            if state == self._state and stem not in self._postings and len(postings.ids) <= _CACHED_POSTINGS:
                self._postings[stem] = postings
                self._held += len(postings.ids)
                while self._held > _CACHED_POSTINGS:
                    self._held -= len(self._postings.popitem(last=False)[1].ids)
        return postings

    def _common(self, connection: sqlite3.Connection, stem: str, rare: Sequence[str]) -> Postings:
        """Where a common term meets a rare one, counted once a page: FTS5 leaps from one to the next."""
        rare_ones = " OR ".join(quote(other) for other in rare)
        (listed,) = connection.execute(
            "SELECT group_concat(rowid) FROM pages_text WHERE pages_text MATCH ?", (f"{quote(stem)} AND ({rare_ones})",)
        ).fetchone()
        ids = _numbers(listed or "")
        return Postings(ids, np.ones(len(ids), np.float32))


def inverse_frequency(frequency: int, pages: int) -> float:
    """BM25's weight of a term that stands on `frequency` of `pages` pages; never negative."""
    return math.log(1 + (max(pages, frequency) - frequency + 0.5) / (frequency + 0.5))


def term_scores(counts: Scores, lengths: Scores, mean_length: float, weight: float) -> Scores:
    """BM25 of one term: `counts` in pages of `lengths` (any unit, the same as the mean's)."""
    saturation = K1 * (1 - B + B * lengths / max(mean_length, 1.0))
    scores: Scores = (weight * (K1 + 1) * counts / (counts + saturation)).astype(np.float32)
    return scores


def _rarest_first(terms: Sequence[QueryTerm], frequencies: dict[str, int]) -> list[tuple[str, str]]:
    words = {stem: term.word for term in reversed(terms) for stem in term.stems}
    present = [(frequency, stem) for stem, frequency in frequencies.items() if frequency]
    return [(stem, words[stem]) for _, stem in sorted(present)]


def _numbers(listed: str) -> NDArray[np.int64]:
    return np.fromstring(listed, dtype=np.int64, sep=",") if listed else np.zeros(0, np.int64)


def _decode(listed: str) -> Postings:
    coded = _numbers(listed)
    if not len(coded):
        return Postings(coded, np.zeros(0, np.float32))
    weights = np.array([1.0, SPEAKER_WEIGHT, HEADING_WEIGHT], np.float32)[coded & 3]
    pages = coded >> 2
    first = np.flatnonzero(np.concatenate(([True], pages[1:] != pages[:-1])))
    return Postings(pages[first], np.add.reduceat(weights, first))
