"""Steps are known by what they ask; what is done is not done again, what may not be repeated is refused."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.journal import journalled, journalled_reply
from gaiad.base.ports import RequestContext
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs, RunJournal
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.schemas import PacketFilter, ResearchRequest

CLOCK = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))


@pytest.fixture
def databases(tmp_path: Path) -> HomeDatabases:
    return HomeDatabases(tmp_path / "home")


def life(databases: HomeDatabases, run: str = "run") -> RunJournal:
    return RunJournal(databases, CLOCK, "local", run)


async def test_a_step_that_was_done_gives_its_result_in_the_next_life(databases: HomeDatabases) -> None:
    done: list[str] = []

    async def work() -> ResearchRequest:
        done.append("work")
        return ResearchRequest(query=f"found {len(done)}")

    async def ask(journal: RunJournal, limit: int) -> str:
        return (await journalled(journal, "search", PacketFilter(limit=limit), ResearchRequest, work)).query

    first, second = life(databases), life(databases)
    assert [await ask(first, limit) for limit in (1, 2, 1)] == ["found 1", "found 2", "found 3"]
    assert [await ask(second, limit) for limit in (1, 1, 2)] == ["found 1", "found 3", "found 2"]
    assert await ask(life(databases, "another"), 1) == "found 4"
    assert await second.steps_done() == 3


async def test_a_step_that_was_in_flight_is_done_again(databases: HomeDatabases) -> None:
    key, known = await life(databases).begin("search", b"x")
    assert known is None
    assert await life(databases).begin("search", b"x") == (key, None)
    await life(databases).end(key, b"found")
    assert await life(databases).begin("search", b"x") == (key, b"found")


async def test_a_reply_is_asked_for_once_though_its_reader_left_in_the_middle(databases: HomeDatabases) -> None:
    asked: list[str] = []
    request = GenerateRequest(max_tokens=4)
    reply = Generated(
        text="a b", reason="end", stop="", prompt_tokens=1, cached_tokens=0, tokens=2, seed=0, fingerprint="f",
        queue_ms=0.0, prefill_ms=0.0, decode_ms=0.0,
    )  # fmt: skip

    async def generate() -> AsyncGenerator[TextDelta | Generated, None]:
        asked.append("model")
        yield TextDelta(text="a", tokens=1)
        yield reply

    cut_off = journalled_reply(life(databases), "prime", request, generate)
    assert await anext(cut_off) == TextDelta(text="a", tokens=1)
    await cut_off.aclose()
    for _ in range(2):
        *_, last = [piece async for piece in journalled_reply(life(databases), "prime", request, generate)]
        assert last == reply
    assert asked == ["model", "model"]


async def test_the_journal_goes_with_the_end_of_its_job_and_progress_renews_its_attempts(
    databases: HomeDatabases,
) -> None:
    jobs = Jobs(databases, CLOCK)
    job = await jobs.create("research", "local", {}, job_id="run")
    for _ in range(2):
        await jobs.start(job)
    key, _ = await life(databases).begin("search", b"x")
    await life(databases).end(key, b"y")
    (unfinished,) = await jobs.unfinished("local")
    assert unfinished.attempts == 1
    await jobs.finish(job, "done")
    assert await life(databases).steps_done() == 0


def test_a_call_hands_its_journal_on() -> None:
    journal = life(HomeDatabases(Path("nowhere")))
    call = RequestContext().journalled(journal).until(5.0).without({"x"}, set())
    assert call.journal is journal
    assert RequestContext().journal is None
