"""Research that goes on by itself: it is followed by its id, can be broken off, is bounded, and outlives a restart."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from gaiad.base.clock import SystemClock
from gaiad.base.config import Config
from gaiad.base.errors import Cancelled, Conflict, NotFound, Unavailable
from gaiad.base.events import EventHub
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.payload.kept_runs import KIND, payload_of
from gaiad.service.jobs import JobRunner
from gaiad.service.research import AT_ONCE, ATTEMPTS, ResearchService
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs
from gaiad.wire.schemas import ResearchRequest, ResearchResult
from gaiad.wire.status import Job
from tests.makers.waiting import until

WAITED_FOR = "a question that somebody waits for"


class SlowResearcher:
    """Searches until its call is cancelled, as the researcher does between two steps."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.asked: list[ResearchRequest] = []
        self.calls: list[RequestContext] = []

    async def research(
        self,
        request: ResearchRequest,
        call: RequestContext,
        tell: Any,
        *,
        research_id: str,
        goes_on: bool,
        listens: Any,
        thinker: Any,
    ) -> ResearchResult:
        assert goes_on == (request.query != WAITED_FOR)
        assert thinker is None, "nobody said with which model"
        self.asked.append(request)
        self.calls.append(call)
        tell("searching", {"query": request.query})
        while True:
            await asyncio.sleep(0.01)
            call.check(self.clock.monotonic())

    async def must_be_askable(self, request: ResearchRequest, call: RequestContext) -> None:
        """It can."""


class Opened(ResearchService):
    """A service over a home of its own, with a researcher that searches until it is broken off."""

    def __init__(self, home: Path, config: Config) -> None:
        clock = SystemClock()
        self.databases = HomeDatabases(home)
        self.jobs = Jobs(self.databases, clock)
        self.runner = JobRunner(self.jobs, clock, EventHub(clock))
        archive = cast(Any, None)
        super().__init__(
            self.databases, config.research, clock, archive, lambda _config: None, self.runner, Metrics(), 60.0
        )
        self.researcher = cast(Any, SlowResearcher())

    @property
    def under_way(self) -> int:
        return len(self.runner.running)

    async def resume(self) -> int:
        return await self.runner.resume(self.databases.tenants())

    async def crashed(self, research_id: str, attempts: int = 1, tenant: str = "local") -> Job:
        """A run as a daemon that died under it so often leaves it."""
        request = ResearchRequest(query="who?")
        job = await self.jobs.create(KIND, tenant, payload_of(request, RequestContext(tenant)), job_id=research_id)
        for _ in range(attempts):
            await self.jobs.start(job)
        return job

    async def close(self) -> None:
        await self.runner.stop()
        await super().close()
        self.databases.close()


@pytest.fixture
async def researching(tmp_path: Path, config: Config) -> AsyncIterator[Opened]:
    made = Opened(tmp_path, config)
    yield made
    await made.close()


async def begin(researching: Opened, call: RequestContext) -> str:
    return await researching.start(ResearchRequest(query="who?"), call)


async def told(researching: Opened, research_id: str, tenant: str = "local") -> list[str]:
    return [event.name async for event in await researching.follow(research_id, 0, RequestContext(tenant))]


async def test_a_begun_run_is_followed_from_its_first_step_and_ends_when_it_is_broken_off(
    researching: Opened,
) -> None:
    research_id = await begin(researching, RequestContext("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.05)
    assert not following.done()
    assert await researching.cancel(research_id, RequestContext("local"))
    assert await asyncio.wait_for(following, 30) == ["started", "searching", "error"]
    await until(lambda: not researching.under_way)
    assert not await researching.cancel(research_id, RequestContext("local"))
    kept = await researching.run(research_id, RequestContext("local"))
    assert (kept.run.status, kept.error) == ("cancelled", "the caller went away")


async def test_a_run_that_somebody_waits_for_can_be_broken_off(researching: Opened) -> None:
    call, told = RequestContext("local"), list[tuple[str, Any]]()
    asking = asyncio.ensure_future(
        researching.research(ResearchRequest(query=WAITED_FOR), call, lambda name, data: told.append((name, data)))
    )
    await until(lambda: len(told) == 2)
    research_id = told[0][1]["research_id"]
    assert (researching.ids_under_way(["local"]), researching.ids_under_way(["work"])) == ([research_id], [])
    with pytest.raises(NotFound):
        await researching.cancel(research_id, RequestContext("work"))
    assert await researching.cancel(research_id, RequestContext("local"))
    with pytest.raises(Cancelled):
        await asyncio.wait_for(asking, 60)
    assert researching.ids_under_way(["local"]) == []
    assert not await researching.cancel(research_id, RequestContext("local"))


async def test_a_run_of_another_tenant_cannot_be_broken_off(researching: Opened) -> None:
    research_id = await begin(researching, RequestContext("local"))
    with pytest.raises(NotFound):
        await researching.cancel(research_id, RequestContext("work"))
    assert await researching.cancel(research_id, RequestContext("local"))


async def test_more_than_so_many_at_once_are_refused_until_one_ends(researching: Opened) -> None:
    begun = await asyncio.gather(*(begin(researching, RequestContext("local")) for _ in range(AT_ONCE)))
    with pytest.raises(Unavailable, match="research runs are already running"):
        await begin(researching, RequestContext("local"))
    await researching.cancel(begun[0], RequestContext("local"))
    await until(lambda: researching.under_way < AT_ONCE)
    await begin(researching, RequestContext("local"))


async def test_a_run_under_way_is_listed_and_shown_and_cannot_be_forgotten(researching: Opened) -> None:
    research_id = await begin(researching, RequestContext("local"))
    assert researching.ids_under_way(["local"]) == [research_id]
    (row,) = await researching.newest(RequestContext("local"), 9)
    assert (row.research_id, row.status, row.outcome, row.query) == (research_id, "in_progress", "", "who?")
    assert await researching.newest(RequestContext("local"), 9, to_review=True) == []
    shown = await researching.run(research_id, RequestContext("local"))
    assert (shown.run, shown.result, shown.payload.metadata.status) == (row, None, "in_progress")
    with pytest.raises(Conflict, match="cancel it first: gaiad research cancel"):
        await researching.forget(research_id, RequestContext("local"))


async def test_a_stop_interrupts_what_goes_on_by_itself_and_the_next_start_goes_on_with_it(
    researching: Opened, tmp_path: Path, config: Config
) -> None:
    research_id = await begin(researching, RequestContext("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.02)
    await asyncio.wait_for(researching.close(), 30)
    assert (await asyncio.wait_for(following, 30))[-1] == "interrupted"
    for _ in range(ATTEMPTS + 1):  # a stop in order does not count
        again = Opened(tmp_path, config)
        assert await again.resume() == 1
        following = asyncio.ensure_future(told(again, research_id))
        slow = cast(SlowResearcher, again.researcher)
        await until(lambda asked=slow.asked: bool(asked))  # type: ignore[misc]
        assert slow.asked[0].now, "yesterday is the day before it was asked"
        await again.close()
        assert await following == ["started", "resumed", "searching", "interrupted"]


async def test_what_the_channel_of_a_run_did_not_see_it_does_not_see_after_a_restart_either(
    researching: Opened, tmp_path: Path, config: Config
) -> None:
    await begin(researching, RequestContext("local").without(["secret"], ["secret", "private"]))
    await researching.close()
    again = Opened(tmp_path, config)
    await again.resume()
    slow = cast(SlowResearcher, again.researcher)
    await until(lambda: bool(slow.calls))
    await again.close()
    assert slow.calls[0].hidden == frozenset({"secret"})
    assert slow.calls[0].guarded == frozenset({"secret", "private"})


async def test_a_reload_changes_what_is_kept(researching: Opened, config: Config) -> None:
    for _ in range(2):
        await researching.cancel(await begin(researching, RequestContext("local")), RequestContext("local"))
        await until(lambda: not researching.under_way)
    await researching.prune()
    assert len(await researching.newest(RequestContext("local"), 9)) == 2
    researching.researcher = Researcher(cast(Any, None), SystemClock(), config.research)
    researching.use_config(structs.replace(config.research, keep_runs_max=1))
    await researching.prune()
    assert len(await researching.newest(RequestContext("local"), 9)) == 1


async def test_a_run_that_the_daemon_dies_under_again_and_again_is_given_up(researching: Opened) -> None:
    await researching.crashed("res_1", ATTEMPTS)
    await researching.resume()
    await until(lambda: not researching.under_way)
    kept = await researching.run("res_1", RequestContext("local"))
    assert kept.run.status == "failed"
    assert kept.error == "the daemon stopped during it 3 times; ask again: gaiad ask QUESTION"
    *_, end = [event async for event in await researching.follow("res_1", 0, RequestContext("local"))]
    assert end.name == "error"


async def test_what_was_broken_off_before_a_crash_stays_broken_off(researching: Opened) -> None:
    job = await researching.crashed("res_1")
    await researching.jobs.cancel("local", job.job_id)
    await researching.resume()
    await until(lambda: not researching.under_way)
    assert (await researching.run("res_1", RequestContext("local"))).run.status == "cancelled"


async def test_a_run_whose_caller_goes_away_while_it_is_written_goes_on_all_the_same(
    researching: Opened,
) -> None:
    file = researching.databases.file("local")
    reached, go_on = threading.Event(), threading.Event()
    file.write(lambda connection: connection.execute("SELECT 1"))
    blocking = asyncio.ensure_future(asyncio.to_thread(file.write, lambda _: (reached.set(), go_on.wait(60))))
    await asyncio.to_thread(reached.wait, 60)
    asked = asyncio.ensure_future(begin(researching, RequestContext("local")))
    await asyncio.sleep(0.05)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    go_on.set()
    await blocking
    await until(lambda: researching.under_way == 1)
    (row,) = await researching.newest(RequestContext("local"), 9)
    assert await researching.cancel(row.research_id, RequestContext("local"))
    await until(lambda: not researching.under_way)
    await researching.forget(row.research_id, RequestContext("local"))


async def test_a_run_that_nothing_goes_on_with_can_be_broken_off_and_forgotten(researching: Opened) -> None:
    await researching.crashed("res_1")
    with pytest.raises(Conflict):
        await researching.forget("res_1", RequestContext("local"))
    assert await researching.cancel("res_1", RequestContext("local"))
    assert (await researching.run("res_1", RequestContext("local"))).run.status == "cancelled"
    assert not await researching.cancel("res_1", RequestContext("local"))
    assert await researching.resume() == 0
    await researching.forget("res_1", RequestContext("local"))
    assert await researching.jobs.newest("local") == [], "its question is gone with it"


async def test_what_cannot_be_kept_is_not_told_to_be_broken_off(
    researching: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    await researching.crashed("res_1")

    async def full(*_: Any) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(researching.databases, "write", full)
    with pytest.raises(Unavailable, match="the disk is full"):
        await researching.cancel("res_1", RequestContext("local"))
    assert (await researching.run("res_1", RequestContext("local"))).run.status == "in_progress"


@pytest.mark.parametrize(
    ("request_kept", "query"),
    [(b'{"request": {"query": "who?", "depth": 3}}', "who?"), (b'{"request": {"query": 5}}', ""), (b"{}", "")],
    ids=["a field of another release", "no question", "nothing"],
)
async def test_a_run_whose_request_cannot_be_read_ends_as_failed_and_costs_the_others_nothing(
    researching: Opened, request_kept: bytes, query: str
) -> None:
    for research_id in ("res_1", "res_2"):
        await researching.crashed(research_id)
    change = "UPDATE jobs SET payload = ? WHERE job_id = 'res_1'"
    await researching.databases.write("local", lambda connection: connection.execute(change, (request_kept,)).rowcount)
    assert [row.status for row in await researching.newest(RequestContext("local"), 9)] == ["in_progress"] * 2
    assert await researching.resume() == 2
    await until(lambda: researching.under_way == 1)
    kept = await researching.run("res_1", RequestContext("local"))
    assert (kept.run.status, kept.run.query) == ("failed", query)
    assert kept.error.startswith("this version of gaiad cannot read the stored request (")
