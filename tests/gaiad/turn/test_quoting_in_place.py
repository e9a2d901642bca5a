"""What a role that only quotes says when it answers for one with a model."""

from types import SimpleNamespace
from typing import Any

from gaiad.turn.answers import ONLY_QUOTES, is_quoting, quote


def stage_of(kind: str, stands_in_for: str | None = None) -> Any:
    return SimpleNamespace(
        task=SimpleNamespace(stands_in_for=stands_in_for),
        built=SimpleNamespace(manifest=SimpleNamespace(total_tokens=7)),
        model=SimpleNamespace(fingerprint="x:1", kind=kind),
        reply=None,
    )


def gathered_of(message: str, *said: str) -> Any:
    turns = [SimpleNamespace(user=text) for text in said]
    return SimpleNamespace(found=None, needed=False, request=SimpleNamespace(message=message), turns=turns)


def said(stands_in_for: str | None) -> str:
    stage = stage_of("extractive", stands_in_for)
    text = quote(stage, SimpleNamespace(gathered=gathered_of("Hello")))  # type: ignore[arg-type]
    assert stage.reply.text == text
    return text


def test_a_role_with_a_model_that_is_away_is_not_called_unset() -> None:
    assert said("prime").startswith("The role prime gave no answer")
    assert said(None) == ONLY_QUOTES


def test_what_the_person_told_in_the_session_is_quoted_at_once_where_the_model_cannot_answer_from_pages() -> None:
    stage, gathered = stage_of("gguf"), gathered_of("What is my name?", "My name is Oskar.")
    assert is_quoting(stage, gathered, frozenset())
    assert not is_quoting(stage, gathered, {"answer"})
    assert not is_quoting(stage, gathered_of("What is my name?", "It rains."), frozenset())
    assert quote(stage, SimpleNamespace(gathered=gathered)) == "You said: “My name is Oskar.”"  # type: ignore[arg-type]


def test_a_question_about_ones_own_affairs_is_not_guessed_where_nothing_was_told() -> None:
    stage, found = stage_of("gguf"), SimpleNamespace(status="NOT_FOUND", source_packets=[])
    for message, quoted in (("What is my sister's name?", True), ("What is a prime number?", False)):
        gathered = gathered_of(message)
        gathered.found = found
        assert is_quoting(stage, gathered, frozenset()) is quoted
