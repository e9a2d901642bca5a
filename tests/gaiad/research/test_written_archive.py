"""What a person asks of two years of their own conversations (`written_archive.toml`): decisions, dates, who said what,
how a view changed, lists, and what nobody ever spoke of. By meaning: which packets answer, and which words stand there.
"""

import asyncio
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from gaiad.base.clock import FrozenClock, SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest, ResearchResult
from tests.gaiad.research.conftest import NOW, check
from tests.makers.archives import OwnArchive

WRITTEN = tomllib.loads(Path(__file__).with_name("written_archive.toml").read_text(encoding="utf-8"))["packets"]
CONFIG = load_config((), {}, ["embedder.kind=none"])
Told = dict[str, ResearchResult]

OAK, TILES, OAK_RING, QUARTZ = "tp-20240114-101500", "tp-20240330-170000", "tp-20240802-183000", "tp-20250524-110000"
RESTIC, BORG = "tp-20240418-213000", "tp-20250416-220000"
CELL, CELL_TEST, FLAT_CELL, FIELD_TEST = (
    "tp-20240220-090000",
    "tp-20240715-093000",
    "tp-20241021-090000",
    "tp-20250611-090000",
)
PRICE, PRICE_AGAIN, TOO_CHEAP, NEW_PRICE = (
    "tp-20241008-160000",
    "tp-20241105-150000",
    "tp-20250508-130000",
    "tp-20250822-101500",
)
ENCLOSURE, DISPLAY, EXAM, NAMED = "tp-20251104-110000", "tp-20251112-100000", "tp-20251118-190000", "tp-20251127-160000"
LAUNCH, DELAY = "tp-20251201-090000", "tp-20251209-143000"


FACTS = [
    ("What did we decide about the enclosure in November?", [ENCLOSURE], ["recycled ABS", "Bamboo swells"]),
    ("Why did we choose recycled ABS?", [ENCLOSURE], ["aluminium shields the radio"]),
    ("Which model said that 49 euros is too cheap?", [TOO_CHEAP], ["Grok said"]),
    ("Who laid the tiles in the kitchen?", [TILES], ["Renato"]),
    ("What was my time in the half marathon?", ["tp-20250314-180000"], ["2:11"]),
    ("What did Lucía say about the exam?", ["tp-20250910-080000"], ["DELE B1"]),
    ("When is the DELE exam?", ["tp-20250910-080000"], ["November 14"]),
    ("How much does the trademark cost?", [NAMED], ["900 euros"]),
    ("What did the lawyer say?", [NAMED], ["Petrosyan"]),
    ("What have we decided about subscriptions?", [PRICE_AGAIN], ["no subscription this year"]),
    ("What did we decide about bees?", ["tp-20250803-170000"], ["until spring"]),
    ("Who are the beta readers of the novel?", ["tp-20250628-200000"], ["Amara and Joost"]),
    ("What did Joost think of the novel?", ["tp-20250628-200000"], ["the storm"]),
    ("How many messages does support get a week?", ["tp-20251002-153000"], ["37 messages"]),
    ("What were the criticisms of chapter three?", ["tp-20240525-193000"], ["eleven pages", "too much weather"]),
    ("Did we ever talk about solar panels?", [CELL], ["shaded by leaves"]),
]
STANDS_NOW = [
    ("When did we first discuss the battery of Fennel?", CELL, "First discussed in [Packet: {}] on Feb 20, 2024"),
    ("When did we last talk about backups?", BORG, "Last discussed in [Packet: {}] on Apr 16, 2025"),
    ("Where are our backups now?", BORG, "borg on the NAS"),
    ("Do we still use restic?", BORG, "We moved the backups to borg"),
    ("What is the current title of the novel?", "tp-20241119-210000", "Salt Ledger"),
]
HISTORIES = [
    (
        "How did our view of the oak countertop change?",
        [OAK, OAK_RING, QUARTZ],
        ["decided on oak", "quartz in June"],
    ),
    ("How has the battery of Fennel evolved?", [CELL, CELL_TEST, FLAT_CELL, FIELD_TEST], ["LiFePO4", "no longer"]),
    ("How has the price of Fennel changed over time?", [PRICE, PRICE_AGAIN, NEW_PRICE], ["49 euros", "69 euros"]),
]
LISTS = [
    ("Show me all Grok conversations", ["tp-20250209-190000", TOO_CHEAP]),
    ("List all conversations about Sorrel", ["tp-20250209-190000", ENCLOSURE, DISPLAY, NAMED, LAUNCH, DELAY]),
    ("Show me everything from November 2025", [ENCLOSURE, DISPLAY, EXAM, NAMED]),
    ("What did we discuss last week?", [DELAY]),
]
NOWHERE = [
    "What did Zelda say about the exam?",
    "What did Copilot say about the trademark?",
    "What did we decide about the helicopter?",
    "When did I visit Reykjavik?",
]
OTHERS = [
    "Compare oak and quartz for the countertop",
    "Compare what Bjarne and Helena said about the display",
    "When does Sorrel launch?",
    "What did we decide about the price of Fennel in November?",
    "What did we decide about the kitchen before the Portugal trip?",
]
QUESTIONS = [*(row[0] for table in (FACTS, STANDS_NOW, HISTORIES, LISTS) for row in table), *NOWHERE, *OTHERS]


def document(packet: dict[str, str]) -> bytes:
    """A packet of the reference dialect; turns stand in its transcript, anything else in its content."""
    header = {"id": packet["id"], "packet_created": packet["time"], "model": packet["model"], "researcher": "Ines"}
    header["topic"] = packet["topic"]
    part = "transcript" if "**" in packet["text"] else "content"
    named = "".join(f"<tp:{name}>{escape(value)}</tp:{name}>" for name, value in header.items())
    space = "http://ai-collaboration.org/transmission-packet"
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<tp:transmissionPacket xmlns:tp="{space}" version="2.0" id="{packet["id"]}">
<tp:header>{named}</tp:header><tp:body><tp:{part}>{escape(packet["text"].strip())}</tp:{part}></tp:body>
</tp:transmissionPacket>""".encode()


async def _told(home: Path) -> Told:
    """The answers to all questions below, on 15 December 2025."""
    archive = OwnArchive(home, CONFIG, SystemClock("UTC"))
    await archive.start()
    outcomes = await archive.ingest_documents(
        [(f"{one['id']}.xml", document(one)) for one in WRITTEN], RequestContext()
    )
    assert {outcome.outcome for outcome in outcomes} == {"accepted"}
    researcher = Researcher(archive, FrozenClock(NOW), CONFIG.research)
    answers = {}
    for question in QUESTIONS:
        answers[question] = await researcher.research(ResearchRequest(query=question), RequestContext())
        await check(answers[question], archive)
    await archive.close()
    return answers


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return asyncio.run(_told(tmp_path_factory.mktemp("written")))


@pytest.mark.parametrize(("question", "packets", "words"), FACTS)
def test_facts_are_told_with_their_packet(told: Told, question: str, packets: list[str], words: list[str]) -> None:
    result = told[question]
    assert result.status == "SUCCESS"
    assert result.source_packets == packets
    assert all(word in result.answer for word in words)


@pytest.mark.parametrize(("question", "packet", "words"), STANDS_NOW)
def test_first_last_and_how_it_is_now(told: Told, question: str, packet: str, words: str) -> None:
    result = told[question]
    assert result.status == "SUCCESS"
    assert result.source_packets == [packet]
    assert words.format(packet) in result.answer


@pytest.mark.parametrize(("question", "packets", "words"), HISTORIES)
def test_a_history_is_told_in_order(told: Told, question: str, packets: list[str], words: list[str]) -> None:
    result = told[question]
    assert (result.status, result.kind) == ("SUCCESS", "evolution")
    assert [one for one in result.source_packets if one in packets] == packets
    assert all(word in result.answer for word in words)
    assert result.source_packets == sorted(result.source_packets)


def test_a_comparison_puts_each_on_its_side(told: Told) -> None:
    result = told["Compare oak and quartz for the countertop"]
    assert result.status == "SUCCESS"
    oak, rest = result.answer.split("\n\nquartz:\n")
    assert "black ring" in oak
    assert "2,350 euros" in rest


def test_a_comparison_about_something_keeps_to_it(told: Told) -> None:
    result = told["Compare what Bjarne and Helena said about the display"]
    assert result.source_packets == [DISPLAY]
    assert "Helena wanted an e-paper display, Bjarne none." in result.answer


def test_answers_quote_what_was_said_and_no_headers(told: Told) -> None:
    for question in ("How has the battery of Fennel evolved?", "When did we last talk about backups?"):
        answer = told[question].answer
        assert "topic:" not in answer
        assert "packet_created:" not in answer


def test_dates_that_changed_are_shown_beside_each_other(told: Told) -> None:
    result = told["When does Sorrel launch?"]
    assert set(result.source_packets) == {LAUNCH, DELAY}
    assert "April 14, 2026" in result.answer
    assert "May 5, 2026" in result.answer
    assert "disagree on a date" in result.note
    assert result.confidence < 0.75


@pytest.mark.parametrize(("question", "packets"), LISTS)
def test_lists_are_whole(told: Told, question: str, packets: list[str]) -> None:
    result = told[question]
    assert (result.status, result.kind) == ("SUCCESS", "listing")
    assert result.source_packets == packets


def test_a_decision_of_another_year_is_no_answer_for_this_november(told: Told) -> None:
    result = told["What did we decide about the price of Fennel in November?"]
    assert result.status == "PARTIAL"
    assert result.source_packets == [PRICE_AGAIN]
    assert "Nothing found in November" in result.note


@pytest.mark.parametrize("question", NOWHERE)
def test_what_nobody_spoke_of_is_not_found(told: Told, question: str) -> None:
    assert told[question].status == "NOT_FOUND"
