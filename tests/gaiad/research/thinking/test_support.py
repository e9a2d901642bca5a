"""Which sentences a quote carries: a table of what models do well and of what they make up."""

from datetime import UTC
from typing import Any

import pytest

from gaiad.research.thinking.support import Passage, unsupported

QUOTE = "The float switch is wired in series with the supply of both valves."
SAID = "I ordered 12 membranes in Lisbon, and they will not arrive before Friday."
QUESTION = "Where is the float switch wired?"


def passage(page: Any, text: str, **fields: Any) -> Passage:
    made = page(text, **fields)
    return Passage("s1", made, 0, len(text))


@pytest.mark.parametrize(
    "sentence",
    [
        QUOTE,
        "It is wired in series with the supply of both valves.",
        "In series with both valves' supply.",
        "Both valves share one supply, and the switch is in series with it.",
        "On November 27, 2025 the switch was said to be in series with the valves.",
        "Overall, the switch is in series with the valves.",
        "Yes, it is.",
    ],
)
def test_what_the_quote_says_in_other_words_is_carried(page: Any, sentence: str) -> None:
    assert unsupported(sentence, [passage(page, QUOTE)], QUESTION, UTC) == ""


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("The float switch is wired in series with 3 valves.", "the number 3 is in no quote"),
        ("Mara wired the float switch in series with the valves.", "the name Mara is in no quote"),
        ("The float switch is wired in series in Lisbon.", "the name Lisbon is in no quote"),
        ("A relay behind the garden wall opens whenever rain begins.", "its words are in no quote"),
        ("The float switch is not wired in series with the supply of both valves.", "a quote says otherwise"),
        ("On November 28, 2025 the switch was wired in series.", "the number 28 is in no quote"),
    ],
)
def test_what_is_made_up_is_not(page: Any, sentence: str, why: str) -> None:
    assert unsupported(sentence, [passage(page, QUOTE)], QUESTION, UTC) == why


@pytest.mark.parametrize("name", ["Otto", "Łukasz", "Žofia", "Z\u030cofia", "Şebnem", "Ørjan", "Иван", "Ελένη"])
def test_a_name_is_a_name_in_any_script_that_has_capitals(page: Any, name: str) -> None:
    quote = passage(page, "Vera bought the telescope lens in the old shop.")
    assert "is in no quote" in unsupported(f"{name} bought the lens in the shop.", [quote], "Who bought it?", UTC)
    quote = passage(page, f"{name} bought the telescope lens in the old shop.")
    assert unsupported(f"{name} bought the lens in the shop.", [quote], "Who bought it?", UTC) == ""


@pytest.mark.parametrize(
    ("said", "sentence", "why"),
    [
        ("Vera bought five lenses.", "Vera bought seven lenses.", "the number seven is in no quote"),
        ("Vera bought lenses.", "Vera bought twenty-one lenses.", "the number twenty-one is in no quote"),
        ("Vera bought five lenses.", "Vera bought 5 lenses.", ""),
        ("Vera bought 5 lenses.", "Vera bought five lenses.", ""),
        ("Vera bought 2,000 cheap lenses in Oslo.", "Vera bought two thousand cheap lenses in Oslo.", ""),
        ("Vera bought both lenses.", "Vera bought the two lenses.", ""),
        ("Vera bought lenses.", "Vera bought lenses, one by one.", ""),
    ],
)
def test_a_number_in_words_is_a_number(page: Any, said: str, sentence: str, why: str) -> None:
    assert unsupported(sentence, [passage(page, said)], "What did Vera buy?", UTC) == why


def test_a_form_that_the_stemmer_leaves_apart_is_the_same_word(page: Any) -> None:
    quote = passage(page, "We bought both and wrote home.")
    assert unsupported("She would buy and write.", [quote], "What of the stamps?", UTC) == ""


def test_who_spoke_of_what_and_when_belongs_to_the_quote(page: Any) -> None:
    quote = passage(page, SAID, speaker="Greta", topic="Harbour pump")
    assert unsupported("Greta ordered 12 membranes for the harbour pump.", [quote], "What was ordered?", UTC) == ""
    assert unsupported("Greta ordered 21 membranes.", [quote], "What was ordered?", UTC) != ""


def test_two_quotes_carry_together_what_neither_carries_alone(page: Any) -> None:
    quotes = [passage(page, QUOTE), passage(page, SAID, speaker="Greta")]
    both = "The switch is in series with the valves, and Greta ordered 12 membranes."
    assert unsupported(both, quotes, QUESTION, UTC) == ""
    assert unsupported(both, quotes[:1], QUESTION, UTC) != ""
