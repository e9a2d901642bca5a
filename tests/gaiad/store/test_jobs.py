from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import Conflict, NotFound
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    databases = HomeDatabases(tmp_path)
    yield Jobs(databases, FrozenClock(datetime(2025, 12, 1, tzinfo=UTC)))
    databases.close()


async def test_a_job_goes_from_queued_to_done_with_its_result(jobs: Jobs) -> None:
    job = await jobs.create("ingest", "local", {"paths": ["/a"]}, total=3)
    assert (job.state, job.done, job.total) == ("queued", 0, 3)
    await jobs.start(job)
    await jobs.progress(job, 2, 3, "two", cursor={"next": 2})
    found = await jobs.get("local", job.job_id)
    assert (found.done, found.note) == (2, "two")
    (unfinished,) = await jobs.unfinished("local", ("ingest",))
    assert unfinished.payload == {"paths": ["/a"]}
    assert (unfinished.cursor, unfinished.attempts, unfinished.cancel_wanted) == ({"next": 2}, 1, False)
    assert await jobs.unfinished("local", ("reindex",)) == []
    await jobs.finish(job, "done", result={"accepted": 3})
    assert (await jobs.get("local", job.job_id)).result == {"accepted": 3}
    assert await jobs.unfinished("local") == []
    assert await jobs.counts(["local", "unknown"]) == {"done": 1}


async def test_a_stop_in_order_is_not_counted_as_an_attempt(jobs: Jobs) -> None:
    job = await jobs.create("ingest", "local", {})
    await jobs.start(job)
    await jobs.start(job)
    await jobs.interrupt(job)
    assert [one.attempts for one in await jobs.unfinished("local")] == [1]


async def test_a_key_seen_before_gives_the_earlier_job_within_its_tenant_only(jobs: Jobs) -> None:
    first = await jobs.create("ingest", "local", {}, idempotency_key="k")
    assert await jobs.create("ingest", "local", {"other": 1}, idempotency_key="k") == first
    assert (await jobs.create("ingest", "work", {}, idempotency_key="k")).job_id != first.job_id
    assert (await jobs.create("ingest", "local", {})).job_id != (await jobs.create("ingest", "local", {})).job_id


async def test_cancel_is_seen_by_the_owner_and_refused_once_it_ended(jobs: Jobs) -> None:
    job = await jobs.create("reindex", "local", {})
    await jobs.cancel("local", job.job_id)
    assert [one.cancel_wanted for one in await jobs.unfinished("local")] == [True]
    await jobs.finish(job, "cancelled")
    with pytest.raises(Conflict, match="already cancelled"):
        await jobs.cancel("local", job.job_id)
    for tenant in ("local", "unknown"):
        with pytest.raises(NotFound, match="nothing"):
            await jobs.get(tenant, "nothing")


async def test_the_newest_of_a_tenant_come_first(jobs: Jobs) -> None:
    made = [await jobs.create("ingest", tenant, {}) for tenant in ("a", "b", "a", "c")]
    assert [job.job_id for job in await jobs.newest("a")] == [made[2].job_id, made[0].job_id]
    assert [job.job_id for job in await jobs.newest("a", limit=1)] == [made[2].job_id]
    assert await jobs.newest("unknown") == []
