"""Who said it is told where it is asked for."""

from typing import Any

import pytest

from gaiad.research.synthesis import asks_who_said, said_by


@pytest.mark.parametrize(
    "question",
    [
        "Which model defended RAG?",
        "What model said that the pump is too loud?",
        "Who first proposed the pilot?",
        "Whose idea was the pilot?",
    ],
)
def test_a_question_for_who_said_it(question: str) -> None:
    assert asks_who_said(question)


@pytest.mark.parametrize(
    "question", ["Who lives in Graz?", "Which model of camera did we buy?", "What did Gemini say?"]
)
def test_a_question_for_something_else(question: str) -> None:
    assert not asks_who_said(question)


def test_a_role_is_told_with_its_model(page: Any) -> None:
    assert said_by(page("It is.", speaker="Vera", model="Claude")) == "Vera"
    assert said_by(page("It is.", speaker="assistant", model="Claude")) == "assistant (Claude)"
    assert said_by(page("It is.", model="Claude")) == "Claude (model of the packet)"
    assert said_by(page("It is.")) == ""


async def test_the_model_that_defended_rag_in_the_samples_is_named(ask: Any) -> None:
    result = await ask("Which model defended RAG?")
    assert result.source_packets == ["tp-20251130-154500"]
    assert "Gemini 2.5 Pro" in result.answer


async def test_the_question_for_the_model_is_not_what_it_is_about(ask: Any) -> None:
    asked = await ask("Which model said that the questions will not be written before the middle of the month?")
    assert asked.source_packets[0] == "CRTP-0x21-FORWARD-CONTEXT"
    assert "Claude Sonnet 4.5" in asked.answer
    assert "model" not in asked.missing_aspects
