from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.clock import FrozenClock
from gaiad.errors import Conflict, NotFound
from gaiad.ids import IdMaker
from gaiad.store import jobs as jobs_module
from gaiad.store.file import DatabaseFile
from gaiad.store.jobs import Jobs

ID = 0x55


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    clock = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
    file = DatabaseFile.open(tmp_path / "state.db", [jobs_module.MIGRATION_1], ID)
    yield Jobs(file, clock, IdMaker(clock))
    file.close()


def test_a_job_goes_from_queued_to_done_with_its_result(jobs: Jobs) -> None:
    job = jobs.create("ingest", "local", {"paths": ["/a"]}, total=3)
    assert (job.state, job.done, job.total) == ("queued", 0, 3)
    jobs.start(job.job_id)
    jobs.progress(job.job_id, 2, 3, "two", cursor={"next": 2})
    assert (jobs.get(job.job_id).done, jobs.get(job.job_id).note) == (2, "two")
    assert jobs.payload(job.job_id) == {"paths": ["/a"]}
    assert jobs.cursor(job.job_id) == {"next": 2}
    assert [found.job_id for found in jobs.unfinished("ingest")] == [job.job_id]
    jobs.finish(job.job_id, "done", result={"accepted": 3})
    assert jobs.get(job.job_id).result == {"accepted": 3}
    assert jobs.unfinished("ingest") == []
    assert jobs.counts() == {"done": 1}


def test_a_key_seen_before_gives_the_earlier_job_within_its_tenant_only(jobs: Jobs) -> None:
    first = jobs.create("ingest", "local", {}, idempotency_key="k")
    assert jobs.create("ingest", "local", {"other": 1}, idempotency_key="k") == first
    assert jobs.create("ingest", "work", {}, idempotency_key="k").job_id != first.job_id
    assert jobs.create("ingest", "local", {}).job_id != jobs.create("ingest", "local", {}).job_id


def test_cancel_is_seen_by_the_owner_and_refused_once_it_ended(jobs: Jobs) -> None:
    job = jobs.create("reindex", "local", {})
    assert not jobs.cancel_wanted(job.job_id)
    jobs.cancel(job.job_id)
    assert jobs.cancel_wanted(job.job_id)
    jobs.finish(job.job_id, "cancelled")
    with pytest.raises(Conflict, match="already cancelled"):
        jobs.cancel(job.job_id)
    with pytest.raises(NotFound, match="nothing"):
        jobs.get("nothing")


def test_the_newest_come_first_and_of_the_named_tenants_only(jobs: Jobs) -> None:
    made = [jobs.create("ingest", tenant, {}) for tenant in ("a", "b", "a", "c")]
    assert [job.job_id for job in jobs.newest()] == [job.job_id for job in reversed(made)]
    assert [job.job_id for job in jobs.newest(("a",), limit=1)] == [made[2].job_id]
    assert jobs.newest(()) == []
