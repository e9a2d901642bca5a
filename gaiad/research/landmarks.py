"""Times that are named by a packet: "before the MIT study" is before the packet that bears the study's name.

A name is a packet's when every word of it that carries a topic stands in the packet's topic (initials count as what
they stand for), or when it is the packet's id. The name of a person or a model is no point in time. Only topics count:
what a packet merely mentions is not what it is called.
"""

import functools
import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

import msgspec

from gaiad.base.ports import Archive, RequestContext
from gaiad.research.dates import LENGTH, Period, length_named, moved
from gaiad.research.query import plain_question, request_words
from gaiad.research.words import content_words, cut, expand_initials, stem, stems, stop_words
from gaiad.wire.schemas import Facets, Filters, PacketFilter, PacketSummary

Side = Literal["before", "since", "after", "until", "between"]

NAME_WORDS_MAX = 8
TOPICS_MAX = 3
"""A name that more topics than these hold is no one's name."""
SIDES_MAX = 8
"""Words of time in one question that are looked at; no question has as many."""
_FIRST_PACKETS = 200
_SIDES: dict[str, Side] = {
    "before": "before",
    "prior to": "before",
    "earlier than": "before",
    "ahead of": "before",
    "leading up to": "before",
    "since": "since",
    "after": "after",
    "following": "after",
    "later than": "after",
    "until": "until",
    "till": "until",
    "up to": "until",
    "between": "between",
}
_SIDE = re.compile(rf"\b{LENGTH}(?P<side>{'|'.join(sorted(_SIDES, key=len, reverse=True))})\s+", re.IGNORECASE)
_NOT_OF_TIME = re.compile(r"\b(?:differ\w*|compar\w*|similar\w*|relat\w*|contrast\w*|distinct\w*)\s+$", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:(?:we|i|you) (?:first |last |had |have )?"
    r"(?:discussed|discuss|covered|read|saw|did|founded|finished|(?:talked|spoke|talk|heard) (?:about|of)) )?"
    r"(?:(?:the|our|my|that|this|a|an) )?"
    r"(?:(?:packet|conversation|session|discussion|talk|chat)s? (?:(?:about|on|of|with|called|named) )?)?"
    r"(?:(?:the|our|my|that|this|a|an) )?",
    re.IGNORECASE,
)
_PACKET_ID = re.compile(r"(?:\[packet: ?)?(?P<id>[A-Za-z][\w.]*(?:-[\w.]+)*-[\w.-]*\d[\w-]*)\]?", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[?!;]|[.,:](?=\s|$)")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_INSTANT = timedelta(seconds=1)


class Name(msgspec.Struct, frozen=True, kw_only=True):
    """What packets are called by: one of `topics`, or `packet_id`. `end` is where its words end, in characters."""

    topics: tuple[str, ...] = ()
    packet_id: str = ""
    end: int


class Mention(msgspec.Struct, frozen=True, kw_only=True):
    """Words of a question that set a time by a packet; `names` are two for `between`. Offsets are characters.

    `length` is how much of the time before or after is meant, None for all of it.
    """

    side: Side
    length: timedelta | None = None
    names: tuple[Name, ...]
    start: int
    end: int


class _Span(msgspec.Struct, frozen=True):
    """When the packets of a name were made, UTC."""

    first: datetime
    last: datetime
    packet_ids: tuple[str, ...]


async def landmark_periods(archive: Archive, question: str, facets: Facets, call: RequestContext) -> list[Period]:
    """The periods that `question` sets by packets of the archive, in the order of places. Raises as the archive."""
    text = plain_question(question)
    periods = []
    for mention in find_mentions(text, facets):
        spans = [await _span(archive, name, call) for name in mention.names]
        known = [span for span in spans if span is not None]
        if len(known) == len(spans):
            periods.append(_period(mention, known, text))
    return periods


def find_mentions(question: str, facets: Facets) -> list[Mention]:
    """Every place of `question` that sets a time by what the archive has a packet of."""
    found: list[Mention] = []
    for match in islice(_SIDE.finditer(question), SIDES_MAX):
        side = _SIDES[" ".join(match["side"].lower().split())]
        names = _names(question, match.end(), side, facets)
        if not names or _NOT_OF_TIME.search(question[: match.start()]):
            continue
        if not found or match.start() >= found[-1].end:
            length = length_named({name: text.lower() if text else text for name, text in match.groupdict().items()})
            found.append(Mention(side=side, length=length, names=names, start=match.start(), end=names[-1].end))
    return found


def _names(question: str, start: int, side: Side, facets: Facets) -> tuple[Name, ...]:
    first = _name_at(question, start, facets)
    if first is None or side != "between":
        return (first,) if first else ()
    joint = _AND.match(question, first.end)
    second = _name_at(question, joint.end(), facets) if joint else None
    return (first, second) if second else ()


def _name_at(question: str, start: int, facets: Facets) -> Name | None:
    """The longest name that begins at `start`, articles and "we discussed" left aside.

    One word in lower case without an article names nothing: "after lunch" is no packet on lunch.
    """
    lead = _LEAD.match(question, start)
    start = lead.end() if lead else start
    words = [word for word in cut(_CLAUSE_END.split(question[start:])[0])[:NAME_WORDS_MAX] if word.lower]
    topics: Collection[str] = facets.topics
    no_names, telling, count, best = _no_names(facets), False, 0, None
    for word in words:
        if word.lower in stop_words():
            continue
        topics = _called(word.lower, topics)
        if not topics:
            break
        count += 1
        telling = telling or word.lower not in no_names
        pointed = count > 1 or bool(lead and lead.group()) or word.text[0].isupper()
        if telling and pointed and len(topics) <= TOPICS_MAX:
            best = Name(topics=tuple(topics), end=start + word.end)
    by_id = _PACKET_ID.match(question, start)
    return Name(packet_id=by_id["id"], end=by_id.end()) if by_id and best is None else best


def _no_names(facets: Facets) -> set[str]:
    """Words that by themselves are no name of a packet: about packets and asking, people, models."""
    return {*request_words(), *(word for name in (*facets.people, *facets.models) for word in content_words(name))}


def _called(word: str, topics: Collection[str]) -> list[str]:
    """Those of `topics` that hold the word, or what its initials stand for."""
    own, meanings = stem(word), [stems(meaning) for meaning in expand_initials(word)]
    held = ((topic, _topic_stems(topic)) for topic in topics)
    return [topic for topic, found in held if own in found or any(meaning <= found for meaning in meanings)]


@functools.lru_cache(maxsize=65536)
def _topic_stems(topic: str) -> frozenset[str]:
    return frozenset(stems(" ".join([topic, *expand_initials(topic)])))


async def _span(archive: Archive, name: Name, call: RequestContext) -> _Span | None:
    """From the first to the last packet of a name; None when there is none."""
    wanted = Filters(packet_ids=[name.packet_id]) if name.packet_id else Filters(topics=list(name.topics))
    packets: list[PacketSummary] = []
    for order in ("earliest", "latest"):
        request = PacketFilter(tenant=call.tenant, filters=wanted, order=order, limit=_FIRST_PACKETS)
        packets += await archive.list_packets(request, call)
        if len(packets) < _FIRST_PACKETS:
            break
    called = [one for one in packets if name.packet_id or one.topic in name.topics]  # the filter takes parts of a topic
    if not called:
        return None
    moments = [datetime.fromisoformat(one.timestamp) for one in called]
    return _Span(min(moments), max(moments), tuple(dict.fromkeys(one.packet_id for one in called)))


def _period(mention: Mention, spans: Sequence[_Span], question: str) -> Period:
    since, until = _bounds(mention.side, spans)
    if mention.length and mention.side == "before" and until:
        since = moved(until, -mention.length)
    elif mention.length and mention.side == "after" and since:
        until = moved(since, mention.length)
    return Period(
        since=since,
        until=until,
        text=question[mention.start : mention.end],
        start=mention.start,
        end=mention.end,
        packet_ids=tuple(dict.fromkeys(packet_id for span in spans for packet_id in span.packet_ids)),
    )


def _bounds(side: Side, spans: Sequence[_Span]) -> tuple[datetime | None, datetime | None]:
    """`before` and `after` leave the packets themselves out, `since`, `until` and `between` do not."""
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    if side in ("before", "until"):
        return None, first if side == "before" else moved(last, _INSTANT)
    if side == "between":
        return first, moved(last, _INSTANT)
    return (first if side == "since" else moved(last, _INSTANT)), None
