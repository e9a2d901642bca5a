"""Which messages are looked up and which stand by themselves: forty messages to the samples, and to real packets."""

import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.familiar import asks_back, familiar, history_need, telling, told_before
from gaiad.wire.schemas import Page
from tests.makers.archives import OwnArchive

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
MOST_MISSED, MOST_NEEDLESS = 1, 1
ABOUT_THE_SAMPLES = [
    "Why is the float switch wired in series?",
    "How are the microphones protected from the heat?",
    "explain the enumeration protocol",
    "What does noun bias mean?",
    "How long is the train to Sintra?",
    "What does the Devil's Advocate look for?",
    "What is the Codex Law of Consent?",
    "how does GAM differ from RAG?",
    "who is on the Recursive Thought Committee?",
    "What about syntactic templates?",
    "which criticisms of GAM were about latency?",
    "what is our budget for the irrigation?",
    "What did we decide about the sensors?",
    "how many of the ten false statements were accepted?",
    "when does the pilot of the Researcher start?",
    "tell me about sycophancy in the ten false statements",
    "remind me of the Lisbon apartment",
    "What was discussed in November?",
    "Would Gemini agree?",
    "what is a divergent scan?",
]
BY_THEMSELVES = [
    "do you go on holiday?",
    "write me a poem again",
    "Hello!",
    "What is 17 times 23?",
    "Write a limerick about rain",
    "Translate 'good morning' into French",
    "How do I reverse a list in Python?",
    "Thanks, that helps",
    "What is the capital of France?",
    "What's the weather today?",
    "How do you say thank you in Japanese?",
    "Who was born in 1945?",
    "How do TCP packets work?",
    "Tell me a joke",
    "Can you explain photosynthesis?",
    "What should I cook tonight?",
    "Write a Python function that sorts numbers",
    "I found a bug in my code, what now?",
    "How tall is Mount Everest?",
    "Is it better to run in the morning or the evening?",
    "Is anybody there?",
    "Explain in one sentence what a unit test is.",
]
ABOUT_REAL_PACKETS = [
    "what is the P5 synergy protocol?",
    "explain P5_SYNERGY",
    "tell me about the real-time audio processing architecture",
    "who invented convergence vectoring?",
    "what is our sampling rate for the audio system?",
]


async def looked_up(archive: LocalArchive, messages: list[str]) -> list[str]:
    """Those that are."""
    facets, call = await archive.facets(RequestContext()), RequestContext()
    return [
        message
        for message in messages
        if history_need(message, facets, NOW, UTC) or await familiar(archive, message, frozenset(), call)
    ]


@pytest.fixture
async def real_packets(tmp_path: Path) -> AsyncIterator[LocalArchive]:
    root = Path(__file__).parents[3]
    folder = Path(os.environ.get("GAIAD_SHARED_DATA", root.parent / "shared" / "data")) / "packets"
    if not folder.is_dir():
        pytest.skip("the real packets are not here")
    archive = OwnArchive(tmp_path / "real", load_config((), {}), SystemClock("UTC"))
    await archive.start()
    await archive.ingest_files(sorted(folder.glob("*.*")), RequestContext())
    yield archive
    await archive.close()


async def test_what_the_archive_holds_is_looked_up_and_ordinary_talk_is_not(samples: LocalArchive) -> None:
    found = await looked_up(samples, ABOUT_THE_SAMPLES)
    needless = await looked_up(samples, BY_THEMSELVES)
    assert len(found) >= len(ABOUT_THE_SAMPLES) - MOST_MISSED, set(ABOUT_THE_SAMPLES) - set(found)
    assert len(needless) <= MOST_NEEDLESS, needless


async def test_real_packets_are_known_by_their_words(real_packets: LocalArchive) -> None:
    assert await looked_up(real_packets, ABOUT_REAL_PACKETS) == ABOUT_REAL_PACKETS
    assert len(await looked_up(real_packets, BY_THEMSELVES)) <= MOST_NEEDLESS


@pytest.mark.parametrize(
    "fields",
    [
        {"packet_id": "turn_2", "speaker": "assistant", "text": "A lantern has a wick and a gimbal."},
        {"packet_id": "turn_2", "speaker": "user", "text": "Which gimbal has the lantern?"},
        {"packet_id": "turn_2", "speaker": "user", "text": "What weighs a lantern with a gimbal minus the wick?"},
        {"packet_id": "turn_2", "speaker": "user", "text": "Calculate the gimbal of a lantern."},
        {"packet_id": "turn_1", "speaker": "user", "text": "My lantern has a gimbal."},
    ],
)
async def test_own_words_the_same_question_and_what_stands_in_history_show_nothing(
    memory: Any, page: Callable[..., Page], fields: dict[str, Any]
) -> None:
    asked = "What gimbal has the lantern?"
    assert await familiar(memory([page(**fields)]), asked, {"turn_1"}, RequestContext()) == []
    told = memory([page("The lantern hangs in a gimbal.")])
    assert await familiar(told, asked, {"turn_1"}, RequestContext()) == ["gimbal", "lantern"]


def test_everyday_words_tell_something_only_of_what_is_ours() -> None:
    assert telling("Is the garden large?").words == ()
    assert telling("How large is our garden?").words == ("large", "garden")
    assert telling("Write a poem about the gimbal").least == 2


def test_what_the_person_told_before_is_known_by_its_words_and_a_question_tells_nothing():
    said = ["Hello! My name is Oskar.", "Which colour suits a cat? I like cats."]
    assert told_before("What is my name?", said) == "My name is Oskar."
    assert told_before("What did I buy yesterday?", ["I bought a lamp yesterday."]) == "I bought a lamp yesterday."
    assert not told_before("What is my name?", ["What is my name?"])
    assert not told_before("When is my dentist appointment?", said)


@pytest.mark.parametrize(
    "question",
    [
        "What is the name of my cat?",
        "In which month is my trip?",
        "Who is coming to my party?",
        "Which flight am I on tomorrow?",
        "Where do I keep the spare key?",
        "Do I have a meeting today?",
    ],
)
def test_a_question_about_ones_own_affairs_is_known_by_its_form(question: str) -> None:
    assert asks_back(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is our galaxy called?",
        "In what year was our planet formed?",
        "What are my options for learning Spanish?",
        "What is my BMI if I weigh 70 kg?",
        "What do I have to do to become a pilot?",
        "What did we learn from the Apollo missions?",
        "How do I find my IP address?",
        "Have we been to Mars?",
        "Was ist die Hauptstadt von Norwegen?",
        "Was it the Romans who built the bridge?",
    ],
)
def test_what_anybody_could_answer_is_no_question_about_ones_own_affairs(question: str) -> None:
    assert not asks_back(question)
