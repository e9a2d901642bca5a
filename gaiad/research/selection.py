"""Which evidence an answer may use: pages near the best one, from the period asked about when it has any, few packets.

Pure. A history or a comparison comes from several packets. A fact comes from one place, which `answering` finds.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

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
# A day or a month tells packets apart as words do, a year hardly; and what was done on a day is told on the next ones.
SHORT_PERIOD, TOLD_WITHIN = timedelta(days=31), timedelta(days=1)
PAGES_AGAINST = 2  # of each such packet
# For earliest and latest: how much of the best lexical cover a page needs to speak of the same thing.
SAME_THING = 0.85


def in_period(timestamp: str, parameters: SearchParameters) -> bool:
    """Whether a page's time lies in the period asked about; true when the question names none."""
    if not parameters.dated:
        return True
    moment = datetime.fromisoformat(timestamp)
    after_start = parameters.since is None or moment >= parameters.since
    return after_start and (parameters.until is None or moment < parameters.until)


def told_then(timestamp: str, parameters: SearchParameters) -> bool:
    """Whether the question names a day or a month, and the page is of then or of just after it."""
    since, until = parameters.since, parameters.until
    if since is None or until is None or until - since > SHORT_PERIOD:
        return False
    moment = datetime.fromisoformat(timestamp)
    return since <= moment and moment - until < TOLD_WITHIN


def of_that_time(parameters: SearchParameters, evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence, best first: that from the period asked about, or all when nothing from then comes near the best."""
    usable = sorted(evidence, key=lambda item: -item.relevance)
    then = [item for item in usable if about_then(item.page.timestamp, parameters)]
    if asks_what_was_done(parameters):
        return then
    if not then or not (then[0].relevance >= PERIOD_SHARE * usable[0].relevance or _as_many_words(then, usable)):
        return usable
    return then if _named(parameters, usable) <= _named(parameters, then) else usable


_WHAT_WAS_DONE = re.compile(r"what (?:did|have|had) (?:i|we|you|they) \w+", re.IGNORECASE)


def asks_what_was_done(parameters: SearchParameters) -> bool:
    """Whether a question is a verb and a period only ("What did we decide in May?"): no other time answers it."""
    said = parameters.text.replace(parameters.date_text, "").strip(" ?.!")
    return parameters.dated and _WHAT_WAS_DONE.fullmatch(said) is not None


def _as_many_words(then: Sequence[Evidence], usable: Sequence[Evidence]) -> bool:
    """Whether a page from then has nearly as much of the question's words as any other."""
    return max(item.lexical for item in then) >= SAME_THING * max(item.lexical for item in usable) > 0


def _named(parameters: SearchParameters, evidence: Sequence[Evidence]) -> set[str]:
    """Which of the question's names occur in the evidence: what is told of something else then is no answer."""
    return {name for name in parameters.names if any(item.credits.get(name) for item in evidence)}


def about_then(timestamp: str, parameters: SearchParameters) -> bool:
    """In the period asked about, or told just after a short one."""
    return in_period(timestamp, parameters) or told_then(timestamp, parameters)


def select(
    parameters: SearchParameters,
    evidence: Sequence[Evidence],
    floor: float,
    max_pages: int,
    max_packets: int,
) -> list[Evidence]:
    """The pages to answer from, best first; none below `floor` relevance."""
    usable = of_that_time(parameters, [item for item in evidence if item.relevance >= floor])
    if not usable:
        return []
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
