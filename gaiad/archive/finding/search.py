"""Search over one tenant (GAM 2, JIT hybrid retrieval): candidates from each retriever, one ranking, exact filters.

The lexical part and the embedding of the query run at the same time; the dense scan, the ranking and the reading of the
hits follow in one reader thread. Without an embedder, hybrid goes on lexically and says so.
"""

import asyncio
import sqlite3
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense.hnsw_base import QueryScores
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.dense.vector_queue import VectorSpaces
from gaiad.archive.finding import filters as exact
from gaiad.archive.finding import ranking
from gaiad.archive.finding.facets import FacetCache
from gaiad.archive.finding.feedback import FeedbackShelf
from gaiad.archive.finding.filters import check_filters, has_filters, hidden_frequency
from gaiad.archive.finding.hits import hits_of
from gaiad.archive.finding.lexical import LexicalIndex
from gaiad.archive.finding.query_terms import Stemmer, parse_query
from gaiad.archive.finding.ranked import Candidates, Contest
from gaiad.archive.storing.catalogue import Catalogue, CatalogueReader
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Embedder, RequestContext
from gaiad.wire.schemas import Facets, Hit, SearchRequest, SearchResponse

MAX_LIMIT = 1000
MAX_ADJACENT = 20
MAX_QUERY_CHARS = 1_000_000
MAX_PHRASES = 100


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
    _check_length(request)
    check_filters(request.filters)
    check_filters(request.boosts)
    if len(request.page_ids) > MAX_LIMIT:
        raise BadInput(f"{len(request.page_ids)} page_ids: ask for at most {MAX_LIMIT} at once")
    if request.mode == "page_id":
        if not request.page_ids:
            raise BadInput("mode page_id without page_ids; give the ids that search hits show")
        return
    if request.mode == "dense" and not request.query.strip():
        raise BadInput("mode dense without a query; give the text to compare pages with, or use mode metadata")
    blank = not request.query.strip() and not any(phrase.strip() for phrase in request.phrases)
    if blank and not has_filters(request.filters):
        raise BadInput("the query is empty and there are no filters; give words to look for, or a filter")


def _check_length(request: SearchRequest) -> None:
    """Raise BadInput for texts and lists that are larger than anybody means."""
    if len(request.query) > MAX_QUERY_CHARS:
        raise BadInput(f"the query has {len(request.query)} characters; search with at most {MAX_QUERY_CHARS}")
    for name in ("phrases", "people"):
        values: list[str] = getattr(request, name)
        if len(values) > MAX_PHRASES:
            raise BadInput(f"{len(values)} {name}: give at most {MAX_PHRASES} in one search")
        if sum(map(len, values)) > MAX_QUERY_CHARS:
            raise BadInput(f"{sum(map(len, values))} characters of {name}: give at most {MAX_QUERY_CHARS}")


_log = get_logger("gaiad.archive")
EMBEDDING_S = 0.4
"""How long a search that can go on by words waits for its vector; a small model takes some 10 ms."""
_NEARLY_ALL = 0.95
"""The share of pages with vectors from which on nobody is told that some wait."""
_MAX_EMBEDDED_CHARS = 20_000
"""Models read a few thousand; the rest of a longer text would only keep the embedder from everybody else."""


class Searcher:
    """Searches `tenant`. Everything it caches follows the database by itself; safe for concurrent searches."""

    def __init__(self, tenant: Tenant, vectors: VectorSpaces | None, config: Config, clock: Clock) -> None:
        self.vectors = vectors
        self._tenant = tenant
        self._config = config.search
        self._clock = clock
        self._stemmer = Stemmer()
        self._catalogues = CatalogueReader()
        self._lexical = LexicalIndex(config.search.postings_budget)
        self._facets: dict[frozenset[str], FacetCache] = {}
        self._feedback = FeedbackShelf(self._stemmer, config.search.weight_feedback)
        self._weights = ranking.Weights(
            bm25=config.search.weight_bm25,
            words=config.search.weight_words,
            window=config.search.weight_window,
            before=config.search.weight_before,
            dense=config.search.weight_dense,
            near=config.search.weight_near,
            session=config.search.weight_session,
            session_dense=config.search.weight_session_dense,
            name=config.search.weight_name,
            own=config.search.weight_own,
            when=config.search.weight_when,
            number=config.search.weight_number,
            names=config.search.weight_names,
            substance=config.search.weight_substance,
            spread=config.search.weight_spread,
            time=config.search.weight_time,
            match=config.search.weight_match,
            neighbour_1=config.search.neighbour_1,
            neighbour_2=config.search.neighbour_2,
        )

    async def search(self, request: SearchRequest, call: RequestContext, embedder: Embedder | None) -> SearchResponse:
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

    async def facets(self, call: RequestContext) -> Facets:
        """What the tenant knows by name; counted again only after a change."""
        call.check(self._clock.monotonic())
        return await self._tenant.file.aread(self._facets.setdefault(call.hidden, FacetCache(call.hidden)).get)

    async def document_frequency(self, words: Sequence[str], call: RequestContext) -> dict[str, int]:
        """For each word, on how many active pages it (or a word of its stem) occurs; 0 when nowhere."""
        call.check(self._clock.monotonic())
        stems = self._stemmer.stems(words)

        def read(connection: sqlite3.Connection) -> dict[str, int]:
            found = self._lexical.frequencies(connection, [stem for parts in stems for stem in parts])
            for stem in found if call.hidden else ():
                found[stem] -= hidden_frequency(connection, call.hidden, stem)
            return {
                word: min((found[stem] for stem in parts), default=0) for word, parts in zip(words, stems, strict=True)
            }

        return await self._tenant.file.aread(read)

    async def _with_vectors(
        self, request: SearchRequest, call: RequestContext, embedder: Embedder | None, degraded: list[str]
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
            _embed(embedder, [request.query], call, None if request.mode == "dense" else EMBEDDING_S),
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
            query = embedded[0]
            degraded += _unfinished(index, prepared.catalogue)
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
            " searched by words only until they are embedded again"
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
        candidates = max(self._config.candidates, request.limit)
        opinions = self._feedback.opinions(connection, found.catalogue, found.terms)
        ranked = Contest(connection, request, found, comparison, self._weights, candidates, opinions).ranked()
        return hits_of(connection, request, found, ranked.take(np.arange(min(request.limit, len(ranked.positions)))))

    def _compare(self, found: Candidates, index: VectorIndex, query: NDArray[np.float32] | None) -> QueryScores | None:
        if query is None:
            return None
        allowed = None if found.mask is None else found.catalogue.ids[found.mask]
        return index.compare(query, self._config.candidates, allowed)


def _unfinished(index: VectorIndex, catalogue: Catalogue) -> list[str]:
    """What to say while many pages wait for their vectors; a few wait after every turn."""
    share = index.count / max(1, int(catalogue.active.sum()))
    if share >= _NEARLY_ALL:
        return []
    return [f"still indexing, {share:.0%} done: the other pages are found by words only"]


async def similarity(embedder: Embedder | None, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
    """The cosine of each text to the query; [] without an embedder that answers in time."""
    if embedder is None or not texts:
        return []
    try:
        found = await _embed(embedder, [query, *texts], call, EMBEDDING_S)
    except GaiadError as error:
        _log.warning("not_compared_in_meaning", texts=len(texts), reason=_bearable(error))
        return []
    return [float(cosine) for cosine in found[1:] @ found[0]]


async def _embed(
    embedder: Embedder, texts: Sequence[str], call: RequestContext, limit_s: float | None
) -> NDArray[np.float32]:
    """Shape (len(texts), dimension). Raises Unavailable, and what the embedder raises."""
    try:
        async with asyncio.timeout(limit_s):
            found = await embedder.embed([text[:_MAX_EMBEDDED_CHARS] for text in texts], call)
    except TimeoutError as error:
        raise Unavailable(f"no vector of the question within {EMBEDDING_S * 1000:.0f} ms") from error
    if found.shape != (len(texts), embedder.dimension) or not np.isfinite(found).all():
        raise Unavailable(
            f"the embedder made something of shape {found.shape} that is not a vector; restart the daemon"
        )
    return found


def _bearable(failure: BaseException) -> str:
    """The reason, when the search can go on without the embedder; otherwise the failure is raised."""
    if isinstance(failure, GaiadError) and not isinstance(failure, Cancelled | DeadlineExceeded):
        return failure.message
    raise failure
