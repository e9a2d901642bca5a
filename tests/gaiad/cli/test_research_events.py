"""What a terminal is told of a run as it goes."""

from typing import Any

import pytest

from gaiad.base.errors import Unavailable
from gaiad.cli.research_text import event_text, result_of, told
from gaiad.client.connection import ServerEvent


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("started", {"research_id": "res_1"}, ""),
        ("resumed", {"research_id": "res_1"}, "Interrupted by the end of the daemon; it goes on where it was"),
        ("interrupted", {"research_id": "res_1"}, "The daemon is stopping; the run continues at its next start"),
        ("searching", {"iteration": 1, "query": "float switch", "refinements": []}, "Searching: float switch"),
        (
            "searching",
            {"iteration": 2, "query": "float", "refinements": ["a", "wider dates"]},
            "Searching again: float (wider dates)",
        ),
        ("found", {"new_pages": 1, "packets": ["tp-1"]}, "Found 1 new page, 1 relevant packet [tp-1]"),
        ("found", {"packets": list("abcd")}, "Found 4 relevant packets [a, b, c, ...]"),
        ("found", {"new_pages": 0, "packets": []}, "Found 0 new pages, 0 relevant packets"),
        ("reflected", {"sufficient": True, "confidence": 0.951, "missing": []}, "That is enough, confidence 0.95"),
        (
            "reflected",
            {"sufficient": False, "confidence": 0.5, "missing": ["plumber", "paid"]},
            "Not enough yet, confidence 0.50; missing: plumber, paid",
        ),
        (
            "partial",
            {"confidence": 0.66, "answer": "It is wired in series. [Packet: tp-1]"},
            "So far, confidence 0.66:\n  | It is wired in series. [Packet: tp-1]",
        ),
        (
            "planned",
            {"actions": [{"query": "valve supply", "pageIds": []}, {"query": "", "pageIds": ["p-1", "p-2"]}]},
            "Searching besides: valve supply; pages p-1, p-2",
        ),
        ("planned", {"actions": []}, ""),
        ("planned", {"by": "rules", "actions": [{"query": "the question", "pageIds": []}]}, ""),
        ("thought", {"step": "planning", "by_rules": ""}, ""),
        ("thought", {"step": "reflection", "by_rules": "qwen sleeps"}, "Reflection by rules: qwen sleeps"),
        ("synthesizing", {"packets": ["tp-1"]}, ""),
    ],
)
def test_each_event_is_told_in_words(name: str, data: dict[str, Any], text: str) -> None:
    assert event_text(name, data, 80) == text


def test_what_packets_say_cannot_steer_a_terminal() -> None:
    for name, data in (
        ("searching", {"iteration": 1, "query": "a\x1b[2Jb", "refinements": []}),
        ("found", {"packets": ["tp\x1b[1A"]}),
        ("planned", {"actions": [{"query": "a\x1b[2J", "pageIds": []}, {"query": "", "pageIds": ["\u202ep"]}]}),
        ("thought", {"step": "planning", "by_rules": "\x1b[2J"}),
        ("reflected", {"sufficient": False, "confidence": 0.1, "missing": ["\u202ereversed"]}),
        ("partial", {"confidence": 0.1, "answer": "\x1b]0;title\x07 [Packet: tp-1]"}),
    ):
        assert not set(event_text(name, data, 80)) & {"\x1b", "\u202e", "\x07"}


def test_a_stream_that_ends_without_a_result_says_what_becomes_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        ServerEvent(id="1", event="searching", data={"iteration": 1, "query": "switch", "refinements": []}),
        ServerEvent(id="2", event="interrupted", data={}),
    ]
    with pytest.raises(Unavailable, match="goes on later"):
        result_of(told(events), "it goes on later")
    assert capsys.readouterr().err == "Searching: switch\nThe daemon is stopping; the run continues at its next start\n"
