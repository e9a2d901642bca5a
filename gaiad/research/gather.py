"""One attempt's searches against the archive: run together, merged by page, weighed against the question.

The only place besides the loop that awaits the archive; it holds the pool of evidence a run has seen so far.
"""

import asyncio
from collections.abc import Sequence

from gaiad.ports import Archive, Call
from gaiad.research.evidence import Evidence, Term, only_quotes, repeats_question, weigh
from gaiad.schemas import Hit, Page, SearchRequest


class Pool:
    """Evidence of one run by page; a page found again keeps its better relevance.

    A conversation's echoes are passed over: an answer that only quotes other pages, and a question about the same that
    was asked before, unless an answer follows it.
    """

    def __init__(self, archive: Archive, call: Call, terms: Sequence[Term], question: str) -> None:
        self._archive = archive
        self._call = call
        self._terms = terms
        self._question = question
        self._by_page: dict[str, Evidence] = {}
        self._pages: dict[str, Page] = {}
        self.degraded: list[str] = []

    @property
    def evidence(self) -> list[Evidence]:
        """Everything found so far, most relevant first."""
        return sorted(self._by_page.values(), key=lambda item: (-item.relevance, item.page.page_id))

    async def search(self, requests: Sequence[SearchRequest]) -> int:
        """Run the searches together; returns how many pages are new to the run."""
        responses = await asyncio.gather(*(self._archive.search(request, self._call) for request in requests))
        before = len(self._by_page)
        for response in responses:
            self.degraded += [reason for reason in response.degraded if reason not in self.degraded]
            await self._add(response.hits)
        return len(self._by_page) - before

    async def _add(self, hits: Sequence[Hit]) -> None:
        neighbours = {hit.page_id: [near.page_id for near in hit.adjacent] for hit in hits}
        wanted = [*neighbours, *(page_id for ids in neighbours.values() for page_id in ids)]
        missing = [page_id for page_id in dict.fromkeys(wanted) if page_id not in self._pages]
        if missing:
            for page in await self._archive.pages(missing, self._call):
                self._pages[page.page_id] = page
        neighbours = {
            page_id: [near for near in ids if not only_quotes(self._pages[near])] for page_id, ids in neighbours.items()
        }
        telling = [hit for hit in hits if not self._is_echo(hit.page_id, neighbours[hit.page_id])]
        for item in weigh(telling, self._pages, neighbours, self._terms):
            known = self._by_page.get(item.page.page_id)
            if known is None or item.relevance > known.relevance:
                self._by_page[item.page.page_id] = item

    def _is_echo(self, page_id: str, neighbours: Sequence[str]) -> bool:
        page = self._pages[page_id]
        if only_quotes(page):
            return True
        answered = any(
            (near.packet_id, near.sequence) == (page.packet_id, page.sequence + 1)
            for near in (self._pages[near_id] for near_id in neighbours)
        )
        return not answered and repeats_question(page, self._question)
