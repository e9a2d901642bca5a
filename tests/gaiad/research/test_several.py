"""Questions that hold several are taken apart, each is answered, and one that has no answer is missing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.several import MOST_QUESTIONS, questions
from gaiad.wire.schemas import ResearchRequest, ResearchResult

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
CONFIG = load_config(environment={}).research


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (
            "What is the price of the boat and who is the seller?",
            ["What is the price of the boat", "who is the seller"],
        ),
        ("Who sold the boat? Where does Ada live?", ["Who sold the boat", "Where does Ada live"]),
        ("Where did Vera move, and what does she measure?", ["Where did Vera move", "what does she measure Vera"]),
        ("What did the boat cost and is it sold?", ["What did the boat cost", "is it sold boat cost"]),
        ("Tell me about the boat and the orchard", ["Tell me about the boat", "Tell me about the orchard"]),
        ("What do we know about Vera and Otto?", ["What do we know about Vera", "What do we know about Otto"]),
        ("Which apple is red and is growing fast?", []),
        ("Who lives in Porto and has a dog?", []),
        ("What did Otto win that is heavy and is his pride?", []),
        ("Did we choose wood or did we choose gas?", []),
        ("What did we say about bread and butter in the morning?", []),
    ],
)
def test_a_question_is_taken_apart_where_another_one_begins(text: str, held: list[str]) -> None:
    assert [one.full for one in questions(text)] == held


@given(st.text())
def test_any_text_holds_few_questions(text: str) -> None:
    assert len(questions(text)) <= MOST_QUESTIONS


async def research(archive: Any, query: str, **fields: Any) -> ResearchResult:
    return await Researcher(archive, CLOCK, CONFIG).research(ResearchRequest(query=query, **fields), RequestContext())


@pytest.fixture
def harbour(memory: Any, page: Any) -> Any:
    return memory(
        [
            page("The price of the boat is 900 euros. It needs paint.", "tp-boat"),
            page("The seller of everything down there is Mrs. Duarte.", "tp-seller"),
            page("Ada lives in Bergen and likes rain.", "tp-ada"),
            page("The orchard has twelve old pear trees.", "tp-orchard"),
            page("Bread and butter was all we ate.", "tp-bread"),
        ]
    )


@pytest.mark.parametrize(
    ("question", "packets", "said"),
    [
        ("What is the price of the boat and who is the seller?", ["tp-boat", "tp-seller"], ["900 euros", "Duarte"]),
        ("Who is the seller and where does Ada live?", ["tp-seller", "tp-ada"], ["Duarte", "Bergen"]),
        ("Who is the seller and where does Ada live now?", ["tp-seller", "tp-ada"], ["Duarte", "Bergen"]),
        ("Tell me about the boat and the orchard", ["tp-boat", "tp-orchard"], ["900 euros", "pear trees"]),
    ],
)
async def test_every_question_is_answered_in_its_place(
    harbour: Any, question: str, packets: list[str], said: list[str]
) -> None:
    result = await research(harbour, question)
    assert (result.status, result.source_packets) == ("SUCCESS", packets)
    assert all(words in result.answer for words in said)
    assert result.answer.index(said[0]) < result.answer.index(said[1])


@pytest.mark.parametrize("part", ["who invented the telescope", "how deep is the ocean trench"])
async def test_a_question_without_an_answer_is_missing_and_the_other_is_answered(harbour: Any, part: str) -> None:
    result = await research(harbour, f"Where does Ada live and {part}?")
    assert (result.status, result.source_packets) == ("PARTIAL", ["tp-ada"])
    assert part in result.missing_aspects
    assert result.confidence < 0.75


async def test_where_none_has_an_answer_nothing_is_found(harbour: Any) -> None:
    result = await research(harbour, "Who invented the telescope and how deep is the ocean trench?")
    assert (result.status, result.citations) == ("NOT_FOUND", [])


async def test_a_pair_that_belongs_together_stays_one(harbour: Any) -> None:
    result = await research(harbour, "What did we say about bread and butter?")
    assert result.source_packets == ["tp-bread"]


async def test_what_a_page_says_of_both_is_quoted_once(memory: Any, page: Any) -> None:
    archive = memory([page("The seller of the boat is Mrs. Duarte and the price is 900 euros."), page("Rain.", "tp-2")])
    result = await research(archive, "Who is the seller of the boat and what is the price of the boat?")
    assert result.status == "SUCCESS"
    assert result.answer.count("Duarte") == 1
