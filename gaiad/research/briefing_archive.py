"""The archive as one briefing looks at it (JIT): by the retrievers it asks for, its own session and agent preferred.

The plan's searches all pass here: the request's, and beside the first of them one more with the names of the session's
latest memo. Which retriever found a page, and with what excerpt, is noted for the evidence.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from gaiad.memory_schemas import Memo, PageHeader, SessionSummary, SessionTurn
from gaiad.ports import Archive, Call
from gaiad.schemas import (
    Facets,
    Filters,
    Focus,
    Hit,
    PacketFilter,
    PacketSummary,
    Page,
    SearchMode,
    SearchRequest,
    SearchResponse,
)


class BriefingArchive:
    """Implements ports.Archive over another one, for one run. `hits` is what was found, by page id."""

    def __init__(self, archive: Archive, mode: SearchMode, sessions: Sequence[str], memo_names: Sequence[str]) -> None:
        self._archive = archive
        self._mode = mode
        self._preferred = list(sessions)
        self._memo_names = list(memo_names)
        self.hits: dict[str, Hit] = {}
        self.searches = 0

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        """As Archive.search, in the briefing's mode; the first search is made again with the memo's names."""
        boosts: Filters = msgspec.structs.replace(request.boosts, session_ids=self._preferred)
        mode = request.mode if self._mode == "hybrid" else self._mode
        asked: SearchRequest = msgspec.structs.replace(request, boosts=boosts, mode=mode)
        searches = [asked]
        if self._memo_names and not self.searches:
            searches.append(msgspec.structs.replace(asked, query=" ".join((asked.query, *self._memo_names))))
        self.searches += len(searches)
        responses = await asyncio.gather(*(self._archive.search(each, call) for each in searches))
        found: dict[str, Hit] = {}
        for response in responses:
            for hit in response.hits:
                found.setdefault(hit.page_id, hit)
        self.hits = {**found, **self.hits}
        return msgspec.structs.replace(responses[0], hits=list(found.values()))

    def hits_by_tool(self) -> dict[str, int]:
        """How many of the pages found each retriever found."""
        return dict(Counter(tool for hit in self.hits.values() for tool in hit.retrievers))

    async def pages(self, page_ids: Sequence[str], call: Call) -> list[Page]:
        return await self._archive.pages(page_ids, call)

    async def section_pages(self, packet_id: str, focus: Focus, call: Call) -> list[Page]:
        return await self._archive.section_pages(packet_id, focus, call)

    async def list_packets(self, request: PacketFilter, call: Call) -> list[PacketSummary]:
        return await self._archive.list_packets(request, call)

    async def packet_summaries(self, packet_ids: Sequence[str], call: Call) -> list[PacketSummary]:
        return await self._archive.packet_summaries(packet_ids, call)

    async def facets(self, call: Call) -> Facets:
        return await self._archive.facets(call)

    async def document_frequency(self, words: Sequence[str], call: Call) -> dict[str, int]:
        return await self._archive.document_frequency(words, call)

    async def remember_turn(self, turn: SessionTurn, call: Call) -> str:
        return await self._archive.remember_turn(turn, call)

    async def session_turns(
        self, session_id: str, call: Call, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        return await self._archive.session_turns(session_id, call, after, limit, latest=latest)

    async def sessions(self, call: Call, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        return await self._archive.sessions(call, limit, offset)

    async def session_memos(self, session_id: str, call: Call) -> list[Memo]:
        return await self._archive.session_memos(session_id, call)

    async def page_headers(self, page_ids: Sequence[str], call: Call) -> list[PageHeader]:
        return await self._archive.page_headers(page_ids, call)

    async def hidden(self, ids: Collection[str], call: Call) -> set[str]:
        return await self._archive.hidden(ids, call)
