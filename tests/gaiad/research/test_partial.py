"""Answers that improve: told after a round that another one follows, to who listens, and to nobody else."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.clock import FrozenClock
from gaiad.config import ResearchConfig
from gaiad.ports import Call
from gaiad.research.citations import verifies
from gaiad.research.loop import Researcher
from gaiad.schemas import Page, ResearchRequest, ResearchResult

CONFIG = ResearchConfig(max_iterations=5, max_pages=8, max_sources=5, expand_days=30)
QUESTION = "Where is the float switch wired and who paid the plumber?"
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
    texts = ("The float switch is wired in series.", "A committee hums.", "The float switch was moved to the basin.")
    return Counting(memory([page(text, f"tp-{number}") for number, text in enumerate(texts, start=1)]))


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


async def test_partial_answers_get_no_worse_and_no_two_are_the_same(archive: Counting) -> None:
    partials = [data for name, data in (await run(archive, listens=True))[1] if name == "partial"]
    sure = [data["confidence"] for data in partials]
    assert sure == sorted(sure)
    assert len({data["answer"] for data in partials}) == len(partials)


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
