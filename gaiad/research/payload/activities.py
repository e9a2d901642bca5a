"""The activities of a run: one for each search, with its parameters, times, and the sources it found first. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gaiad.clock import to_iso
from gaiad.payload_schemas import Activity
from gaiad.research.payload.material import Material
from gaiad.research.trail import Search
from gaiad.schemas import PacketFilter, SearchRequest


def activities(searches: Sequence[Search], sources: Sequence[Material]) -> list[Activity]:
    """In the order in which the searches began."""
    taken: set[str] = set()
    found = []
    for number, search in enumerate(searches, start=1):
        created = [one for one in sources if one.packet_id in search.packet_ids and one.packet_id not in taken]
        taken |= {one.packet_id for one in created}
        found.append(_activity(number, search, [one.source_id for one in created]))
    return found


def _activity(number: int, search: Search, created: list[str]) -> Activity:
    return Activity(
        activity_id=f"act_{number:03}",
        activity_type="storage_search",
        description=_described(search),
        tool=search.tool,
        parameters=_given(search.request),
        started_at=to_iso(search.started_at),
        completed_at=to_iso(search.completed_at),
        success=not search.error,
        result_summary=_summary(search, len(created)),
        sources_created=created,
        error_message=search.error or UNSET,
    )


def _described(search: Search) -> str:
    if isinstance(search.request, PacketFilter):
        return "List the packets that the filters let through"
    if search.request.mode == "page_id":
        return f"Look up by their ids the pages {', '.join(search.request.page_ids)}"
    order = {"relevance": "", "earliest": ", earliest first", "latest": ", latest first"}[search.request.order]
    return f'Search the pages for "{search.request.query}" ({search.request.mode}{order})'


def _summary(search: Search, sources: int) -> str:
    if search.error:
        return "It failed."
    if isinstance(search.request, PacketFilter):
        return f"Packets: {search.hits}, new sources: {sources}"
    return f"Pages: {search.hits}, of packets: {len(search.packet_ids)}, new sources: {sources}"


def _given(request: SearchRequest | PacketFilter) -> dict[str, Any]:
    """What of the request differs from its defaults."""
    values: dict[str, Any] = msgspec.to_builtins(request)
    usual: dict[str, Any] = msgspec.to_builtins(type(request)())
    return {name: _changed(value, usual[name]) for name, value in values.items() if value != usual[name]}


def _changed(value: Any, usual: Any) -> Any:
    if isinstance(value, dict) and isinstance(usual, dict):
        return {name: one for name, one in value.items() if one != usual.get(name)}
    return value
