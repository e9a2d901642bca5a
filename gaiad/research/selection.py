"""Which evidence an answer may use: pages near the best one, from the period asked about when it has any, few packets.

Pure. The share of the best page's relevance another page must reach depends on the kind of question: a fact comes from
one place, a history or a comparison from several.
"""

from collections.abc import Sequence
from datetime import datetime

from gaiad.research.evidence import Evidence, names_subject
from gaiad.research.query import Kind, SearchParameters

NEAR_BEST: dict[Kind, float] = {
    "factual": 0.9,
    "conceptual": 0.6,
    "evolution": 0.5,
    "comparative": 0.5,
    "listing": 0.0,
}
# Evidence from the period asked about is preferred while it is at least this good against the best from any time.
PERIOD_SHARE = 0.6
# For earliest and latest: how much of the best lexical cover a page needs to speak of the same thing.
SAME_THING = 0.85


def in_period(timestamp: str, parameters: SearchParameters) -> bool:
    """Whether a page's time lies in the period asked about; true when the question names none."""
    if not parameters.dated:
        return True
    moment = datetime.fromisoformat(timestamp)
    after_start = parameters.since is None or moment >= parameters.since
    return after_start and (parameters.until is None or moment < parameters.until)


def select(
    parameters: SearchParameters, evidence: Sequence[Evidence], floor: float, max_pages: int, max_packets: int
) -> list[Evidence]:
    """The pages to answer from, best first; none below `floor` relevance."""
    usable = sorted((item for item in evidence if item.relevance >= floor), key=lambda item: -item.relevance)
    if not usable:
        return []
    inside = [item for item in usable if in_period(item.page.timestamp, parameters)]
    if inside and inside[0].relevance >= PERIOD_SHARE * usable[0].relevance:
        usable = inside
    if parameters.order != "relevance":
        return _at_the_end_of_time(parameters, usable, max_pages)
    if len(parameters.subjects) == 2:
        return _side_by_side(parameters, usable, max_pages, max_packets)
    bar = NEAR_BEST[parameters.kind] * usable[0].relevance
    return _capped([item for item in usable if item.relevance >= bar], max_pages, max_packets)


def _capped(usable: Sequence[Evidence], max_pages: int, max_packets: int) -> list[Evidence]:
    packets: list[str] = []
    kept: list[Evidence] = []
    for item in usable:
        if item.page.packet_id not in packets:
            if len(packets) == max_packets:
                continue
            packets.append(item.page.packet_id)
        kept.append(item)
    return kept[:max_pages]


def _at_the_end_of_time(parameters: SearchParameters, usable: Sequence[Evidence], max_pages: int) -> list[Evidence]:
    """The first (or last) packet among those that speak of the same thing as the best page does."""
    best = max(item.lexical for item in usable)
    same = [item for item in usable if item.lexical >= SAME_THING * best] or list(usable)
    moments = [item.page.timestamp for item in same]
    wanted = min(moments) if parameters.order == "earliest" else max(moments)
    packet_id = next(item.page.packet_id for item in same if item.page.timestamp == wanted)
    return [item for item in same if item.page.packet_id == packet_id][:max_pages]


def _side_by_side(
    parameters: SearchParameters, usable: Sequence[Evidence], max_pages: int, max_packets: int
) -> list[Evidence]:
    """Pages for each of the two things compared, in turns, so that neither crowds the other out."""
    bar = NEAR_BEST["comparative"]
    sides = []
    for subject in parameters.subjects:
        side = [item for item in usable if names_subject(item, subject)]
        sides.append([item for item in side if item.relevance >= bar * side[0].relevance])
    mixed: list[Evidence] = []
    for position in range(max(map(len, sides), default=0)):
        for side in sides:
            if position < len(side) and side[position] not in mixed:
                mixed.append(side[position])
    return _capped(mixed or usable, max_pages, max_packets)
