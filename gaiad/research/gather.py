"""One attempt's searches against the archive: run together, merged by page, weighed against the question.

The only place besides the loop that awaits the archive; it holds the pool of evidence a run has seen so far.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from gaiad.base.errors import NotFound
from gaiad.base.logs import get_logger, span
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.evidence import (
    Evidence,
    Term,
    asks_of_gaiad,
    only_asked,
    only_quotes,
    own_words,
    repeats_question,
    weigh,
)
from gaiad.research.trail import Trail
from gaiad.wire.schemas import Hit, Page, SearchRequest, SearchResponse

WHOLE_PACKETS, WHOLE_PAGES = 8, 40  # packets read whole, the likeliest first, and the longest that is
UNQUOTED = 0.85  # what a page is worth that lacks the words the question quotes, where others have them
PAGES_OF_A_TURN = 2  # what was asked and what was answered
MORE_AT_MOST = 100
_log = get_logger("gaiad.research")


class Pool:
    """Evidence of one run by page; a page found again by the question keeps its better relevance.

    Packets that are `passed_over` never come in. Nor do a conversation's echoes: an answer that only quotes other
    pages, what a model of ours wrote unless that is asked for, and a question that a person asked gaiad before; what
    follows such a question counts in its place.
    """

    def __init__(
        self,
        archive: Archive,
        call: RequestContext,
        terms: Sequence[Term],
        question: str,
        trail: Trail,
        passed_over: Collection[str] = frozenset(),
    ) -> None:
        self._archive = archive
        self._trail = trail
        self._call = call
        self._terms = terms
        self._question = question
        self._of_gaiad = asks_of_gaiad(question)
        self._passed_over = frozenset(passed_over)
        self._by_page: dict[str, Evidence] = {}
        self._by_question: set[str] = set()
        self._places: dict[str, float] = {}
        self._quoting: set[str] = set()
        self._first_query = ""
        self._by_query: dict[str, tuple[list[Hit], dict[str, list[str]]]] = {}
        self._pages: dict[str, Page] = {}
        self._whole: dict[str, list[Page]] = {}
        self.degraded: list[str] = []

    @property
    def evidence(self) -> list[Evidence]:
        """Everything found so far, most relevant first."""
        return sorted(self._by_page.values(), key=lambda item: (-item.relevance, item.page.page_id))

    @property
    def ranked(self) -> list[Evidence]:
        """Everything found so far, what the first search found as the archive ranked it, and behind that the rest."""
        places = self._places

        def key(item: Evidence) -> tuple[float, float, float, str]:
            return -places.get(item.page.page_id, 0.0), -item.fused, -item.relevance, item.page.page_id

        return sorted(self._by_page.values(), key=key)

    @property
    def by_question(self) -> list[Evidence]:
        """That of `evidence` which searches of the question itself found: what a page stands out from."""
        return [item for item in self.evidence if item.page.page_id in self._by_question]

    def packets(self) -> dict[str, list[Page]]:
        """The pages of each packet found, in reading order: all of a short one, of a long one those seen."""
        seen: dict[str, list[Page]] = {}
        for page in filter(self._says, self._pages.values()):
            seen.setdefault(page.packet_id, []).append(page)
        return {
            packet_id: self._whole.get(packet_id) or sorted(pages, key=lambda page: page.sequence)
            for packet_id, pages in seen.items()
        }

    async def _read_whole(self) -> None:
        """Read the likeliest packets whole, where they are short."""
        best: dict[str, float] = {}
        for item in self._by_page.values():
            best[item.page.packet_id] = max(best.get(item.page.packet_id, 0.0), item.fused)
        likely = sorted(best, key=lambda packet_id: -best[packet_id])[:WHOLE_PACKETS]
        missing = [packet_id for packet_id in likely if packet_id not in self._whole]
        if not missing:
            return
        try:
            for summary in await self._archive.packet_summaries(missing, self._call):
                if summary.pages <= WHOLE_PAGES:
                    pages = await self._archive.section_pages(summary.packet_id, "full_context", self._call)
                    self._whole[summary.packet_id] = list(filter(self._says, pages))
        except NotFound as error:  # deleted after the search
            _log.info("found_packets_gone", reason=error.message)

    async def similarity(self, query: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each text to the query; [] while no embedder answers in time."""
        return await self._archive.similarity(query, texts, self._call) if texts else []

    def found_by(self, query: str, terms: Sequence[Term]) -> list[Evidence]:
        """What the last search for `query` beside the question found, held against `terms`; most relevant first."""
        hits, near = self._by_query.get(query, ([], {}))
        return weigh(hits, self._pages, near, terms)

    async def search(self, requests: Sequence[SearchRequest], beside: Collection[str] = ()) -> int:
        """Run the searches together; returns how many pages are new to the run.

        The queries `beside` the question, of its parts or of a second hop, only bring pages that it has not found: it
        is the question that says how well a page answers it. Where a search for quoted words finds pages, those and
        their neighbours are preferred.
        """
        self._first_query = self._first_query or requests[0].query
        with span("researcher.search", searches=len(requests)) as counts:
            responses = await asyncio.gather(*(self._search(self._with_room(request)) for request in requests))
            counts["hits"] = sum(len(response.hits) for response in responses)
        before = len(self._by_page)
        with span("researcher.integrate") as counts:
            asked = list(zip(requests, responses, strict=True))
            holding = [hit for request, response in asked if request.phrases for hit in response.hits]
            self._quoting.update(one.page_id for hit in holding for one in (hit, *hit.adjacent))
            for request, response in sorted(asked, key=lambda one: one[0].query in beside):
                self.degraded += [reason for reason in response.degraded if reason not in self.degraded]
                hits = [hit for hit in response.hits if hit.packet_id not in self._passed_over]
                await self._add(hits, request, is_beside=request.query in beside)
            await self._read_whole()
            counts["new_pages"] = new = len(self._by_page) - before
        return new

    async def _search(self, request: SearchRequest) -> SearchResponse:
        with self._trail.searching("archive.search", request) as search:
            response = await self._archive.search(request, self._call)
            search.found([hit.packet_id for hit in response.hits if hit.packet_id not in self._passed_over])
        return response

    def _with_room(self, request: SearchRequest) -> SearchRequest:
        """The search with as many hits more as may be passed over."""
        more = min(MORE_AT_MOST, PAGES_OF_A_TURN * len(self._passed_over))
        return msgspec.structs.replace(request, limit=request.limit + more) if more else request

    async def _add(self, hits: Sequence[Hit], request: SearchRequest, *, is_beside: bool) -> None:
        neighbours = {hit.page_id: [near.page_id for near in hit.adjacent] for hit in hits}
        wanted = [*neighbours, *(page_id for ids in neighbours.values() for page_id in ids)]
        missing = [page_id for page_id in dict.fromkeys(wanted) if page_id not in self._pages]
        if missing:
            for page in await self._stored(missing):
                self._pages[page.page_id] = page
        hits = [hit for hit in hits if hit.page_id in self._pages]
        near = {
            hit.page_id: [one for one in neighbours[hit.page_id] if one in self._pages and self._tells(one)]
            for hit in hits
        }
        telling = self._without_echoes(hits, near)
        if is_beside:
            self._by_query[request.query] = telling, near
        is_first = request.query == self._first_query and request.order == "relevance"
        for item in map(self._preferred, weigh(telling, self._pages, near, self._terms)):
            if is_first:
                place = self._places.get(item.page.page_id, 0.0)
                self._places[item.page.page_id] = max(place, item.fused)
            known = self._by_page.get(item.page.page_id)
            if known is None or (item.relevance > known.relevance and not is_beside):
                self._by_page[item.page.page_id] = item
            if not is_beside:
                self._by_question.add(item.page.page_id)

    def _preferred(self, item: Evidence) -> Evidence:
        if not self._quoting or item.page.page_id in self._quoting:
            return item
        worth = {"relevance": item.relevance * UNQUOTED, "standing": item.standing * UNQUOTED}
        return msgspec.structs.replace(item, **worth)

    async def _stored(self, page_ids: Sequence[str]) -> list[Page]:
        """Those that are still there: a packet may be deleted, or read anew, after the search."""
        try:
            return await self._archive.pages(page_ids, self._call)
        except NotFound as error:
            _log.info("found_pages_gone", reason=error.message)
            if len(page_ids) == 1:
                return []
            return [page for page_id in page_ids for page in await self._stored([page_id])]

    def _tells(self, page_id: str) -> bool:
        page = self._pages[page_id]
        return page.packet_id not in self._passed_over and self._says(page)

    def _says(self, page: Page) -> bool:
        """Whether it says something of its own: neither quotes alone, nor what a model of ours made of the question."""
        return not only_quotes(page) and (self._of_gaiad or not own_words(page))

    def _without_echoes(self, hits: Sequence[Hit], near: dict[str, list[str]]) -> list[Hit]:
        """The hits, with what follows in the place of a question that is asked again. `near` learns its neighbour."""
        telling: dict[str, Hit] = {}
        followed: dict[str, Hit] = {}
        for hit in hits:
            if not self._tells(hit.page_id):
                continue
            if not self._only_asks(self._pages[hit.page_id]):
                telling[hit.page_id] = hit
            elif following := self._following(hit.page_id, near):
                followed[following] = msgspec.structs.replace(hit, page_id=following, explanation=None)
                near.setdefault(following, [hit.page_id])
        return [*telling.values(), *(hit for page_id, hit in followed.items() if page_id not in telling)]

    def _only_asks(self, page: Page) -> bool:
        return repeats_question(page, self._question) or only_asked(page, self._question)

    def _following(self, page_id: str, near: Mapping[str, Sequence[str]]) -> str:
        """The page after this one in its packet, "" when it says nothing."""
        page = self._pages[page_id]
        place = (page.packet_id, page.sequence + 1)
        found = (one for one in near[page_id] if (self._pages[one].packet_id, self._pages[one].sequence) == place)
        return next(found, "")
