"""An archive that is asked everything once: a curve asks the same questions at every threshold, and searching is what
takes time. For an archive that does not change meanwhile.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from gaiad.ports import Archive, Call
from gaiad.schemas import Facets, Focus, PacketFilter, PacketSummary, Page, SearchRequest, SearchResponse

T = TypeVar("T")


class AskedOnce:
    """What a Researcher needs of ports.Archive, answered from memory the second time."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._known: dict[tuple[str, bytes], Any] = {}

    async def _once(self, what: str, asked: Any, ask: Callable[[], Awaitable[T]]) -> T:
        key = (what, msgspec.json.encode(asked))
        if key not in self._known:
            self._known[key] = await ask()
        found: T = self._known[key]
        return found

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        return await self._once("search", request, lambda: self._archive.search(request, call))

    async def pages(self, page_ids: Sequence[str], call: Call) -> list[Page]:
        return await self._once("pages", list(page_ids), lambda: self._archive.pages(page_ids, call))

    async def section_pages(self, packet_id: str, focus: Focus, call: Call) -> list[Page]:
        asked = [packet_id, focus]
        return await self._once("section", asked, lambda: self._archive.section_pages(packet_id, focus, call))

    async def list_packets(self, request: PacketFilter, call: Call) -> list[PacketSummary]:
        return await self._once("list", request, lambda: self._archive.list_packets(request, call))

    async def packet_summaries(self, packet_ids: Sequence[str], call: Call) -> list[PacketSummary]:
        return await self._once("summaries", list(packet_ids), lambda: self._archive.packet_summaries(packet_ids, call))

    async def facets(self, call: Call) -> Facets:
        return await self._once("facets", "", lambda: self._archive.facets(call))

    async def document_frequency(self, words: Sequence[str], call: Call) -> dict[str, int]:
        return await self._once("words", list(words), lambda: self._archive.document_frequency(words, call))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)
