"""An earlier packet named below an answer: which one, how often, where it is kept, and what it never becomes."""

import asyncio

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.research.proactive import Candidate
from gaiad.turn import beside as module
from gaiad.turn.beside import remembered
from gaiad.wire.chat import ChatRequest
from gaiad.wire.schemas import SearchRequest
from tests.makers.council_house import ROLES, House

SAID = "The bearings of the sand mixer seized."
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September")


@pytest.fixture
async def make_house(open_archive, tmp_path, config, make_packet):
    houses = []

    async def make(*, home="house", proactive=True):
        archive = await open_archive()
        for number, month in enumerate(MONTHS, 1):
            content = f"The bearings of the sand mixer seized in {month}, and the foreman swapped them."
            packet = make_packet(packet_id=f"TP-{number}", content=content, topic=f"The mixer in {month}")
            await archive.ingest_documents([(f"{number}.xml", packet)], RequestContext())
        place = tmp_path / home
        place.mkdir()
        says = {role: [ScriptedReply(text="RESPONSE: I heard you.")] for role in ROLES}
        houses.append(await House(place, archive, SystemClock("UTC"), config, says, proactive=proactive).open())
        return houses[-1]

    yield make
    for house in houses:
        await house.close()


async def say(house, message=SAID, **more):
    events = await house.events(message, depth="fast", **more)
    return events[-1][1], events


async def test_one_packet_is_named_that_was_not_in_the_context_anyway(make_house):
    house = await make_house()
    answer, events = await say(house)
    assert answer.also.packet_id in {f"TP-{number}" for number in range(1, 10)} - {*answer.history.packets}
    assert answer.also.packet_id not in answer.sources
    assert answer.also.words.startswith(f"In [Packet: {answer.also.packet_id}] of 2025-11-27 we also covered The mixer")
    assert "The bearings of the sand mixer seized in" in answer.also.words
    assert 0.5 < answer.also.score <= 1.0
    names = [name for name, _ in events]
    assert names[-2:] == ["also", "done"]
    assert answer.also.words not in answer.answer


async def test_no_packet_is_named_twice_in_a_session_not_even_by_another_daemon(make_house, open_archive):
    house = await make_house()
    named = [(await say(house))[0].also for _ in range(3)]
    again = await make_house(home="after-a-restart")
    named += [(await say(again))[0].also for _ in range(4)]
    shown = [one.packet_id for one in named if one is not None]
    assert len(shown) == len(set(shown)) >= 2
    assert (await say(again, session_id="another"))[0].also is not None


async def test_what_was_named_is_remembered_beside_the_words_and_is_no_evidence(make_house):
    house = await make_house()
    answer, _ = await say(house, idempotency_key="once")
    turn = (await house.archive.session_turns("s", RequestContext()))[-1]
    assert remembered(turn) == answer.also
    assert turn.metadata["surfaced"] == [answer.also.packet_id]
    assert answer.also.packet_id not in turn.sources
    found = await house.archive.search(SearchRequest(query="we also covered", mode="bm25"), RequestContext())
    assert [hit.packet_id for hit in found.hits] == []
    repeated, _ = await say(house, idempotency_key="once")
    assert repeated.also == answer.also


async def test_a_message_that_tells_nothing_or_something_else_shows_nothing(make_house):
    house = await make_house()
    for message in ("Thank you!", "What is the capital of Mongolia?", "Sing me a song about the sea."):
        answer, events = await say(house, message)
        assert answer.also is None
        assert len(answer.notes) == message.count("Mongolia")  # no record speaks of it
        assert "also" not in [name for name, _ in events]


async def test_it_is_switched_off_by_one_setting(make_house):
    answer, events = await say(await make_house(proactive=False))
    assert answer.also is None
    assert "also" not in [name for name, _ in events]


async def test_a_search_that_fails_costs_no_answer_and_is_told(make_house, monkeypatch):
    async def failing(*arguments):
        raise Unavailable("the reader is gone", 1.0)

    monkeypatch.setattr(module, "bearing_on", failing)
    answer, _ = await say(await make_house())
    assert answer.answer == "I heard you."
    assert answer.also is None
    assert "no earlier packet was looked for: the reader is gone" in answer.notes


async def test_a_look_that_takes_too_long_is_given_up_and_told(make_house, monkeypatch):
    given_up = asyncio.Event()

    async def slow(*arguments):
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    monkeypatch.setattr(module, "bearing_on", slow)
    house = await make_house()
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    answer, _ = await say(house)
    assert answer.answer == "I heard you."
    assert "no earlier packet was looked for: it took longer than 0.05 s" in answer.notes
    await asyncio.wait_for(given_up.wait(), 30)


async def test_the_first_words_do_not_wait_for_it(make_house, monkeypatch):
    let_go = asyncio.Event()

    async def held(*arguments):
        await let_go.wait()
        return [Candidate(packet_id="P", topic="", timestamp="2025-01-02T00:00:00Z", excerpt="e", score=0.9)]

    monkeypatch.setattr(module, "bearing_on", held)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    house = await make_house()
    heard = []
    async for name, _ in house.taker.take(ChatRequest(message=SAID, session_id="s", depth="fast"), RequestContext()):
        heard.append(name)
        if name == "stage_done":
            let_go.set()
    assert heard.index("delta") < heard.index("stage_done") < heard.index("also") < heard.index("done")


async def test_what_was_said_in_the_session_itself_is_no_earlier_packet(make_house):
    house = await make_house()
    for session_id in ("s", "another"):
        for number in range(3):
            said = f"The bearings of the sand mixer seized once more, that is time {number} for the foreman."
            await say(house, said, session_id=session_id)
    turns = {turn.turn_id for turn in await house.archive.session_turns("s", RequestContext())}
    named = [(await say(house))[0].also for _ in range(6)]
    shown = {one.packet_id for one in named if one is not None}
    assert shown
    assert not shown & turns


async def test_what_some_channel_does_not_see_is_never_named(make_house):
    house = await make_house()
    request = ChatRequest(message=SAID, session_id="s", depth="fast")
    guarded = RequestContext().without((), {"harbour"})
    *_, (name, answer) = [event async for event in house.taker.take(request, guarded)]
    assert (name, answer.answer) == ("done", "I heard you.")
    assert answer.also is None
    assert (await say(house))[0].also is not None
