"""The ranking of one search: what each retriever found becomes pages, best first, by the mode the request names.

The formulas are in `ranking`; here they meet the catalogue, the filters and the request's preferences.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense.hnsw_base import QueryScores
from gaiad.archive.finding import filters as exact
from gaiad.archive.finding import query_terms, ranking, searching, surroundings
from gaiad.archive.finding.feedback import Opinions, added
from gaiad.archive.finding.lexical import LexicalScores, TermPages
from gaiad.archive.finding.query_terms import QueryTerm
from gaiad.archive.storing.catalogue import Catalogue, Positions, section_code
from gaiad.wire.schemas import SearchRequest

Scores = NDArray[np.float32]
_BARE = [section_code(name) for name in ("header", "behavior", "integrity")]
_CUED = 40
"""The best pages whose text is looked at for what the question asks for (measured: more change nothing, and cost)."""
_RELEVANT_SHARE = 0.5
"""In order of time only pages count that score at least this share of the best."""
_HOLDING_SHARE = 0.85
"""In order of time a page holds the words of a query with this share of the weight that any page has of them."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the first step found: terms, filter mask (None passes all active pages) and lexical scores."""

    catalogue: Catalogue
    terms: list[QueryTerm]
    mask: exact.Mask | None
    lexical: LexicalScores


@dataclass(slots=True)
class Ranked:
    """Pages best first; the parts of each score; and each retriever's view: rank (0: not found by it) and raw score."""

    positions: Positions
    scores: Scores
    parts: dict[str, Scores]
    views: dict[str, tuple[Positions, Scores]]

    def take(self, order: NDArray[np.int64]) -> "Ranked":
        """The pages at `order`, in that order."""
        return Ranked(
            self.positions[order],
            self.scores[order],
            {name: part[order] for name, part in self.parts.items()},
            {name: (ranks[order], raw[order]) for name, (ranks, raw) in self.views.items()},
        )


@dataclass(frozen=True, slots=True)
class Contest:
    """One request over what the retrievers found; of each at least `candidates` compete."""

    connection: sqlite3.Connection
    request: SearchRequest
    found: Candidates
    comparison: QueryScores | None
    weights: ranking.Weights
    candidates: int
    opinions: Opinions

    def ranked(self) -> Ranked:
        """Pages best first, as the request's mode and order have it."""
        if self.request.order != "relevance" and self.request.mode == "bm25" and self.found.terms:
            return self._words_in_time_order()
        ranked = self._by_relevance()
        if self.request.order == "relevance":
            return ranked
        return _in_time_order(ranked, self.found.catalogue, self.request)

    def _by_relevance(self) -> Ranked:
        request, found, comparison = self.request, self.found, self.comparison
        if request.mode == "page_id":
            ids = np.array(searching.ids_by_page_id(self.connection, request.page_ids), np.int64)
            positions = found.catalogue.positions(ids)
            if found.mask is not None:
                positions = positions[found.mask[positions]]
            return _single("page_id", positions, np.ones(len(positions), np.float32))
        if request.mode == "metadata" or (not found.terms and comparison is None):
            if request.query.strip() and not found.terms and not exact.has_filters(request.filters):
                return _single("metadata", np.zeros(0, np.int64), np.zeros(0, np.float32))
            return self._by_metadata()
        if request.mode == "bm25":
            best = ranking.best_positions(found.lexical.scores, self.candidates)
            return _single("bm25", best, found.lexical.scores[best])
        if request.mode == "dense":
            assert comparison is not None
            known = found.catalogue.positions(comparison.ids)
            known = known[found.catalogue.active[known]]
            return _single("dense", known, comparison.of(found.catalogue.ids[known]))
        return self._hybrid()

    def _words_in_time_order(self) -> Ranked:
        """Of all pages that hold the words the first in time, however low they score: a first mention is brief.

        Where those are fewer than asked for, the best of the others join them.
        """
        scores, limit = self.found.lexical.scores, self.request.limit
        holding = _in_time(_holding(self.found.lexical), self.found.catalogue, self.request)[:limit]
        others = ranking.best_positions(scores, self.candidates)
        others = others[scores[others] >= _RELEVANT_SHARE * scores.max(initial=0.0)]
        others = _in_time(np.setdiff1d(others, holding), self.found.catalogue, self.request)[: limit - len(holding)]
        chosen = np.concatenate([holding, others])
        best = chosen[np.argsort(-scores[chosen], kind="stable")]
        in_time = _in_time(best, self.found.catalogue, self.request)
        return _single("bm25", best, scores[best]).take(_places(best, in_time))

    def _by_metadata(self) -> Ranked:
        found, catalogue = self.found, self.found.catalogue
        mask = catalogue.active if found.mask is None else found.mask
        terms = [] if self.request.mode == "hybrid" else found.terms
        scores, _ = searching.metadata_scores(self.connection, catalogue, terms, mask)
        positions = np.flatnonzero(scores > 0)
        order = np.lexsort((catalogue.ids[positions], -catalogue.timestamp_ms[positions], -scores[positions]))
        return _single("metadata", positions[order], scores[positions[order]])

    def _hybrid(self) -> Ranked:
        request, found, comparison, weights = self.request, self.found, self.comparison, self.weights
        catalogue = found.catalogue
        links = (catalogue.link_1, catalogue.link_2, weights.neighbour_1, weights.neighbour_2)
        lexical = found.lexical.scores
        smoothed = ranking.smooth(lexical, *links)
        if found.mask is not None:
            smoothed[~found.mask] = 0.0
        lexical_best = ranking.best_positions(smoothed, self.candidates)
        dense_best = catalogue.positions(comparison.ids) if comparison else lexical_best[:0]
        chosen = np.zeros(len(catalogue), np.bool_)
        chosen[lexical_best] = chosen[dense_best] = True
        positions = np.flatnonzero(chosen & catalogue.active)
        cosines = np.full(len(positions), np.nan, np.float32)
        dense = dense_smoothed = np.zeros(len(positions), np.float32)
        if comparison is not None:
            by_words = ranking.as_share(lexical[positions])
            cosines, dense, dense_smoothed = _dense_parts(catalogue, comparison, positions, by_words, links)
        terms = found.lexical.terms
        pool = ranking.CandidatePool(
            positions=positions,
            lexical=lexical[positions],
            words=_bare_words(request, terms, positions),
            window=surroundings.window_shares(terms, catalogue, positions),
            before=surroundings.before_scores(lexical, catalogue, positions),
            session_words=surroundings.session_scores(terms, catalogue, positions),
            dense=dense,
            near=dense_smoothed - dense,
            session=catalogue.session[positions],
            substance=_substance(catalogue, positions),
            named=searching.named_pages(catalogue, found.lexical, found.terms, request.people, positions),
            in_period=_in_period(request, catalogue, positions),
            matched=_preferred(self.connection, request, catalogue, positions),
        )
        fused = self._with_cues(ranking.fuse(pool, weights), pool)
        if query_terms.wanted(request.query).several:
            part = ranking.spread(fused.total, positions, pool.session, weights.spread)
            fused = ranking.with_parts(fused, {"spread": part})
        fused = self._with_feedback(fused, catalogue.packet[positions])
        order = ranking.order_by_score(fused.total, positions)
        views = {"bm25": _view(pool.lexical), "dense": _view(cosines)}
        return Ranked(positions, fused.total, fused.parts, views).take(order)

    def _with_cues(self, fused: ranking.Fused, pool: ranking.CandidatePool) -> ranking.Fused:
        """What the best pages hold of the kind that the question asks for."""
        wanted, speaks = query_terms.wanted(self.request.query), pool.named == 1.0
        if not (wanted.when or wanted.number or wanted.names or speaks.any()):
            return fused
        best = ranking.order_by_score(fused.total, pool.positions)[:_CUED]
        places = pool.positions[best]
        held = [
            query_terms.held(text)
            for text in searching.texts(self.connection, self.found.catalogue.ids[places].tolist())
        ]
        speakers = self.found.catalogue.speakers
        known = {word for code in set(self.found.catalogue.speaker[places].tolist()) for word in speakers[code].split()}
        shares = {
            "own": np.array([one.own for one in held], np.float32) * speaks[best] * self.weights.own,
            "when": np.array([one.when for one in held], np.float32) * wanted.when * self.weights.when,
            "number": np.array([one.number for one in held], np.float32) * wanted.number * self.weights.number,
            "names": np.array([one.named(known) for one in held], np.float32) * wanted.names * self.weights.names,
        }
        more = {}
        for name, share in shares.items():
            more[name] = np.zeros(len(pool.positions), np.float32)
            more[name][best] = share
        return ranking.with_parts(fused, more)

    def _with_feedback(self, fused: ranking.Fused, packets: NDArray[np.int64]) -> ranking.Fused:
        part = added(fused.total, packets, self.opinions)
        return ranking.with_parts(fused, {"feedback": part})


def _single(name: str, positions: Positions, scores: Scores) -> Ranked:
    """The ranking of one retriever alone: its own scores are the whole score."""
    return Ranked(positions, scores, {name: scores}, {name: (np.arange(1, len(positions) + 1), scores)})


def _view(scores: Scores) -> tuple[Positions, Scores]:
    """Ranks from 1 within the pool, and the scores; 0 for pages the retriever did not find (score 0 or NaN)."""
    known = np.flatnonzero(~np.isnan(scores) & (scores != 0))
    order = known[np.argsort(-scores[known], kind="stable")]
    ranks = np.zeros(len(scores), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks, scores


def _dense_parts(
    catalogue: Catalogue,
    comparison: QueryScores,
    positions: Positions,
    by_words: Scores,
    links: tuple[Scores, Scores, float, float],
) -> tuple[Scores, Scores, Scores]:
    """Raw cosines of the pool, their place above the pool's mean, and that smoothed over neighbours in the pool.

    A page that has no vector yet is taken to be as near in meaning as it is by its words.
    """
    cosines = comparison.of(catalogue.ids[positions])
    scaled = np.where(np.isnan(cosines), by_words, ranking.above_mean(cosines)).astype(np.float32)
    everywhere = np.zeros(len(catalogue), np.float32)
    everywhere[positions] = scaled
    return cosines, scaled, ranking.smooth_at(everywhere, positions, *links)


def _bare_words(request: SearchRequest, terms: Sequence[TermPages], positions: Positions) -> Scores:
    """For a query of bare words what each page has of them; a question may be answered in other words."""
    if not query_terms.bare_words(request.query):
        return np.zeros(len(positions), np.float32)
    return surroundings.own_shares(terms, positions)


def _substance(catalogue: Catalogue, positions: Positions) -> Scores:
    """What each page can tell; nothing where only names and numbers of the packet itself stand."""
    told = ranking.substance(catalogue.length[positions], catalogue.asks[positions])
    told[np.isin(catalogue.section[positions], _BARE)] = 0.0
    return told


def _in_period(request: SearchRequest, catalogue: Catalogue, positions: Positions) -> Scores:
    """1 for pages inside the preferred period, 0 outside or without one."""
    since = exact.parse_time(request.boosts.since, "since")
    until = exact.parse_time(request.boosts.until, "until")
    if since is None and until is None:
        return np.zeros(len(positions), np.float32)
    times = catalogue.timestamp_ms[positions]
    inside = np.ones(len(positions), np.bool_)
    if since is not None:
        inside &= times >= since
    if until is not None:
        inside &= times < until
    return inside.astype(np.float32)


def _preferred(
    connection: sqlite3.Connection, request: SearchRequest, catalogue: Catalogue, positions: Positions
) -> Scores:
    """The share of the kinds of preference (model, topic, tag, ...) that a page's packet meets."""
    wanted = searching.preferences(request.boosts)
    share = np.zeros(len(positions), np.float32)
    for condition, values in wanted:
        share += exact.packet_mask(connection, catalogue, condition, values)[positions] / np.float32(len(wanted))
    return share


def _holding(lexical: LexicalScores) -> Positions:
    """The pages with the words, or nearly as many of them, by weight, as stand together on any page."""
    held = np.zeros(len(lexical.scores), np.float32)
    for term in lexical.terms:
        held[term.positions] += np.float32(term.weight)
    held[lexical.scores <= 0] = 0.0
    return np.flatnonzero((held > 0) & (held >= _HOLDING_SHARE * held.max(initial=0.0))).astype(np.int64)


def _in_time(positions: Positions, catalogue: Catalogue, request: SearchRequest) -> Positions:
    """The pages earliest or latest first, as the request has it; the earlier stored one first among equals."""
    times = catalogue.timestamp_ms[positions]
    return positions[np.lexsort((positions, times if request.order == "earliest" else -times))]


def _places(positions: Positions, wanted: Positions) -> NDArray[np.int64]:
    """Where in `positions` each of `wanted` is."""
    order = np.argsort(positions)
    places: NDArray[np.int64] = order[np.searchsorted(positions, wanted, sorter=order)]
    return places


def _in_time_order(ranked: Ranked, catalogue: Catalogue, request: SearchRequest) -> Ranked:
    """The relevant pages by time, earliest or latest first."""
    keep = np.arange(len(ranked.positions))
    if len(keep) and "page_id" not in ranked.views:
        keep = np.flatnonzero(ranked.scores >= _RELEVANT_SHARE * float(ranked.scores[0]))
    times = catalogue.timestamp_ms[ranked.positions[keep]]
    order = keep[np.lexsort((keep, times if request.order == "earliest" else -times))]
    return ranked.take(order)
