"""Lists: what they hold when a model is unknown, in which order they stand, and when they are not sure to be whole."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.research import listing
from gaiad.research.loop import Researcher
from gaiad.research.query import process_query
from gaiad.research.trail import Trail
from gaiad.wire.schemas import Facets, Filters, ResearchRequest

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
CONFIG = load_config((), {}).research


@pytest.mark.parametrize("question", ["Show me all Grok conversations", "Show me all Grok conversations from November"])
async def test_a_model_that_no_packet_is_of_lists_nothing(ask: Any, question: str) -> None:
    result = await ask(question)
    assert result.status == "NOT_FOUND"
    assert result.sources == []
    assert "grok: no such model here" in result.missing_aspects


async def test_of_two_models_the_unknown_one_is_told(ask: Any) -> None:
    known = await ask("Show me all Gemini conversations")
    both = await ask("Show me all Gemini and Grok conversations")
    assert [packet.packet_id for packet in both.sources] == [packet.packet_id for packet in known.sources] != []
    assert "No packet here is of grok." in both.note
    assert "grok" not in known.note


async def test_what_speaks_of_an_unknown_model_is_listed_and_is_not_taken_for_it(memory: Any, page: Any) -> None:
    pages = [page("We spoke of Grok and its jokes.", "tp-1"), page("We spoke of soup.", "tp-2")]
    archive = _filtering(memory(pages))
    result = await Researcher(archive, FrozenClock(NOW), CONFIG).research(
        ResearchRequest(query="Show me all Grok conversations"), RequestContext()
    )
    assert result.status == "PARTIAL"
    assert [packet.packet_id for packet in result.sources] == ["tp-1"]
    assert "No packet here is of grok; these speak of it." in result.note


async def test_the_latest_come_first_and_are_not_the_ones_left_out(ask: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(listing, "LISTED_MAX", 2)
    latest = await ask("Show me the latest conversations")
    every = await ask("Show me all conversations")
    times = [packet.timestamp for packet in latest.sources]
    assert times == sorted(times, reverse=True)
    assert min(times) > max(packet.timestamp for packet in every.sources)
    assert "newest first" in latest.answer
    assert "oldest first" in every.answer


@pytest.mark.parametrize(
    ("flags", "since", "until"),
    [
        (Filters(), "2025-11-01T00:00:00Z", "2025-12-01T00:00:00Z"),
        (Filters(since="20240101"), "2025-11-01T00:00:00Z", "2025-12-01T00:00:00Z"),
        (Filters(until="20251110"), "2025-11-01T00:00:00Z", "20251110"),
        (Filters(since="2025-11-01T05:00:00+12:00"), "2025-11-01T00:00:00Z", "2025-12-01T00:00:00Z"),
        (Filters(since="2025-11-01T05:00:00-12:00"), "2025-11-01T05:00:00-12:00", "2025-12-01T00:00:00Z"),
    ],
)
def test_the_flags_narrow_the_questions_period_however_they_are_written(flags: Filters, since: str, until: str) -> None:
    parameters = process_query("Show me all conversations from November 2025", Facets(packets=1, pages=1), NOW, UTC)
    filters = listing.listing_filters(parameters, flags)
    assert (filters.since, filters.until) == (since, until)


async def test_flags_beside_the_questions_period_list_nothing_and_bad_ones_are_refused(ask: Any) -> None:
    question = "Show me all conversations from November"
    assert (await ask(question)).status == "SUCCESS"
    beside = await ask(question, filters=Filters(until="2025-10-01"))
    assert (beside.status, beside.sources) == ("NOT_FOUND", [])
    for wrong in (Filters(until="soon"), Filters(since="2025-11-20", until="2025-11-10")):
        with pytest.raises(BadInput, match="until"):
            await ask(question, filters=wrong)


async def test_what_the_archive_holds_is_told_in_days_of_the_users_zone(samples: Any) -> None:
    question = ResearchRequest(query="Show me all conversations from May 2019")
    first = (await samples.facets(RequestContext())).first
    for zone in (timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        result = await Researcher(samples, FrozenClock(NOW, zone), CONFIG).research(question, RequestContext())
        assert f"holds {datetime.fromisoformat(first).astimezone(zone).date()} to" in result.missing_aspects[0]


async def test_a_list_by_topic_holds_every_packet_that_speaks_of_it(memory: Any, page: Any) -> None:
    archive = _filtering(memory(_about_soup(page, 300)))
    result = await Researcher(archive, FrozenClock(NOW), CONFIG).research(
        ResearchRequest(query="How many conversations about soup?"), RequestContext()
    )
    assert "300 packets" in result.answer


async def test_a_list_of_many_pages_is_one_search(memory: Any, page: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(listing, "_AT_ONCE", 3)
    archive = _filtering(memory(_about_soup(page, 10)))
    trail = Trail("", ResearchRequest(query="Show me all conversations"), "local", FrozenClock(NOW))
    parameters = process_query("Show me all conversations", Facets(packets=10, pages=10), NOW, UTC)
    found = await listing.list_matching(archive, parameters, Filters(), [], RequestContext(), trail)
    assert found.total == 10
    (search,) = trail.searches
    assert len(set(search.packet_ids)) == 10


async def test_a_list_that_may_be_longer_says_so(memory: Any, page: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(listing, "_LOOKED_AT", 20)
    researcher = Researcher(_filtering(memory(_about_soup(page, 30))), FrozenClock(NOW), CONFIG)
    result = await researcher.research(ResearchRequest(query="Show me all conversations about soup"), RequestContext())
    assert result.status == "PARTIAL"
    assert "At least 20 packets" in result.answer
    assert "More packets may speak of it" in result.note
    monkeypatch.setattr(listing, "_LOOKED_AT", 40)
    whole = await researcher.research(ResearchRequest(query="Show me all conversations about soup"), RequestContext())
    assert whole.status == "SUCCESS"
    assert "At least" not in whole.answer


@pytest.mark.parametrize(
    ("question", "head", "packets"),
    [
        ("List all sessions about soup", "2 sessions, oldest first:", ["tp-0", "tp-3"]),
        ("Show me the latest sessions about soup", "2 sessions, newest first:", ["tp-3", "tp-2"]),
        ("Show me all conversations about soup", "4 packets, oldest first:", ["tp-0", "tp-1", "tp-2", "tp-3"]),
    ],
)
async def test_a_session_of_several_packets_is_one_where_sessions_are_asked_for(
    memory: Any, page: Any, question: str, head: str, packets: list[str]
) -> None:
    archive = _filtering(memory(_about_soup(page, 4)))
    every = archive.list_packets

    async def of_two_sessions(request: Any, call: RequestContext) -> Any:
        found = await every(request, call)
        return [
            msgspec.structs.replace(packet, session_id="late" if packet.packet_id == "tp-3" else "early")
            for packet in (reversed(found) if request.order == "latest" else found)
        ]

    archive.list_packets = of_two_sessions
    result = await Researcher(archive, FrozenClock(NOW), CONFIG).research(
        ResearchRequest(query=question), RequestContext()
    )
    assert result.answer.startswith(head)
    assert [packet.packet_id for packet in result.sources] == packets


def _about_soup(page: Any, count: int) -> list[Any]:
    first = datetime(2025, 1, 1, tzinfo=UTC)
    return [
        page("We cooked soup.", f"tp-{number}", timestamp=(first + timedelta(hours=number)).isoformat())
        for number in range(count)
    ]


def _filtering(archive: Any) -> Any:
    """The archive in memory, with lists by packet id."""
    every = archive.list_packets

    async def list_packets(request: Any, call: RequestContext) -> Any:
        wanted = request.filters.packet_ids
        found = [packet for packet in await every(request, call) if not wanted or packet.packet_id in wanted]
        return found[request.offset : request.offset + request.limit]

    archive.list_packets = list_packets
    return archive


@pytest.fixture
def small(memory: Any, page: Any) -> Any:
    """Four packets in order of time, of two models."""
    rows = (("Soup", "Claude"), ("Soup and bread", "Gemini"), ("A boat", "Claude"), ("A kite", "Grok"))
    pages = [
        page(f"{text} is what we spoke of.", f"tp-{day}", timestamp=f"2025-11-0{day}T10:00:00Z", model=model)
        for day, (text, model) in enumerate(rows, start=1)
    ]
    archive = _filtering(memory(pages, models=("Claude", "Gemini", "Grok")))
    oldest_first = archive.list_packets

    async def in_order(request: Any, call: RequestContext) -> Any:
        found = await oldest_first(request, call)
        return found[::-1] if request.order == "latest" else found

    archive.list_packets = in_order
    return archive


@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ("Show me the three latest conversations", ["tp-4", "tp-3", "tp-2"]),
        ("Show me the first two conversations", ["tp-1", "tp-2"]),
        ("Show me the oldest conversation", ["tp-1"]),
        ("What was our last conversation about?", ["tp-4"]),
        ("When was our first conversation?", ["tp-1"]),
        ("Show me everything except the soup", ["tp-3", "tp-4"]),
        ("Show me conversations about soup, not Gemini", ["tp-1"]),
        ("List all conversations without Claude", ["tp-2", "tp-4"]),
        ("How often did we talk about soup?", ["tp-1", "tp-2"]),
        ("How often did Grok mention the kite?", ["tp-4"]),
    ],
)
async def test_a_list_holds_as_many_as_it_is_asked_for_and_not_what_it_is_to_be_without(
    small: Any, question: str, listed: list[str]
) -> None:
    result = await Researcher(small, FrozenClock(NOW), CONFIG).research(
        ResearchRequest(query=question), RequestContext()
    )
    assert (result.status, [packet.packet_id for packet in result.sources]) == ("SUCCESS", listed)


async def test_how_a_list_was_understood_is_told(small: Any) -> None:
    researcher = Researcher(small, FrozenClock(NOW), CONFIG)
    result = await researcher.research(
        ResearchRequest(query="List the two latest chats, but not Grok"), RequestContext()
    )
    assert (result.parameters["most"], result.parameters["left_out"]) == (2, ["Grok"])
    assert [packet.packet_id for packet in result.sources] == ["tp-3", "tp-2"]
