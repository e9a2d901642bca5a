from datetime import UTC, datetime

import pytest

from gaiad.research.familiar import history_need
from gaiad.wire.schemas import Facets

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
FACETS = Facets(
    models={"Gemini 2.5 Pro": 3},
    topics={"Enumeration protocol": 2},
    people={"Joseph": 2, "prime": 9},
    packets=5,
    pages=50,
)


def need(message):
    return history_need(message, FACETS, NOW, UTC)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("Claude, what did we discuss about GAM architecture?", "said or decided"),
        ("What have we decided about the sensors?", "said or decided"),
        ("You said the threshold was too low. Why?", "what we did"),
        ("Do you remember the name of the bridge?", "remember"),
        ("search packets for noun bias", "remember"),
        ("Which packets mention consent?", "packets or conversations"),
        ("Let us go on where our last session ended", "packets or conversations"),
        ("What was the plan in November?", "November"),
        ("Is the enumeration protocol still in use?", "Enumeration protocol"),
        ("What does Joseph think of it?", "Joseph"),
        ("Would Gemini agree?", "Gemini"),
        ("When is my dentist appointment?", "your own affairs"),
        ("What do I like to eat?", "your own affairs"),
        ("Where did I park the car?", "your own affairs"),
        ("Which printer does our office have?", "your own affairs"),
        ("Where does my aunt live?", "your own affairs"),
        ("Have I ever been to Norway?", "your own affairs"),
        ("Wie heißt mein Hund?", "your own affairs"),
    ],
)
def test_what_was_said_before_is_looked_up_and_the_reason_is_told(message, why):
    assert why.lower() in need(message).lower()


@pytest.mark.parametrize(
    "message",
    [
        "Hello!",
        "What is 17 times 23?",
        "Write a limerick about rain",
        "Translate 'good morning' into French",
        "How do I reverse a list in Python?",
        "Thanks, that helps",
        "Is 91 a prime number?",
        "do you go on holiday?",
        "write me a poem again",
        "What is the weather today?",
        "How do TCP packets get lost?",
        "Is 'I go' in the past tense?",
        "What do I do if it rains?",
        "How long do I boil an egg?",
        "What fruit can my dog eat?",
        "How does my eye adapt to the dark?",
        "Do I need a visa for Japan?",
        "What is wrong with my code: print(x",
        "Is my sentence correct?",
        "What holidays are in November?",
    ],
)
def test_what_stands_by_itself_is_not(message):
    assert need(message) == ""
