"""Listing questions ("Show me all Gemini conversations from November"): exact filters, time order, every packet once.

Here alone do words become filters, because the user asked for a list (ARCHITECTURE decision 18). With topic words too,
a packet is listed when one of its pages speaks of them. A model that no packet is of is such a word.
"""

import re
from collections.abc import Collection, Sequence
from datetime import tzinfo
from typing import Literal

import msgspec

from gaiad.base.clock import day_of, moment_of, to_iso
from gaiad.base.errors import BadInput
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.evidence import Term, make_terms
from gaiad.research.gather import Pool
from gaiad.research.query import SearchParameters
from gaiad.research.sentences import cite, lead_end, spoken_from
from gaiad.research.trail import Trail
from gaiad.research.words import content_words
from gaiad.wire.schemas import Citation, Facets, Filters, PacketFilter, PacketSummary, Page, SearchRequest

LISTED_MAX = 50
_AT_ONCE = 2000  # each further page is found by counting through those before it
LEAD_MAX = 240
_LOOKED_AT = 1000  # pages, best first, that are looked at for the topic words
# A packet is about the topic words when one of its pages covers this share of them.
ABOUT = 0.75
_OF_SESSIONS = re.compile(
    r"\W*(?:(?!packets?\b|conversations?\b|discussions?\b|chats?\b|about\b|on\b|where\b|with\b)\w+\W+){0,5}sessions\b",
    re.IGNORECASE,
)
_LEAD_SECTIONS = ("summary", "content", "transcript", "other")


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Packets oldest first (`latest_first`: newest), at most LISTED_MAX of `total`; each one's first words as a
    citation where it has any. With `open_ended` not every page that may speak of the topic was looked at; `noun` is
    what is counted: a long session, kept as several packets, stands for itself where sessions are asked for."""

    packets: tuple[PacketSummary, ...]
    leads: dict[str, Citation]
    total: int
    latest_first: bool = False
    open_ended: bool = False
    degraded: tuple[str, ...] = ()
    noun: Literal["packet", "session"] = "packet"


def listing_filters(parameters: SearchParameters, flags: Filters) -> Filters:
    """The question's period, models and metric ranges as exact filters, within the user's own flags.

    Raises BadInput for a flag that is no time.
    """
    since = [to_iso(parameters.since) if parameters.since else "", flags.since]
    until = [to_iso(parameters.until) if parameters.until else "", flags.until]
    try:
        latest_since = max(filter(None, since), key=moment_of, default="")
        first_until = min(filter(None, until), key=moment_of, default="")
    except ValueError as error:
        remedy = "write them as 2025-11-30 or 2025-11-30T15:45:00Z"
        raise BadInput(f"since = {flags.since!r}, until = {flags.until!r}: not both are times; {remedy}") from error
    return msgspec.structs.replace(
        flags,
        since=latest_since,
        until=first_until,
        models=flags.models or list(parameters.models),
        metrics=[*flags.metrics, *parameters.metrics],
    )


def _is_empty(filters: Filters) -> bool:
    """Whether the span ends before it begins."""
    return bool(filters.since and filters.until) and moment_of(filters.since) > moment_of(filters.until)


def period_gap(parameters: SearchParameters, facets: Facets, zone: tzinfo) -> tuple[str, ...]:
    """What an empty list lacks: packets of the period asked about, beside the days that the archive holds."""
    if not parameters.dated or not facets.first:
        return ()
    first, last = day_of(facets.first, zone), day_of(facets.last, zone)
    return (f"packets {parameters.date_text}; the archive holds {first} to {last}",)


def topic_words(parameters: SearchParameters) -> list[str]:
    """The keywords that are not already a filter (a model's name, a metric with its bound)."""
    spoken_of = () if parameters.models else parameters.unknown_models
    called = [word for word in parameters.model_words if word not in spoken_of]
    taken = {word for name in (*parameters.models, *called) for word in content_words(name)}
    for metric in parameters.metrics:
        taken |= set(metric.name.split("_"))
    numbers = re.compile(r"\d*\.?\d+")
    filtered = bool(parameters.metrics)
    return [w for w in parameters.keywords if w not in taken and not (filtered and numbers.fullmatch(w))]


async def list_matching(
    archive: Archive,
    parameters: SearchParameters,
    flags: Filters,
    terms: Sequence[Term],
    call: RequestContext,
    trail: Trail,
    passed_over: Collection[str] = (),
) -> Listing:
    """Every packet the filters (and the topic words) let through, but for those of `passed_over` (packet ids).

    Raises what the archive raises.
    """
    filters = listing_filters(parameters, flags)
    if _is_empty(filters) and not _is_empty(flags):  # flags that contradict themselves are refused by the archive
        return Listing(packets=(), leads={}, total=0)
    topic = [term for term in terms if term.word in topic_words(parameters)]
    degraded: tuple[str, ...] = ()
    latest_first, open_ended = parameters.order == "latest", False
    if topic:
        filters, open_ended, degraded = await _narrow(archive, parameters, filters, topic, call, trail)
    if not filters.packet_ids and (topic or (parameters.unknown_models and not filters.models)):
        return Listing(packets=(), leads={}, total=0, degraded=degraded)
    matching = await _all(archive, filters, "latest" if latest_first else "earliest", call, trail)
    left_out = {*passed_over, *await _left_out(archive, parameters, filters, call, trail)}
    found = [one for one in matching if one.packet_id not in left_out and one.model not in parameters.left_out_models]
    of_sessions = _OF_SESSIONS.match(parameters.text) is not None
    if of_sessions:
        found = _one_of_each_session(found)
    found = found[: parameters.most or len(found)]
    shown = found[:LISTED_MAX]
    leads = {packet.packet_id: await _lead(archive, packet, call) for packet in shown}
    kept = {packet_id: lead for packet_id, lead in leads.items() if lead is not None}
    return Listing(
        packets=tuple(shown),
        leads=kept,
        total=len(found),
        latest_first=latest_first,
        open_ended=open_ended,
        degraded=degraded,
        noun="session" if of_sessions else "packet",
    )


def _one_of_each_session(packets: Sequence[PacketSummary]) -> list[PacketSummary]:
    """The first packet of every session, in the order given."""
    first: dict[str, PacketSummary] = {}
    for packet in packets:
        first.setdefault(packet.session_id or packet.packet_id, packet)
    return list(first.values())


async def _all(
    archive: Archive, filters: Filters, order: Literal["earliest", "latest"], call: RequestContext, trail: Trail
) -> list[PacketSummary]:
    """The packets that the filters let through, by time; of a run's searches it is one, however long the list."""
    request = PacketFilter(tenant=call.tenant, filters=filters, order=order, limit=_AT_ONCE)
    found: list[PacketSummary] = []
    with trail.searching("archive.list_packets", request) as search:
        while True:
            page = await archive.list_packets(msgspec.structs.replace(request, offset=len(found)), call)
            found += page
            if len(page) < _AT_ONCE:
                search.found([packet.packet_id for packet in found])
                return found


async def _narrow(
    archive: Archive,
    parameters: SearchParameters,
    filters: Filters,
    topic: Sequence[Term],
    call: RequestContext,
    trail: Trail,
) -> tuple[Filters, bool, tuple[str, ...]]:
    """The filters with the ids of the packets that speak of the topic words; whether pages that were not looked at may
    speak of them too; what could not take part in finding."""
    pool = Pool(archive, call, topic, parameters.text, trail)
    request = SearchRequest(
        query=parameters.search_text,
        tenant=call.tenant,
        limit=_LOOKED_AT,
        filters=filters,
        phrases=list(parameters.phrases),
        explain=True,
    )
    looked_at = await pool.search([request])
    ranked = sorted(pool.evidence, key=lambda item: -item.fused)
    about = [item.page.packet_id for item in ranked if item.lexical >= ABOUT]
    lowest = ranked[-(_LOOKED_AT // 10) :]
    open_ended = looked_at >= _LOOKED_AT and any(item.lexical >= ABOUT for item in lowest)
    return msgspec.structs.replace(filters, packet_ids=list(dict.fromkeys(about))), open_ended, tuple(pool.degraded)


async def _left_out(
    archive: Archive, parameters: SearchParameters, filters: Filters, call: RequestContext, trail: Trail
) -> list[str]:
    """The ids of the packets that speak of what the list is to be without."""
    if not parameters.left_out:
        return []
    words = parameters.left_out
    what = msgspec.structs.replace(
        parameters, keywords=words, search_text=" ".join(words), phrases=(), text=" ".join(words)
    )
    frequencies = await archive.document_frequency(words, call)
    found, _, _ = await _narrow(archive, what, filters, make_terms(what, frequencies, 0), call, trail)
    return found.packet_ids


async def _lead(archive: Archive, packet: PacketSummary, call: RequestContext) -> Citation | None:
    """The packet's first words: of its summary when it has one, else of its content."""
    pages = await archive.section_pages(packet.packet_id, "full_context", call)
    for section in _LEAD_SECTIONS:
        for page in pages:
            if page.section == section and page.text.strip():
                return _first_words(page)
    return _first_words(pages[0]) if pages and pages[0].text.strip() else None


def _first_words(page: Page) -> Citation | None:
    start = spoken_from(page)
    end = lead_end(page.text, start, LEAD_MAX)
    return cite(page, start, end) if end > start else None
