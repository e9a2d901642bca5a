"""Search over one tenant (GAM 2, JIT hybrid retrieval): candidates from each retriever, one ranking, exact filters.

The lexical part and the embedding of the query run at the same time; the dense scan, the ranking and the reading of the
hits follow in one reader thread. Without an embedder, hybrid goes on lexically and says so.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense.vector_index import Comparison, VectorIndex
from gaiad.archive.finding import filters as exact
from gaiad.archive.finding import ranking, searching
from gaiad.archive.finding.excerpts import excerpt, needles
from gaiad.archive.finding.facets import FacetCache
from gaiad.archive.finding.lexical import LexicalIndex, LexicalScores
from gaiad.archive.finding.query_terms import QueryTerm, Stemmer, parse_query
from gaiad.archive.storing.catalogue import Catalogue, CatalogueReader, Positions
from gaiad.archive.storing.tenant import Tenant
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.ports import Call, Embedder
from gaiad.schemas import Explanation, Facets, Hit, RetrieverScore, SearchRequest, SearchResponse

Scores = NDArray[np.float32]
MAX_LIMIT = 1000
MAX_ADJACENT = 20
_RELEVANT_SHARE = 0.5
"""In order of time only pages count that score at least this share of the best."""


class VectorSource(Protocol):
    """What holds the tenant's vector indexes: one index, or the spaces during a change of embedder."""

    def indexes(self) -> list[VectorIndex]: ...


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


class Searcher:
    """Searches `tenant`. Everything it caches follows the database by itself; safe for concurrent searches."""

    def __init__(self, tenant: Tenant, vectors: VectorSource | None, config: Config, clock: Clock) -> None:
        self.vectors = vectors
        self._tenant = tenant
        self._config = config.search
        self._clock = clock
        self._stemmer = Stemmer()
        self._catalogues = CatalogueReader()
        self._lexical = LexicalIndex(config.search.postings_budget)
        self._facets = FacetCache()
        self._weights = ranking.Weights(
            bm25=config.search.weight_bm25,
            dense=config.search.weight_dense,
            session=config.search.weight_session,
            name=config.search.weight_name,
            time=config.search.weight_time,
            match=config.search.weight_match,
            neighbour_1=config.search.neighbour_1,
            neighbour_2=config.search.neighbour_2,
        )

    async def search(self, request: SearchRequest, call: Call, embedder: Embedder | None) -> SearchResponse:
        """The best pages for `request`. Raises BadInput, NotFound (page_id), Unavailable (dense), Cancelled."""
        began = self._clock.monotonic()
        check_request(request)
        call.check(began)
        degraded: list[str] = []
        if request.mode in ("hybrid", "dense") and request.query.strip():
            hits = await self._with_vectors(request, call, embedder, degraded)
        else:
            hits = await self._tenant.file.aread(lambda c: self._finish(c, request, self._prepare(c, request), None))
        call.check(self._clock.monotonic())
        took_ms = (self._clock.monotonic() - began) * 1000
        return SearchResponse(hits=hits, took_ms=round(took_ms, 3), degraded=degraded)

    async def facets(self, call: Call) -> Facets:
        """What the tenant knows by name; counted again only after a change."""
        call.check(self._clock.monotonic())
        return await self._tenant.file.aread(self._facets.get)

    async def document_frequency(self, words: Sequence[str], call: Call) -> dict[str, int]:
        """For each word, on how many active pages it (or a word of its stem) stands; 0 when nowhere."""
        call.check(self._clock.monotonic())
        stems = self._stemmer.stems(words)

        def read(connection: sqlite3.Connection) -> dict[str, int]:
            found = self._lexical.frequencies(connection, [stem for parts in stems for stem in parts])
            return {
                word: min((found[stem] for stem in parts), default=0) for word, parts in zip(words, stems, strict=True)
            }

        return await self._tenant.file.aread(read)

    async def warm(self) -> None:
        """Read the page catalogue now, so that the first search need not."""
        await self._tenant.file.aread(self._catalogues.current)

    async def _with_vectors(
        self, request: SearchRequest, call: Call, embedder: Embedder | None, degraded: list[str]
    ) -> list[Hit]:
        index, reason = self._choose_index(embedder)
        if index is None or embedder is None:
            if request.mode == "dense":
                raise Unavailable(f"mode dense cannot answer: {reason}; use mode bm25", 5.0)
            degraded.append(reason)
            return await self._tenant.file.aread(lambda c: self._finish(c, request, self._prepare(c, request), None))
        if reason:
            degraded.append(reason)
        prepared, embedded = await asyncio.gather(
            self._tenant.file.aread(lambda c: self._prepare(c, request)),
            _embed(embedder, request.query, call),
            return_exceptions=True,
        )
        if isinstance(prepared, BaseException):
            raise prepared
        query: NDArray[np.float32] | None = None
        if isinstance(embedded, BaseException):
            failure = _bearable(embedded)
            if request.mode == "dense":
                raise Unavailable(f"mode dense cannot answer: {failure}; use mode bm25", 5.0) from embedded
            degraded.append(f"embedder: {failure}; searched by words only")
        else:
            query = embedded
        return await self._tenant.file.aread(lambda c: self._finish(c, request, prepared, (index, query)))

    def _choose_index(self, embedder: Embedder | None) -> tuple[VectorIndex | None, str]:
        """The index in the embedder's space, and what to say about it."""
        indexes = self.vectors.indexes() if self.vectors is not None else []
        if embedder is None:
            return None, "embedder: none is running; searched by words only"
        for number, index in enumerate(indexes):
            if index.fingerprint == embedder.fingerprint:
                late = f"vectors: the space of {embedder.fingerprint} is being filled, {index.count} pages so far"
                return index, late if number else ""
        if not indexes:
            return None, "vectors: no index is open; searched by words only"
        return None, (
            f"vectors: pages are embedded by {indexes[0].fingerprint}, the embedder is {embedder.fingerprint};"
            " searched by words only until they are embedded anew"
        )

    # ---------------------------------------------------------------------------------- in a reader thread

    def _prepare(self, connection: sqlite3.Connection, request: SearchRequest) -> Candidates:
        catalogue = self._catalogues.current(connection)
        text = request.query if request.query.strip() else " ".join(request.phrases)
        terms = parse_query(text, self._stemmer)
        mask = exact.page_mask(connection, catalogue, request.filters, request.focus, request.phrases, self._stemmer)
        wanted = terms if request.mode in ("hybrid", "bm25") else []
        lexical = self._lexical.score(connection, wanted, catalogue)
        if mask is not None and wanted:
            lexical.scores[~mask] = 0.0
        return Candidates(catalogue, terms, mask, lexical)

    def _finish(
        self,
        connection: sqlite3.Connection,
        request: SearchRequest,
        found: Candidates,
        dense: tuple[VectorIndex, NDArray[np.float32] | None] | None,
    ) -> list[Hit]:
        """Rank, cut, read the rows. `dense` is the index and the query's vector, if there is one."""
        comparison = self._compare(found, *dense) if dense else None
        ranked = self._rank(connection, request, found, comparison)
        if request.order != "relevance":
            ranked = _in_time_order(ranked, found.catalogue, request)
        return self._hits(connection, request, found, ranked.take(np.arange(min(request.limit, len(ranked.positions)))))

    def _compare(self, found: Candidates, index: VectorIndex, query: NDArray[np.float32] | None) -> Comparison | None:
        if query is None:
            return None
        allowed = None if found.mask is None else found.catalogue.ids[found.mask]
        return index.compare(query, self._config.candidates, allowed)

    def _rank(
        self, connection: sqlite3.Connection, request: SearchRequest, found: Candidates, comparison: Comparison | None
    ) -> Ranked:
        if request.mode == "page_id":
            ids = np.array(searching.ids_by_page_id(connection, request.page_ids), np.int64)
            positions = found.catalogue.positions(ids)
            if found.mask is not None:
                positions = positions[found.mask[positions]]
            return _single("page_id", positions, np.ones(len(positions), np.float32))
        if request.mode == "metadata" or (not found.terms and comparison is None):
            if request.query.strip() and not found.terms and not exact.has_filters(request.filters):
                return _single("metadata", np.zeros(0, np.int64), np.zeros(0, np.float32))
            return self._by_metadata(connection, found, request.mode == "hybrid")
        candidates = max(self._config.candidates, request.limit)
        if request.mode == "bm25":
            best = ranking.best_positions(found.lexical.scores, candidates)
            return _single("bm25", best, found.lexical.scores[best])
        if request.mode == "dense":
            assert comparison is not None
            known = found.catalogue.positions(comparison.ids)
            known = known[found.catalogue.active[known]]
            return _single("dense", known, comparison.of(found.catalogue.ids[known]))
        return self._hybrid(connection, request, found, comparison, candidates)

    def _by_metadata(self, connection: sqlite3.Connection, found: Candidates, hybrid: bool) -> Ranked:
        catalogue = found.catalogue
        mask = catalogue.active if found.mask is None else found.mask
        terms = [] if hybrid else found.terms
        scores, _ = searching.metadata_scores(connection, catalogue, terms, mask)
        positions = np.flatnonzero(scores > 0)
        order = np.lexsort((catalogue.ids[positions], -catalogue.timestamp_ms[positions], -scores[positions]))
        return _single("metadata", positions[order], scores[positions[order]])

    def _hybrid(
        self,
        connection: sqlite3.Connection,
        request: SearchRequest,
        found: Candidates,
        comparison: Comparison | None,
        candidates: int,
    ) -> Ranked:
        catalogue, weights = found.catalogue, self._weights
        links = (catalogue.link_1, catalogue.link_2, weights.neighbour_1, weights.neighbour_2)
        lexical = found.lexical.scores
        smoothed = ranking.smooth(lexical, *links)
        if found.mask is not None:
            smoothed[~found.mask] = 0.0
        lexical_best = ranking.best_positions(smoothed, candidates)
        dense_best = catalogue.positions(comparison.ids) if comparison else lexical_best[:0]
        chosen = np.zeros(len(catalogue), np.bool_)
        chosen[lexical_best] = chosen[dense_best] = True
        positions = np.flatnonzero(chosen & catalogue.active)
        cosines = np.full(len(positions), np.nan, np.float32)
        dense = dense_smoothed = np.zeros(len(positions), np.float32)
        if comparison is not None:
            cosines, dense, dense_smoothed = _dense_parts(catalogue, comparison, positions, links)
        pool = ranking.Pool(
            positions=positions,
            lexical=lexical[positions],
            lexical_smoothed=smoothed[positions],
            dense=dense,
            dense_smoothed=dense_smoothed,
            session=catalogue.session[positions],
            named=searching.named_pages(catalogue, found.lexical, found.terms, request.people, positions),
            in_period=_in_period(request, catalogue, positions),
            matched=_preferred(connection, request, catalogue, positions),
        )
        fused = ranking.fuse(pool, weights)
        order = ranking.order_by_score(fused.total, positions)
        views = {"bm25": _view(pool.lexical), "dense": _view(cosines)}
        return Ranked(positions, fused.total, fused.parts, views).take(order)

    def _hits(
        self, connection: sqlite3.Connection, request: SearchRequest, found: Candidates, ranked: Ranked
    ) -> list[Hit]:
        ids = found.catalogue.ids[ranked.positions].tolist()
        rows = searching.rows_by_id(connection, ids)
        wanted = needles(found.terms, request.phrases)
        matched = _matched_words(found.lexical, ranked.positions) if request.explain else []
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
            near = searching.neighbours(connection, row, request.adjacent) if request.adjacent else []
            hits.append(
                _hit(
                    row,
                    float(ranked.scores[number]),
                    excerpt(row.text, wanted),
                    list(views),
                    explanation,
                    [_hit(other, 0.0, excerpt(other.text, wanted), [], None, []) for other in near],
                )
            )
        return hits


def check_request(request: SearchRequest) -> None:
    """Raise BadInput, naming value and remedy, for a request that cannot be meant."""
    if not 1 <= request.limit <= MAX_LIMIT:
        raise BadInput(f"limit = {request.limit}: ask for 1 to {MAX_LIMIT} hits")
    if not 0 <= request.adjacent <= MAX_ADJACENT:
        raise BadInput(f"adjacent = {request.adjacent}: ask for 0 to {MAX_ADJACENT} neighbours on either side")
    try:
        msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        raise BadInput(f"the request holds half a character ({error.reason}); send valid Unicode") from error
    exact.check_filters(request.filters)
    exact.check_filters(request.boosts)
    if len(request.page_ids) > MAX_LIMIT:
        raise BadInput(f"{len(request.page_ids)} page_ids: ask for at most {MAX_LIMIT} at once")
    if request.mode == "page_id":
        if not request.page_ids:
            raise BadInput("mode page_id without page_ids; give the ids that search hits show")
        return
    if request.mode == "dense" and not request.query.strip():
        raise BadInput("mode dense without a query; give the text to compare pages with, or use mode metadata")
    blank = not request.query.strip() and not any(phrase.strip() for phrase in request.phrases)
    if blank and not exact.has_filters(request.filters):
        raise BadInput("the query is empty and there are no filters; give words to look for, or a filter")


async def _embed(embedder: Embedder, query: str, call: Call) -> NDArray[np.float32]:
    found = await embedder.embed([query], call)
    if found.shape != (1, embedder.dimension) or not np.isfinite(found).all():
        raise Unavailable(f"the embedder made something of shape {found.shape} that is no vector; restart the daemon")
    vector: NDArray[np.float32] = found[0]
    return vector


def _bearable(failure: BaseException) -> str:
    """The reason, when the search can go on without the embedder; otherwise the failure is raised."""
    if isinstance(failure, GaiadError) and not isinstance(failure, Cancelled | DeadlineExceeded):
        return failure.message
    raise failure


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
    catalogue: Catalogue, comparison: Comparison, positions: Positions, links: tuple[Scores, Scores, float, float]
) -> tuple[Scores, Scores, Scores]:
    """Raw cosines of the pool, their place above the pool's mean, and that smoothed over neighbours in the pool."""
    cosines = comparison.of(catalogue.ids[positions])
    scaled = ranking.above_mean(cosines)
    everywhere = np.zeros(len(catalogue), np.float32)
    everywhere[positions] = scaled
    return cosines, scaled, ranking.smooth(everywhere, *links)[positions]


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


def _in_time_order(ranked: Ranked, catalogue: Catalogue, request: SearchRequest) -> Ranked:
    """The relevant pages by time, earliest or latest first."""
    keep = np.arange(len(ranked.positions))
    if len(keep) and "page_id" not in ranked.views:
        keep = np.flatnonzero(ranked.scores >= _RELEVANT_SHARE * float(ranked.scores[0]))
    times = catalogue.timestamp_ms[ranked.positions[keep]]
    order = keep[np.lexsort((keep, times if request.order == "earliest" else -times))]
    return ranked.take(order)


def _matched_words(lexical: LexicalScores, positions: Positions) -> list[list[str]]:
    """The query's words that stand on each page, sorted."""
    words: list[set[str]] = [set() for _ in positions]
    for word, where, _ in lexical.shares:
        for number in np.flatnonzero(np.isin(positions, where)).tolist():
            words[number].add(word)
    return [sorted(found) for found in words]


def _hit(
    row: searching.PageRow,
    score: float,
    shown: str,
    retrievers: list[Any],
    explanation: Explanation | None,
    adjacent: list[Hit],
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
    )
