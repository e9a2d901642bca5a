"""The job runner: progress, cancel, idempotency, resume after a stop, and defects that stay visible."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.events import EventHub
from gaiad.service import jobs as jobs_module
from gaiad.service.jobs import JobRun, JobRunner
from gaiad.store.database import StorageFull
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs

CLOCK = FrozenClock(datetime(2025, 11, 30, tzinfo=UTC))


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[HomeDatabases]:
    databases = HomeDatabases(tmp_path)
    yield databases
    databases.close()


def make_runner(databases: HomeDatabases) -> JobRunner:
    return JobRunner(Jobs(databases, CLOCK), CLOCK, EventHub(CLOCK))


async def count_to_three(run: JobRun) -> dict[str, Any]:
    for step in range(int(run.cursor.get("step", 0)), 3):
        await run.report(step + 1, 3, f"step {step + 1}", {"step": step + 1}, [b'"line"'])
    return {"counted": 3}


async def test_a_job_runs_reports_and_ends(databases: HomeDatabases) -> None:
    runner = make_runner(databases)
    runner.register("count", count_to_three)
    job = await runner.wait(await runner.submit("count", "local", {}))
    assert (job.state, job.done, job.total, job.result) == ("done", 3, 3, {"counted": 3})
    assert await runner.jobs.log("local", job.job_id, after=1) == [b'"line"', b'"line"']


async def test_the_same_key_gives_the_same_job(databases: HomeDatabases) -> None:
    runner = make_runner(databases)
    runner.register("count", count_to_three)
    first = await runner.submit("count", "local", {}, key="abc")
    await runner.wait(first)
    again = await runner.submit("count", "local", {}, key="abc")
    other_tenant = await runner.submit("count", "work", {}, key="abc")
    await runner.wait(other_tenant)
    assert again.job_id == first.job_id != other_tenant.job_id
    assert again.state == "done"


async def test_a_cancelled_job_stops_at_its_next_step(databases: HomeDatabases) -> None:
    runner, entered = make_runner(databases), asyncio.Event()

    async def endless(run: JobRun) -> dict[str, Any]:
        while True:
            entered.set()
            await run.report(1, 0)

    runner.register("endless", endless)
    job = await runner.submit("endless", "local", {})
    await entered.wait()
    await runner.cancel("local", job.job_id)
    assert (await runner.wait(job)).state == "cancelled"
    with pytest.raises(Conflict, match="already cancelled"):
        await runner.cancel("local", job.job_id)


async def test_an_interrupted_job_resumes_from_its_cursor(tmp_path: Path) -> None:
    databases = HomeDatabases(tmp_path)
    runner, stuck = make_runner(databases), asyncio.Event()

    async def stop_after_one(run: JobRun) -> dict[str, Any]:
        await run.report(1, 3, cursor={"step": 1}, log=[b'"line"'])
        stuck.set()
        await asyncio.sleep(3600)
        raise AssertionError("unreachable")

    runner.register("count", stop_after_one)
    job = await runner.submit("count", "local", {})
    await stuck.wait()
    await runner.stop()
    databases.close()

    databases = HomeDatabases(tmp_path)
    runner = make_runner(databases)
    runner.register("count", count_to_three)
    assert await runner.resume(["local"]) == 1
    ended = await runner.wait(job)
    assert (ended.state, ended.done) == ("done", 3)
    assert len(await runner.jobs.log("local", job.job_id, after=0)) == 3
    databases.close()


@pytest.mark.parametrize(
    ("error", "note"),
    [(BadInput("no such folder"), "no such folder"), (ZeroDivisionError("x"), "unexpected ZeroDivisionError: x")],
)
async def test_a_failing_job_says_why(databases: HomeDatabases, error: Exception, note: str) -> None:
    runner = make_runner(databases)

    async def fail(run: JobRun) -> dict[str, Any]:
        raise error

    runner.register("fail", fail)
    job = await runner.wait(await runner.submit("fail", "local", {}))
    assert (job.state, job.note) == ("failed", note)


async def test_an_end_that_cannot_be_recorded_is_told_and_recorded_later(
    databases: HomeDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(run: JobRun) -> dict[str, Any]:
        raise StorageFull("the disk is full")

    runner = make_runner(databases)
    runner.register("full", full)
    with monkeypatch.context() as patch:
        patch.setattr(jobs_module, "_RECORD_AGAIN_S", 0.05)

        async def refuse(*_: Any) -> None:
            raise StorageFull("the disk is full")

        patch.setattr(runner.jobs, "finish", refuse)
        submitted = await runner.submit("full", "local", {})
        job = await asyncio.wait_for(runner.wait(submitted), 30)
        assert (job.state, job.note) == ("failed", "the disk is full")
        assert runner.unrecorded()
        assert (await runner.jobs.get("local", job.job_id)).state == "running"
        await asyncio.sleep(0.1)
    async with asyncio.timeout(30):
        while (await runner.jobs.get("local", job.job_id)).state != "failed":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert not runner.unrecorded()


async def test_an_unknown_job_is_not_found(databases: HomeDatabases) -> None:
    with pytest.raises(NotFound, match="job_nope"):
        await make_runner(databases).get("local", "job_nope")


async def test_old_logs_are_pruned_and_rows_stay(databases: HomeDatabases) -> None:
    runner = make_runner(databases)
    runner.register("count", count_to_three)
    jobs = [await runner.wait(await runner.submit("count", "local", {})) for _ in range(4)]
    await runner.jobs.prune("local", keep=1)
    logs = [len(await runner.jobs.log("local", job.job_id, after=0)) for job in jobs]
    assert logs == [0, 0, 0, 3]
    assert len(await runner.jobs.newest("local")) == 4
