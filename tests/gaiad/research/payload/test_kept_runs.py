"""Runs in a real database file: kept whole, found again, listed, and what happens when they cannot be kept."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import Conflict, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.payload import kept_runs
from gaiad.research.payload.kept_runs import KIND, KeptRuns, payload_of
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs
from gaiad.wire.schemas import PacketSummary, ResearchRequest, ResearchResult

CONFIG = load_config(environment={}).research
QUESTION = "Where is the float switch wired?"
DOUBTFUL = "How did the float switch evolve?"


class House:
    """A researcher over a small archive that keeps its runs in `tmp_path`."""

    def __init__(self, folder: Path, archive: Any) -> None:
        self.archive = archive
        self.clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
        self.files = HomeDatabases(folder)
        self.runs = KeptRuns(archive, self.files, self.clock)

    async def begin(self) -> str:
        """The id of a run that is under way."""
        research_id = self.runs.new_id()
        payload = payload_of(ResearchRequest(query=QUESTION), RequestContext())
        await Jobs(self.files, self.clock).create(KIND, "local", payload, job_id=research_id)
        return research_id

    async def ask(self, query: str, tenant: str = "local") -> ResearchResult:
        self.clock.advance(1)
        researcher = Researcher(self.archive, self.clock, CONFIG, self.runs)
        return await researcher.research(ResearchRequest(query=query, tenant=tenant), RequestContext(tenant=tenant))


@pytest.fixture
async def house(tmp_path: Path, memory: Any, page: Any) -> AsyncIterator[House]:
    pages = [page("The float switch is wired in series."), page("A pump hums.", "tp-2")]
    made = House(tmp_path / "research", memory(pages))
    yield made
    made.files.close()


async def test_a_run_is_found_again_as_it_was(house: House) -> None:
    result = await house.ask(QUESTION)
    found = await house.runs.run(result.research_id, RequestContext())
    assert found.result == result
    assert found.error == ""
    assert found.run.started_at == "2025-12-15T12:00:01Z"
    assert (found.run.status, found.run.outcome, found.run.sources) == ("complete", "SUCCESS", 1)
    assert found.payload.metadata.status == "complete"


async def test_runs_come_newest_first_and_only_of_their_tenant(house: House) -> None:
    first, second = await house.ask(QUESTION), await house.ask(QUESTION)
    foreign = await house.ask(QUESTION, "work")
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 9)] == [
        second.research_id,
        first.research_id,
    ]
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 1)] == [second.research_id]
    assert [row.tenant for row in await house.runs.newest(RequestContext("work"), 9)] == ["work"]
    assert await house.runs.newest(RequestContext("nobody"), 9) == []
    with pytest.raises(NotFound, match="`gaiad research list` shows the newest"):
        await house.runs.run(foreign.research_id, RequestContext())
    with pytest.raises(NotFound, match="ids begin with res_"):
        await house.runs.run("tp-1", RequestContext())


async def test_doubtful_runs_are_to_be_reviewed_and_found_by_their_index(house: House) -> None:
    sure, doubtful, nothing = await house.ask(QUESTION), await house.ask(DOUBTFUL), await house.ask("Who is Zebulon?")
    assert (sure.status, nothing.status) == ("SUCCESS", "NOT_FOUND")
    assert doubtful.status == "PARTIAL"
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 9, to_review=True)] == [
        doubtful.research_id
    ]

    def plan(connection: sqlite3.Connection) -> str:
        where = f"{kept_runs._TO_REVIEW} ORDER BY research_id DESC"
        query = f"EXPLAIN QUERY PLAN SELECT query FROM research_runs WHERE {where}"
        return " ".join(str(row[-1]) for row in connection.execute(query))

    assert "runs_to_review" in await house.files.read("local", plan, "")


async def test_a_run_that_was_reviewed_is_on_the_list_no_more_until_it_is_put_back(house: House) -> None:
    doubtful, other = await house.ask(DOUBTFUL), await house.ask(DOUBTFUL)
    await house.runs.review(doubtful.research_id, RequestContext(), done=True)
    house.clock.advance(60)
    await house.runs.review(doubtful.research_id, RequestContext(), done=True)  # a second time changes nothing
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 9, to_review=True)] == [
        other.research_id
    ]
    assert [row.reviewed_at for row in await house.runs.newest(RequestContext(), 9)] == ["", "2025-12-15T12:00:02Z"]
    assert (await house.runs.run(doubtful.research_id, RequestContext())).run.reviewed_at == "2025-12-15T12:00:02Z"
    await house.runs.review(doubtful.research_id, RequestContext(), done=False)
    assert len(await house.runs.newest(RequestContext(), 9, to_review=True)) == 2
    await house.runs.review(other.research_id, RequestContext(), done=True)
    await house.runs.forget(other.research_id, RequestContext())
    with pytest.raises(NotFound):
        await house.runs.review(other.research_id, RequestContext(), done=True)
    with pytest.raises(NotFound):
        await house.runs.review(doubtful.research_id, RequestContext("work"), done=True)


async def test_a_run_under_way_cannot_be_reviewed(house: House) -> None:
    research_id = await house.begin()
    with pytest.raises(Conflict, match="nothing to review yet"):
        await house.runs.review(research_id, RequestContext(), done=True)


async def test_a_source_is_read_whole_and_says_when_it_was_revised(house: House) -> None:
    result = await house.ask(QUESTION)
    text = await house.runs.source(result.research_id, "src_001", RequestContext())
    assert (text.content, text.packet_id, text.changed) == ("The float switch is wired in series.", "tp-1", False)
    summaries = house.archive.packet_summaries

    async def revised(packet_ids: list[str], call: RequestContext) -> list[PacketSummary]:
        return [replace(summary, sha256="other") for summary in await summaries(packet_ids, call)]

    house.archive.packet_summaries = revised
    assert (await house.runs.source(result.research_id, "src_001", RequestContext())).changed


async def test_a_source_that_is_not_there_is_not_found(house: House) -> None:
    result = await house.ask(QUESTION)
    with pytest.raises(NotFound, match="has no source 'src_009'"):
        await house.runs.source(result.research_id, "src_009", RequestContext())
    with pytest.raises(NotFound, match="no run is called 'res_none'"):
        await house.runs.source("res_none", "src_001", RequestContext())

    async def gone(packet_ids: list[str], call: RequestContext) -> list[PacketSummary]:
        raise NotFound("no such packet")

    house.archive.packet_summaries = gone
    with pytest.raises(NotFound, match="'tp-1' of src_001 is no longer in the archive"):
        await house.runs.source(result.research_id, "src_001", RequestContext())


async def test_a_run_that_cannot_be_written_is_answered_all_the_same(house: House) -> None:
    async def full(tenant: str, work: Any) -> None:
        raise Unavailable("the disk is full")

    house.files.write = full  # type: ignore[method-assign, assignment]
    result = await house.ask(QUESTION)
    assert result.status == "SUCCESS"
    assert (result.research_id, result.degraded) == ("", ["the run was not kept: the disk is full"])


async def test_a_defect_in_the_payload_is_told_and_costs_no_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("src_001")

    monkeypatch.setattr(kept_runs, "build_payload", broken)
    result = await house.ask(QUESTION)
    assert result.status == "SUCCESS"
    assert result.degraded == ["the run was not kept: unexpected KeyError: 'src_001'"]


async def test_a_packet_that_is_gone_by_then_is_no_source(house: House) -> None:
    async def gone(packet_id: str, focus: str, call: RequestContext) -> None:
        raise NotFound("no such packet")

    house.archive.section_pages = gone
    result = await house.ask(QUESTION)
    assert (await house.runs.run(result.research_id, RequestContext())).payload.sources == []


async def test_what_a_run_took_is_kept_with_it(house: House) -> None:
    result = await house.ask(DOUBTFUL)
    took = (await house.runs.run(result.research_id, RequestContext())).account
    assert took.rounds == result.iterations_used <= took.searches
    assert took.pages_found >= took.pages_quoted == took.packets_cited == 1
    assert (took.model_calls, took.prompt_tokens, took.reply_tokens) == (0, 0, 0)
    assert took.answer_tokens >= len(result.answer) / 3
    assert took.took_ms == result.took_ms


async def test_a_forgotten_run_is_gone_with_its_sources(house: House) -> None:
    kept, gone = await house.ask(QUESTION), await house.ask(QUESTION)
    await house.runs.forget(gone.research_id, RequestContext())
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 9)] == [kept.research_id]
    with pytest.raises(NotFound):
        await house.runs.source(gone.research_id, "src_001", RequestContext())
    assert (await house.runs.source(kept.research_id, "src_001", RequestContext())).packet_id == "tp-1"
    with pytest.raises(NotFound):
        await house.runs.forget(gone.research_id, RequestContext())
    with pytest.raises(NotFound):
        await house.runs.forget(kept.research_id, RequestContext("work"))


async def test_runs_go_with_their_age_and_beyond_their_number(house: House) -> None:
    old = await house.ask(DOUBTFUL)  # to review, which saves nothing
    house.clock.advance(3 * 86_400)
    ids = [(await house.ask(QUESTION)).research_id for _ in range(3)]
    foreign = await house.ask(QUESTION, "work")
    assert await house.runs.prune("local", 0, 0) == 0
    assert await house.runs.prune("local", 4, 4) == 0
    assert await house.runs.prune("local", 36_500, 0) == 0, "a hundred years"
    assert await house.runs.prune("local", 2, 0) == 1
    with pytest.raises(NotFound):
        await house.runs.run(old.research_id, RequestContext())
    assert await house.runs.prune("local", 2, 2) == 1
    assert [row.research_id for row in await house.runs.newest(RequestContext(), 9)] == [ids[2], ids[1]]
    assert await house.runs.prune("local", 0, 1) == 1
    assert [row.research_id for row in await house.runs.newest(RequestContext("work"), 9)] == [foreign.research_id]


async def test_what_is_under_way_is_not_pruned_and_gives_way_to_its_end(house: House) -> None:
    request = ResearchRequest(query=QUESTION)
    research_id = await house.begin()
    (pending,) = await house.runs.pending.all(RequestContext())
    house.clock.advance(9 * 86_400)
    assert await house.runs.prune("local", 1, 1) == 0
    assert (await house.runs.newest(RequestContext(), 9))[0].status == "in_progress"
    researcher = Researcher(house.archive, house.clock, CONFIG, house.runs)
    await researcher.research(request, RequestContext(), research_id=research_id)
    assert await house.runs.pending.all(RequestContext()) == []
    assert [row.status for row in await house.runs.newest(RequestContext(), 9)] == ["complete"]
    assert await house.runs.break_off(pending, Unavailable("too late"), RequestContext()) == ""
    assert (await house.runs.run(research_id, RequestContext())).run.status == "complete"
