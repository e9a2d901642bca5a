"""What a conversation repeats is no evidence: answers that only quote, and questions that were asked before."""

import pytest

from gaiad.research.evidence import asks, only_quotes, repeats_question
from gaiad.schemas import Page


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
    ],
)
def test_what_tells_something_stays(said, question):
    assert not repeats_question(page(said), question)


def test_what_reads_like_a_question_is_one():
    assert all(map(asks, ("Is it?", "what happened then", "Tell me about it", "and the price?")))
    assert not any(map(asks, ("It is.", "", "  ", "Whatever you like.")))
