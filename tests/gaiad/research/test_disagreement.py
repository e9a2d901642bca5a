"""An answer says so when the packets it quotes disagree."""

from datetime import UTC, datetime
from typing import Any

from gaiad.clock import FrozenClock
from gaiad.config import load_config
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.schemas import ResearchRequest, ResearchResult

CONFIG = load_config(environment={}).research
FOUNDED = "The council was founded on {} in the old mill."


async def answer_to(archive: Any, query: str) -> ResearchResult:
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    return await Researcher(archive, clock, CONFIG).research(ResearchRequest(query=query), Call())


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
