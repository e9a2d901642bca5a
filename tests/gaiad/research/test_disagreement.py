"""An answer says so when the packets it quotes disagree."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest, ResearchResult

CONFIG = load_config(environment={}).research
FOUNDED = "The council was founded on {} in the old mill."


async def answer_to(archive: Any, query: str) -> ResearchResult:
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    return await Researcher(archive, clock, CONFIG).research(ResearchRequest(query=query), RequestContext())


async def note_of(archive: Any, query: str) -> str:
    return (await answer_to(archive, query)).note


async def test_packets_that_disagree_on_a_date_are_named(memory: Any, page: Any) -> None:
    archive = memory([page(FOUNDED.format("12 October 2025")), page(FOUNDED.format("19 October 2025"), "tp-2")])
    answer = await answer_to(archive, "When was the council founded?")
    assert answer.source_packets == ["tp-1", "tp-2"]
    assert answer.confidence_band == "MEDIUM"
    assert answer.note.endswith(
        '[Packet: tp-1] and [Packet: tp-2] disagree on a date: "on 12 October 2025" against "on 19 October 2025".'
    )


async def test_a_more_precise_packet_disagrees_with_nobody(memory: Any, page: Any) -> None:
    archive = memory([page(FOUNDED.format("12 October 2025")), page(FOUNDED.format("October 2025"), "tp-2")])
    assert "differ, and may both hold, on a date" in await note_of(archive, "When was the council founded?")


async def test_one_packet_is_not_held_against_itself(memory: Any, page: Any) -> None:
    text = f"{FOUNDED.format('12 October 2025')} {FOUNDED.format('19 October 2025')}"
    assert "disagree" not in await note_of(memory([page(text)]), "When was the council founded?")


async def test_packets_that_agree_leave_no_note(memory: Any, page: Any) -> None:
    archive = memory([page(FOUNDED.format("12 October 2025")), page(FOUNDED.format("2025-10-12"), "tp-2")])
    assert await note_of(archive, "When was the council founded?") == ""


STOVE = "We decided on November 3 to heat the greenhouse with a wood stove."
PUMP = "We decided to heat the greenhouse with a heat pump instead of the wood stove."
EARLY, LATE = {"timestamp": "2025-11-03T09:00:00Z"}, {"timestamp": "2025-11-18T09:00:00Z"}


@pytest.mark.parametrize(
    "query",
    ["What did we decide about heating the greenhouse?", "Did we decide on a wood stove?", "Which stove heats it?"],
)
async def test_a_decision_that_was_replaced_is_told_with_what_took_its_place_last(
    memory: Any, page: Any, query: str
) -> None:
    answer = await answer_to(memory([page(PUMP, "tp-2", **LATE), page(STOVE, **EARLY)]), query)
    assert answer.source_packets == ["tp-1", "tp-2"]
    old, new = (answer.answer.index(mark) for mark in ("[Packet: tp-1]", "[Packet: tp-2]"))
    assert old < answer.answer.index("Replaced on Nov 18, 2025: ") < new
    assert "[Packet: tp-2] takes the place of what [Packet: tp-1] says" in answer.note
    assert "may both hold" not in answer.note


async def test_a_change_of_something_else_replaces_nothing(memory: Any, page: Any) -> None:
    other = "We decided to paint the shed green instead of red."
    answer = await answer_to(memory([page(STOVE, **EARLY), page(other, "tp-2", **LATE)]), "Did we decide on a stove?")
    assert answer.source_packets == ["tp-1"]
    assert "takes the place" not in answer.note


async def test_the_two_starts_of_the_pilot_in_the_samples_are_both_told(ask: Any) -> None:
    answer = await ask("When does the researcher pilot start?")
    assert {"tp-20251209-081500", "CRTP-0x21-FORWARD-CONTEXT"} <= set(answer.source_packets)
    assert "disagree on a date" in answer.note
    assert "January 19, 2026, because the questions will not be written" in answer.answer


@pytest.mark.parametrize("query", ["What is the Codex Law of Consent?", "How many laws has the Codex?"])
async def test_a_law_and_its_breach_are_no_contradiction(ask: Any, query: str) -> None:
    assert "disagree" not in (await ask(query)).note


@pytest.mark.parametrize(
    "query",
    [
        "What was decided last about heating the greenhouse?",
        "What did we last decide about the greenhouse?",
        "Are we still heating the greenhouse with the wood stove?",
        "How do we heat the greenhouse now?",
    ],
)
async def test_what_holds_now_is_what_was_decided_last(memory: Any, page: Any, query: str) -> None:
    answer = await answer_to(memory([page(STOVE, **EARLY), page(PUMP, "tp-2", **LATE)]), query)
    assert answer.source_packets == ["tp-2"]
    assert "last" not in answer.parameters["keywords"]
