"""Answers that improve: told after a round that another one follows, to who listens, and to nobody else."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gaiad.clock import FrozenClock
from gaiad.config import load_config
from gaiad.ports import Call
from gaiad.research.citations import verifies
from gaiad.research.loop import Researcher
from gaiad.schemas import Page, ResearchRequest, ResearchResult, SearchRequest, SearchResponse

CONFIG = load_config(environment={}).research
QUESTION = "Where is the float switch wired and who paid the plumber?"
TEXTS = ("The float switch is wired in series.", "A committee hums.", "The float switch was moved to the basin.")
QUOTED = 'Where is the "float switch" wired and who paid the plumber?'
Told = list[tuple[str, dict[str, Any]]]


class Counting:
    """An archive that counts how often pages are read."""

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    async def pages(self, page_ids: list[str], call: Call) -> list[Page]:
        self.reads += 1
        pages: list[Page] = await self._archive.pages(page_ids, call)
        return pages


@pytest.fixture
def archive(memory: Any, page: Any) -> Counting:
    return Counting(memory([page(text, f"tp-{number}") for number, text in enumerate(TEXTS, start=1)]))


@pytest.fixture
def growing(memory: Any, page: Any) -> Any:
    """One more page from the second round on, and a question with three rounds."""
    texts = (*TEXTS, "Somebody paid the plumber.")
    return Growing(memory([page(text, f"tp-{number}") for number, text in enumerate(texts, start=1)]), "tp-4")


class Growing(Counting):
    """An archive whose `late` packet no search finds before pages were read."""

    def __init__(self, archive: Any, late: str) -> None:
        super().__init__(archive)
        self._late = late

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        found: SearchResponse = await self._archive.search(request, call)
        hits = [hit for hit in found.hits if self.reads or hit.packet_id != self._late]
        return msgspec.structs.replace(found, hits=hits)


async def run(archive: Any, listens: bool, query: str = QUESTION) -> tuple[ResearchResult, Told]:
    told: Told = []
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    result = await Researcher(archive, clock, CONFIG).research(
        ResearchRequest(query=query), Call(), lambda name, data: told.append((name, data)), listens=lambda: listens
    )
    return result, told


async def test_a_round_that_did_not_do_tells_what_it_found_before_the_next_one(archive: Counting) -> None:
    result, told = await run(archive, listens=True)
    assert result.iterations_used > 1
    names = [name for name, _ in told]
    first = names.index("partial")
    assert names[first - 1 : first + 2] == ["reflected", "partial", "searching"]
    data = told[first][1]
    assert data["iteration"] == 1
    assert "[Packet: tp-1]" in data["answer"]
    assert data["packets"] == list(dict.fromkeys(one.packet_id for one in data["citations"]))
    assert all(verifies(one, archive.stored) for one in data["citations"])
    assert data["missing"]


async def test_partial_answers_get_no_worse_and_no_two_are_the_same(growing: Growing) -> None:
    _, told = await run(growing, listens=True, query=QUOTED)
    partials = [data for name, data in told if name == "partial"]
    assert [data["packets"] for data in partials] == [["tp-1"], ["tp-1", "tp-4"]]
    assert partials[0]["confidence"] < partials[1]["confidence"]
    assert len({data["answer"] for data in partials}) == 2


async def test_a_round_that_is_less_sure_tells_no_partial_answer(growing: Growing, page: Any) -> None:
    growing.stored["tp-4/0"] = page("Paid.", "tp-4")
    _, told = await run(growing, listens=True, query=QUOTED)
    sure = [data["confidence"] for name, data in told if name == "reflected"]
    assert sure[1] < sure[0]
    assert [name for name, _ in told].count("partial") == 1


async def test_nobody_who_listens_costs_nothing_and_changes_nothing(archive: Counting) -> None:
    listened, _ = await run(archive, listens=True)
    with_listener, archive.reads = archive.reads, 0
    alone, told = await run(archive, listens=False)
    assert "partial" not in [name for name, _ in told]
    assert archive.reads < with_listener
    assert alone == listened


async def test_a_run_of_one_round_and_one_that_finds_nothing_have_no_partial_answer(archive: Counting) -> None:
    for query, status in (("Where is the float switch wired?", "SUCCESS"), ("Who is Zebulon?", "NOT_FOUND")):
        result, told = await run(archive, listens=True, query=query)
        assert result.status == status
        assert "partial" not in [name for name, _ in told]


async def test_what_the_archive_no_longer_confirms_is_in_no_partial_answer(archive: Counting, page: Any) -> None:
    whole = archive.stored["tp-1/0"]
    search = archive.search

    async def changing(request: Any, call: Call) -> Any:
        archive.stored["tp-1/0"] = whole
        return await search(request, call)

    def listens() -> bool:  # asked right before the check
        archive.stored["tp-1/0"] = page("Nobody wired anything at all, anywhere.")
        return True

    archive.search = changing  # type: ignore[attr-defined]
    told: Told = []
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    await Researcher(archive, clock, CONFIG).research(  # type: ignore[arg-type]
        ResearchRequest(query=QUESTION), Call(), lambda name, data: told.append((name, data)), listens=listens
    )
    assert [name for name, _ in told].count("searching") > 1
    assert "partial" not in [name for name, _ in told]
