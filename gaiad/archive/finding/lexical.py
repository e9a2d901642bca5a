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

from gaiad.archive.finding.query_terms import QueryTerm, quote
from gaiad.archive.storing.catalogue import Catalogue, Positions

Scores = NDArray[np.float32]
K1 = 0.9
B = 0.4
"""Pages are short and of similar length: counts saturate early and length says little (measured on conversations)."""
SPEAKER_WEIGHT = 0.8
"""A speaker's name is on every page of theirs: it says who, the text says what."""
HEADING_WEIGHT = 0.4
"""Topic and date are the same on all pages of a packet, so they tell packets apart and pages not at all."""
_CACHED_POSTINGS = 4_000_000  # 12 bytes each; what an archive of 150,000 pages has in all
_CACHED_FREQUENCIES = 100_000


@dataclass(frozen=True, slots=True)
class Postings:
    """Ids of the pages a term is on, rising, and its weighted count in each."""

    ids: NDArray[np.int64]
    counts: Scores


@dataclass(frozen=True, slots=True)
class TermPages:
    """Where one term of the query occurs: positions, rising, the weighted count in each, and the term's weight."""

    word: str
    positions: Positions
    counts: Scores
    weight: float


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 for every position of the catalogue (0 where no term occurs), and where each term occurs."""

    scores: Scores
    terms: list[TermPages] = field(default_factory=list)


class IndexState:
    """Postings and document frequencies of one state of the index; readers of another state hold another one."""

    def __init__(self, state: tuple[bytes, ...]) -> None:
        self.state = state
        self.postings: OrderedDict[str, Postings] = OrderedDict()
        self.frequencies: dict[str, int] = {}
        self._lock = threading.Lock()
        self._size = 0

    def known(self, stem: str) -> Postings | None:
        """A term's postings when they are held; they then count as newly used."""
        with self._lock:
            postings = self.postings.get(stem)
            if postings is not None:
                self.postings.move_to_end(stem)
            return postings

    def keep(self, stem: str, postings: Postings) -> None:
        """Hold a term's postings, letting those go that were not used for longest when there are too many."""
        with self._lock:
            if stem in self.postings or len(postings.ids) > _CACHED_POSTINGS:
                return
            self.postings[stem] = postings
            self._size += len(postings.ids)
            while self._size > _CACHED_POSTINGS:
                self._size -= len(self.postings.popitem(last=False)[1].ids)

    def keep_frequency(self, stem: str, frequency: int) -> None:
        with self._lock:
            if len(self.frequencies) >= _CACHED_FREQUENCIES:
                self.frequencies.clear()
            self.frequencies[stem] = frequency


class LexicalIndex:
    """Reads term statistics and postings, and holds them until the index changes. Safe from any thread."""

    def __init__(self, postings_budget: int) -> None:
        self._budget = postings_budget
        self._held = IndexState(())

    def score(self, connection: sqlite3.Connection, terms: Sequence[QueryTerm], catalogue: Catalogue) -> LexicalScores:
        """BM25 of all terms over the pages that the rarest terms, within the budget, stand on."""
        held = self._current(connection)
        result = LexicalScores(np.zeros(len(catalogue), np.float32))
        forms = {term.stems[0]: term.forms for term in terms if term.forms}
        spelled = {stem: text for term in terms for stem, text in term.spelled}
        frequencies = {
            stem: sum(_frequency(connection, held, form) for form in (stem, *forms.get(stem, ())))
            for term in terms
            for stem in term.stems
        }
        chosen: list[str] = []
        spent = 0
        for stem, word in _rarest_first(terms, frequencies):
            frequency = frequencies[stem]
            weight = inverse_frequency(frequency, catalogue.active_count)
            within = not chosen or spent + frequency <= self._budget
            every = [(form, spelled.get(form, form)) for form in (stem, *forms.get(stem, ()))]
            postings = _merged(
                [self._postings(connection, held, form, text, chosen, within=within) for form, text in every]
            )
            self._add(result, word, postings, weight, catalogue, all_pages=within)
            if within:
                spent += frequency
                chosen += [text for _, text in every]
        return result

    def _postings(
        self,
        connection: sqlite3.Connection,
        held: IndexState,
        stem: str,
        text: str,
        chosen: Sequence[str],
        *,
        within: bool,
    ) -> Postings:
        known = held.known(stem)
        if known is not None:
            return known
        return _read_postings(connection, held, stem) if within else _common(connection, text, chosen)

    def frequencies(self, connection: sqlite3.Connection, stems: Sequence[str]) -> dict[str, int]:
        """On how many pages each index term occurs."""
        held = self._current(connection)
        return {stem: _frequency(connection, held, stem) for stem in stems}

    def forget(self) -> None:
        """Let everything held go; it is read again when needed."""
        self._held = IndexState(())

    def _current(self, connection: sqlite3.Connection) -> IndexState:
        """What is held for the connection's snapshot: any change to the index rewrites FTS5's averages or structure."""
        rows = connection.execute("SELECT block FROM pages_text_data WHERE id IN (1, 10) ORDER BY id").fetchall()
        state = tuple(bytes(row[0]) for row in rows)
        held = self._held
        if held.state != state:
            held = self._held = IndexState(state)
        return held

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
        result.terms.append(TermPages(word, positions, counts, weight))


def _frequency(connection: sqlite3.Connection, held: IndexState, stem: str) -> int:
    known = held.frequencies.get(stem)
    if known is None:
        row = connection.execute("SELECT doc FROM pages_terms WHERE term = ?", (stem,)).fetchone()
        known = int(row[0]) if row else 0
        held.keep_frequency(stem, known)
    return known


def _read_postings(connection: sqlite3.Connection, held: IndexState, stem: str) -> Postings:
    (listed,) = connection.execute(
        "SELECT group_concat(doc * 4 + (col = 'speaker') + 2 * (col = 'heading')) FROM pages_postings WHERE term = ?",
        (stem,),
    ).fetchone()
    postings = _decode(listed or "")
    held.keep(stem, postings)
    return postings


def _common(connection: sqlite3.Connection, text: str, rare: Sequence[str]) -> Postings:
    """Where a common term meets a rare one, counted once a page: FTS5 leaps from one to the next, and stems both."""
    rare_ones = " OR ".join(quote(other) for other in rare)
    (listed,) = connection.execute(
        "SELECT group_concat(rowid) FROM pages_text WHERE pages_text MATCH ?", (f"{quote(text)} AND ({rare_ones})",)
    ).fetchone()
    ids = _numbers(listed or "")
    return Postings(ids, np.ones(len(ids), np.float32))


def _merged(several: Sequence[Postings]) -> Postings:
    """Postings of the forms of a word as those of one: a page has the count of all of them."""
    several = [postings for postings in several if len(postings.ids)] or list(several[:1])
    if len(several) == 1:
        return several[0]
    ids = np.concatenate([postings.ids for postings in several])
    counts = np.concatenate([postings.counts for postings in several])
    order = np.argsort(ids, kind="stable")
    ids, counts = ids[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    return Postings(ids[first], np.add.reduceat(counts, first).astype(np.float32))


def inverse_frequency(frequency: int, pages: int) -> float:
    """BM25's weight of a term that is on `frequency` of `pages` pages; never negative."""
    return math.log(1 + (max(pages, frequency) - frequency + 0.5) / (frequency + 0.5))


def term_scores(
    counts: Scores, lengths: Scores, mean_length: float, weight: float, k1: float = K1, b: float = B
) -> Scores:
    """BM25 of one term: `counts` in texts of `lengths` (any unit, the same as the mean's)."""
    saturation = k1 * (1 - b + b * lengths / max(mean_length, 1.0))
    scores: Scores = (weight * (k1 + 1) * counts / (counts + saturation)).astype(np.float32)
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
