"""The days of a payload are those of the zone it is built in, as they are in the answer's text."""

from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from gaiad.base.ports import RequestContext
from gaiad.research.payload.build import build_payload
from gaiad.research.payload.material import Packet
from gaiad.wire.research import ResearchAgentPayload

FOUNDED = "The council was founded on {} in the old mill."


def evening(memory: Any, page: Any) -> Any:
    """Two packets that disagree, both of 27 November in UTC; in Berlin one is of the 28th."""
    return memory(
        [
            page(FOUNDED.format("12 October 2025"), "tp-1", model="claude", timestamp="2025-11-27T09:00:00Z"),
            page(FOUNDED.format("19 October 2025"), "tp-2", model="gemini", timestamp="2025-11-27T23:30:00Z"),
        ]
    )


async def built(archive: Any, make_trail: Any, zone: tzinfo) -> ResearchAgentPayload:
    trail = await make_trail(archive, "When was the council founded?")
    summaries = await archive.packet_summaries(["tp-1", "tp-2"], RequestContext())
    packets = zip(summaries, archive.stored.values(), strict=True)
    return build_payload(trail, {one.packet_id: Packet(one, (page,)) for one, page in packets}, zone)


async def test_a_packet_of_the_evening_is_of_the_next_day_farther_east(memory: Any, page: Any, make_trail: Any) -> None:
    days = {}
    for zone in (UTC, ZoneInfo("Europe/Berlin")):
        payload = await built(evening(memory, page), make_trail, zone)
        source = next(one for one in payload.sources if one.file_path == "tp-2")
        (cited,) = [one for one in payload.synthesis.bibliography if one.source_id == source.source_id]
        (contradiction,) = payload.contradictions
        later = "[Packet: tp-2] is the later one (2025-11-28, the other 2025-11-27) and may correct it."
        told = later in contradiction.possible_explanations
        days[str(zone)] = (source.published_date, "November 28)" in cited.citation_format, told)
    assert days == {"UTC": ("2025-11-27", False, False), "Europe/Berlin": ("2025-11-28", True, True)}
