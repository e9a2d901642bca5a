"""What a conversation repeats is no evidence: answers that only quote, and questions that were asked before."""

from datetime import UTC, datetime

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import asks, only_asked, only_quotes, only_tells, repeats_question
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import Page, ResearchRequest

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)


def page(text, speaker="user", model="extractive"):
    return Page(
        page_id="p",
        packet_id="turn_1",
        session_id="s",
        sequence=0,
        section="transcript",
        path="messages",
        text=text,
        start=0,
        end=len(text),
        timestamp="2025-12-01T12:00:00Z",
        speaker=speaker,
        model=model,
    )


def test_only_an_answer_of_the_model_without_weights_only_quotes():
    assert only_quotes(page("It is so. [Packet: tp-1]", "assistant"))
    assert not only_quotes(page("It is so.", "assistant", "qwen"))
    assert not only_quotes(page("It is so.", "user"))


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("What was decided about the enumeration protocol?", "what did we decide about the enumeration protocol"),
        ("what did we decide about the enumeration protocol", "What was decided about the enumeration protocol?"),
        ("hello", "Hello!"),
        ("Who?", "Who spoke there?"),
    ],
)
def test_a_question_about_the_same_tells_nothing(said, question):
    assert repeats_question(page(said), question)
    assert not repeats_question(page(said, "assistant"), question)


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("My boat is called Heron.", "What is my boat called?"),
        ("What does the garden in Lisbon cost a year?", "What did I ask yesterday?"),
        ("Hello, the meeting is on Tuesday.", "hello"),
        ("Can you remember that my dog is called Rex?", "What is my dog called?"),
        ("My boat is called Heron, isn't it?", "What is my boat called?"),
    ],
)
def test_what_tells_something_stays(said, question):
    assert not repeats_question(page(said), question)


def test_a_question_that_hands_over_a_fact_is_more_than_a_question():
    assert only_asked(page("Do you know my dog?"), "What is my dog called?")
    assert not only_asked(page("Can you remember that my dog is called Rex?"), "What is my dog called?")


@pytest.mark.parametrize(
    "said",
    [
        "Thanks! By the way, who is bringing the lemon tree?",
        "Please write a haiku about snow.",
        "Hey gaiad, can you write a haiku about the lemon tree",
        "Ok, great. Give me a summary of the pilot!",
    ],
)
def test_a_request_in_a_chat_tells_nothing(said):
    assert only_asked(page(said), "Who brings the lemon tree?")
    assert not only_asked(page(said), "What did I ask you yesterday?")
    assert not only_asked(page(said, "assistant"), "Who brings the lemon tree?")


@pytest.mark.parametrize(
    "said",
    [
        "Thanks! Ines is bringing the lemon tree.",
        "Write a birthday card for my sister Clara.",
        "Please remember that the lemon tree comes from Porto.",
        "Give Otto the key, because he lives next door.",
        "List prices rise in May.",
        "Thanks!",
    ],
)
def test_a_request_that_tells_something_by_the_way_stays(said):
    assert not only_asked(page(said), "Who brings the lemon tree?")


def test_a_true_statement_said_again_to_an_agent_is_no_echo():
    kept = msgspec.structs.replace(page("I live in Oslo."), packet_id="said_1")
    assert not repeats_question(kept, "I live in Oslo")
    assert repeats_question(page("I live in Oslo."), "I live in Oslo")
    question = msgspec.structs.replace(page("where does Otto live"), packet_id="said_1")
    assert repeats_question(question, "Where does Otto live?")


async def test_a_request_is_never_quoted_for_what_it_asks(memory):
    asked = said("Thanks! By the way, what is the P5 synergy protocol?", "user")
    ordered = said("Please write a haiku about the P5 synergy protocol.", "user", "turn_2")
    assert (await research(memory, [asked, ordered])).status == "NOT_FOUND"


def test_what_reads_like_a_question_is_one():
    assert all(map(asks, ("Is it?", "what happened then", "Tell me about it", "and the price?")))
    assert not any(map(asks, ("It is.", "", "  ", "Whatever you like.")))


QUESTION = "What is the P5 synergy protocol?"


def said(text, speaker, turn="turn_1", sequence=0):
    fields = {"page_id": f"{turn}/{sequence}", "packet_id": turn, "sequence": sequence}
    return msgspec.structs.replace(page(text, speaker, "qwen"), **fields)


async def research(memory, pages, passed_over=(), question=QUESTION):
    archive = memory(pages)
    plain = archive.search

    async def search(request, call):
        found = await plain(request, call)
        hits = [msgspec.structs.replace(hit, adjacent=[h for h in found.hits if beside(h, hit)]) for hit in found.hits]
        return msgspec.structs.replace(found, hits=hits)

    archive.search = search
    researcher = Researcher(archive, FrozenClock(NOW), load_config((), {}).research)
    return await researcher.research(ResearchRequest(query=question), RequestContext(), None, passed_over)


def beside(one, other):
    return one.packet_id == other.packet_id and one.page_id != other.page_id


async def test_a_question_asked_again_is_never_evidence_though_an_answer_follows_it(memory):
    result = await research(memory, [said(QUESTION, "user"), said("It joins five nodes.", "assistant", sequence=1)])
    assert QUESTION not in result.answer.split("query:")[0]
    assert result.confidence_band != "HIGH"


async def test_what_a_model_of_ours_said_before_answers_nothing_but_what_it_said(memory):
    own = said("The P5 synergy protocol is a dance of five foxes.", "assistant")
    alone = await research(memory, [own])
    assert (alone.status, alone.citations) == ("NOT_FOUND", [])
    packet = msgspec.structs.replace(own, page_id="tp/0", packet_id="tp-1", speaker="")
    assert (await research(memory, [own, packet])).source_packets == ["tp-1"]
    told = await research(memory, [own], question="What did you say about the P5 synergy protocol?")
    assert told.source_packets == ["turn_1"]
    assert told.confidence_band != "HIGH"
    assert "own earlier words" in told.note


async def test_turns_that_stand_in_the_history_do_not_take_the_place_of_packets(memory):
    turns = [said("The P5 synergy protocol, the P5 synergy protocol.", "user", f"turn_{n}") for n in range(40)]
    packet = said("The P5 synergy protocol binds five nodes for good, as the council wrote.", "", "tp-1")
    result = await research(memory, [*turns, packet], {turn.packet_id for turn in turns})
    assert result.source_packets == ["tp-1"]
    assert (await research(memory, turns, {turn.packet_id for turn in turns})).status == "NOT_FOUND"


async def test_a_persons_own_question_to_gaiad_is_no_statement(memory):
    mine = said("What does the P5 synergy protocol cost the garden in Lisbon, roof and cellar counted?", "user")
    assert (await research(memory, [mine])).status == "NOT_FOUND"
    packet = msgspec.structs.replace(mine, page_id="tp/0", packet_id="tp-1", speaker="")
    assert (await research(memory, [mine, packet])).source_packets == ["tp-1"]
    statement = said(
        "The P5 synergy protocol cost the garden in Lisbon forty, roof and cellar counted. Is that much?", "user"
    )
    assert (await research(memory, [statement])).source_packets == ["turn_1"]


def test_a_persons_own_question_stays_for_whoever_asks_what_was_asked():
    mine = page("What does the garden in Lisbon cost a year?")
    assert only_asked(mine, "What did we decide last week?")
    assert not only_asked(mine, "What did I ask yesterday?")
    assert only_asked(mine, "Tell me slowly")
    assert not only_asked(mine, "Tell me what I asked yesterday")
    assert not only_asked(mine, "What did we talk about yesterday?")
    assert not only_asked(page("What does it cost?", "assistant"), "What was decided?")
    assert not only_asked(page("It costs 40. Is that much?"), "What was decided?")


@pytest.mark.parametrize(
    "message",
    [
        "I started a new job last week.",
        "Hi! My sister Lene plays the violin.",
        "We decided to use Postgres yesterday. It was late.",
        "Remember that my dog is called Rex.",
        "Please remember the gate code: 4711.",
    ],
)
def test_a_person_who_only_tells_wants_nothing_to_know(message: str) -> None:
    assert only_tells(message)


@pytest.mark.parametrize(
    "message",
    [
        "I started a new job last week. Did I say where?",
        "I wonder what Joseph thought of it.",
        "I need the details of the lease.",
        "I can't remember the name of the hotel.",
        "larkspur backup",
        "Tell me about the lease, we spoke of it.",
        "Thanks, good night!",
    ],
)
def test_whoever_wants_to_know_something_does_not_only_tell(message: str) -> None:
    assert not only_tells(message)
