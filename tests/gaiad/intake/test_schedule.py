"""The timer: runs what was registered, and shows what failed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from gaiad.base.errors import ConfigError
from gaiad.intake.schedule import Schedule
from tests.makers.waiting import until


@pytest.fixture
async def notes() -> dict[str, str]:
    return {}


@pytest.fixture
async def schedule(notes: dict[str, str]) -> AsyncIterator[Schedule]:
    schedule = Schedule(notes.__setitem__)
    schedule.start()
    yield schedule
    schedule.stop()


async def test_an_interval_runs_again_and_a_failure_is_shown_until_it_works(
    schedule: Schedule, notes: dict[str, str]
) -> None:
    runs: asyncio.Queue[int] = asyncio.Queue()
    failures = iter([RuntimeError("no disk")])

    async def work() -> None:
        runs.put_nowait(1)
        for failure in failures:
            raise failure

    schedule.every("rescan", 1.0, work)
    await asyncio.wait_for(runs.get(), 30)
    await until(lambda: notes == {"schedule rescan": "rescan failed: no disk"})
    await asyncio.wait_for(runs.get(), 30)
    await until(lambda: notes == {"schedule rescan": ""})


async def test_the_daily_time_is_in_the_zone_given(schedule: Schedule) -> None:
    async def work() -> None: ...

    schedule.daily("sweep", "04:00", "Asia/Tokyo", work)
    schedule.daily("machine", "04:00", "", work)
    assert schedule._scheduler is not None
    jobs = {job.id: job for job in schedule._scheduler.get_jobs()}
    due: datetime = jobs["sweep"].next_run_time
    assert (due.hour, due.minute, str(due.tzinfo)) == (4, 0, "Asia/Tokyo")
    assert jobs["machine"].next_run_time.hour == 4


async def test_what_was_registered_before_the_start_runs_after_it(notes: dict[str, str]) -> None:
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    schedule = Schedule(notes.__setitem__)
    schedule.every("early", 0.0, work)
    schedule.start()
    await asyncio.wait_for(ran.wait(), 30)
    schedule.stop()


async def test_daily_work_can_also_run_at_the_start(schedule: Schedule) -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("ran")

    schedule.daily("later", "04:00", "", work)
    await asyncio.sleep(0.05)
    assert ran == []
    schedule.daily("now", "04:00", "", work, at_start=True)
    await until(lambda: ran == ["ran"])
    scheduler = schedule._scheduler
    assert scheduler is not None
    await until(lambda: {job.id for job in scheduler.get_jobs()} == {"later", "now"})  # the one at the start is done


@pytest.mark.parametrize("at", ["24:00", "4", "04:60", "four", "-1:00", ""])
async def test_a_time_that_is_none_is_refused(schedule: Schedule, at: str) -> None:
    async def work() -> None: ...

    with pytest.raises(ConfigError, match=r"schedule\.sweep_at"):
        schedule.daily("sweep", at, "", work)
