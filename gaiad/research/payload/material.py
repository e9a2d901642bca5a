"""Which packets are a run's sources, and what the builder needs of each: its whole text, its found pages, when it came.

Pure. Every cited packet is a source; with them the most relevant of those that were found, `SOURCES_MAX` together.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gaiad.research.evidence import Evidence
from gaiad.research.refine import FIRST_FLOOR
from gaiad.research.trail import Search, Trail
from gaiad.schemas import Citation, PacketSummary, Page, SearchRequest

SOURCES_MAX = 10


class Packet(msgspec.Struct, frozen=True):
    """A packet as the archive has it: its line, and all its pages in reading order."""

    summary: PacketSummary
    pages: tuple[Page, ...]


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """One source of a run. `found` are its pages that were found, best first; `cited` what the answer quotes of it.

    `iteration` and `query` are of the search that found it first; `relevance` is that of its best page, 0 to 1.
    """

    number: int
    packet: Packet
    found: tuple[Evidence, ...]
    cited: tuple[Citation, ...]
    iteration: int
    query: str
    accessed_at: datetime
    relevance: float
    text: str

    @property
    def source_id(self) -> str:
        return f"src_{self.number:03}"

    @property
    def packet_id(self) -> str:
        return self.packet.summary.packet_id


def choose_packets(trail: Trail) -> list[str]:
    """The packet ids of a run's sources: those cited, in the order of the answer, then the most relevant others."""
    cited = trail.result.source_packets if trail.result else []
    others = [item.page.packet_id for item in trail.evidence if item.relevance >= FIRST_FLOOR]
    listed = [packet.packet_id for packet in trail.listed]
    chosen = list(dict.fromkeys(cited))
    more = [one for one in dict.fromkeys([*listed, *others]) if one not in chosen]
    return chosen + more[: max(0, SOURCES_MAX - len(chosen))]


def read_material(trail: Trail, packets: Mapping[str, Packet]) -> list[Material]:
    """One for each chosen packet that the archive still has, in the order of `choose_packets`."""
    found = [packet_id for packet_id in choose_packets(trail) if packet_id in packets]
    return [_material(trail, number, packets[packet_id]) for number, packet_id in enumerate(found, start=1)]


def _material(trail: Trail, number: int, packet: Packet) -> Material:
    packet_id = packet.summary.packet_id
    pages = tuple(item for item in trail.evidence if item.page.packet_id == packet_id)
    search = _first_search(trail.searches, packet_id)
    return Material(
        number=number,
        packet=packet,
        found=pages,
        cited=tuple(one for one in (trail.result.citations if trail.result else ()) if one.packet_id == packet_id),
        iteration=search.iteration if search else 1,
        query=_query(search),
        accessed_at=search.completed_at if search else trail.started_at,
        relevance=round(min(1.0, max(0.0, pages[0].relevance)), 3) if pages else 1.0,  # one that is listed fits exactly
        text=whole_text(packet.pages),
    )


def _first_search(searches: Sequence[Search], packet_id: str) -> Search | None:
    return next((search for search in searches if packet_id in search.packet_ids), None)


def _query(search: Search | None) -> str:
    return search.request.query if search and isinstance(search.request, SearchRequest) else ""


def whole_text(pages: Sequence[Page]) -> str:
    """The text of a packet from its pages: what two neighbouring pages share stands once, parts are set off."""
    text = ""
    for number, page in enumerate(pages):
        before = pages[number - 1] if number else None
        if before is None:
            text = page.text
        elif before.path == page.path and page.start < before.end:
            text += page.text[_shared(before.text, page.text, before.end - page.start) :]
        else:
            text = f"{text.rstrip()}\n\n{page.text}"
    return text


def _shared(before: str, after: str, shared_bytes: int) -> int:
    """How many characters `after` begins with that `before` ends with; in the original they share so many bytes."""
    longest = min(len(before), len(after), shared_bytes)
    return next((size for size in range(longest, 0, -1) if before.endswith(after[:size])), 0)
