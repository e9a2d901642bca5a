"""Research that goes on by itself: it is followed by its id, can be broken off, is bounded, and outlives a restart."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from gaiad.clock import SystemClock
from gaiad.config import Config
from gaiad.errors import Cancelled, Conflict, NotFound, Unavailable
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.research.payload.begun_runs import ATTEMPTS, BegunRuns
from gaiad.research.payload.kept_runs import APPLICATION_ID, MIGRATIONS
from gaiad.researching import AT_ONCE, Researching, StartedRun
from gaiad.schemas import ResearchRequest, ResearchResult
from tests.makers.waiting import until

WAITED_FOR = "a question that somebody waits for"


class SlowResearcher:
    """Searches until its call is cancelled, as the researcher does between two steps."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.asked: list[ResearchRequest] = []
        self.calls: list[Call] = []

    async def research(
        self,
        request: ResearchRequest,
        call: Call,
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

    async def must_be_askable(self, request: ResearchRequest, call: Call) -> None:
        """It can."""


def opened(home: Path, config: Config) -> Researching:
    made = Researching(home, config.research, SystemClock(), cast(Any, None), lambda _config: None)
    made.researcher = cast(Any, SlowResearcher())
    return made


@pytest.fixture
async def researching(tmp_path: Path, config: Config) -> AsyncIterator[Researching]:
    made = opened(tmp_path, config)
    yield made
    await made.close()


async def begin(researching: Researching, call: Call) -> str:
    return await researching.start(ResearchRequest(query="who?"), call, run_of(researching))


def run_of(researching: Researching) -> StartedRun:
    async def run(request: ResearchRequest, call: Call, research_id: str) -> ResearchResult:
        return await researching.research(request, call, research_id=research_id)

    return run


async def told(researching: Researching, research_id: str, tenant: str = "local") -> list[str]:
    return [event.name async for event in await researching.follow(research_id, 0, Call(tenant))]


async def test_a_begun_run_is_followed_from_its_first_step_and_ends_when_it_is_broken_off(
    researching: Researching,
) -> None:
    research_id = await begin(researching, Call("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.05)
    assert not following.done()
    assert await researching.cancel(research_id, Call("local"))
    assert await asyncio.wait_for(following, 30) == ["started", "searching", "error"]
    await until(lambda: not researching.under_way)
    assert not await researching.cancel(research_id, Call("local"))
    kept = await researching.run(research_id, Call("local"))
    assert (kept.run.status, kept.error) == ("cancelled", "the caller went away")


async def test_a_run_that_somebody_waits_for_can_be_broken_off(researching: Researching) -> None:
    call, told = Call("local"), list[tuple[str, Any]]()
    asking = asyncio.ensure_future(
        researching.research(ResearchRequest(query=WAITED_FOR), call, lambda name, data: told.append((name, data)))
    )
    await until(lambda: len(told) == 2)
    research_id = told[0][1]["research_id"]
    assert (researching.ids_under_way(["local"]), researching.ids_under_way(["work"])) == ([research_id], [])
    with pytest.raises(NotFound):
        await researching.cancel(research_id, Call("work"))
    assert await researching.cancel(research_id, Call("local"))
    with pytest.raises(Cancelled):
        await asyncio.wait_for(asking, 60)
    assert researching.ids_under_way(["local"]) == []
    assert not await researching.cancel(research_id, Call("local"))


async def test_a_run_of_another_tenant_cannot_be_broken_off(researching: Researching) -> None:
    research_id = await begin(researching, Call("local"))
    with pytest.raises(NotFound):
        await researching.cancel(research_id, Call("work"))
    assert await researching.cancel(research_id, Call("local"))


async def test_more_than_so_many_at_once_are_refused_until_one_ends(researching: Researching) -> None:
    begun = await asyncio.gather(*(begin(researching, Call("local")) for _ in range(AT_ONCE)))
    with pytest.raises(Unavailable, match="research runs are under way"):
        await begin(researching, Call("local"))
    await researching.cancel(begun[0], Call("local"))
    await until(lambda: researching.under_way < AT_ONCE)
    await begin(researching, Call("local"))


async def test_a_run_under_way_is_listed_and_shown_and_cannot_be_forgotten(researching: Researching) -> None:
    research_id = await begin(researching, Call("local"))
    assert researching.ids_under_way(["local"]) == [research_id]
    (row,) = await researching.newest(Call("local"), 9)
    assert (row.research_id, row.status, row.outcome, row.query) == (research_id, "in_progress", "", "who?")
    assert await researching.newest(Call("local"), 9, to_review=True) == []
    shown = await researching.run(research_id, Call("local"))
    assert (shown.run, shown.result, shown.payload.metadata.status) == (row, None, "in_progress")
    with pytest.raises(Conflict, match="`gaiad research cancel"):
        await researching.forget(research_id, Call("local"))


async def test_a_stop_interrupts_what_goes_on_by_itself_and_the_next_start_goes_on_with_it(
    researching: Researching, tmp_path: Path, config: Config
) -> None:
    research_id = await begin(researching, Call("local"))
    following = asyncio.ensure_future(told(researching, research_id))
    await asyncio.sleep(0.02)
    await asyncio.wait_for(researching.close(), 30)
    assert (await asyncio.wait_for(following, 30))[-1] == "interrupted"
    for _ in range(ATTEMPTS + 1):  # a stop in order does not count
        again = opened(tmp_path, config)
        assert await again.resume(run_of(again), 60.0) == []
        assert again.under_way == 1
        following = asyncio.ensure_future(told(again, research_id))
        slow = cast(SlowResearcher, again.researcher)
        await until(lambda asked=slow.asked: bool(asked))  # type: ignore[misc]
        assert slow.asked[0].now, "yesterday is the day before it was asked"
        await again.close()
        assert await following == ["started", "resumed", "searching", "interrupted"]


async def test_what_the_channel_of_a_run_did_not_see_it_does_not_see_after_a_restart_either(
    researching: Researching, tmp_path: Path, config: Config
) -> None:
    await begin(researching, Call("local").without(["secret"], ["secret", "private"]))
    await researching.close()
    again = opened(tmp_path, config)
    await again.resume(run_of(again), 60.0)
    slow = cast(SlowResearcher, again.researcher)
    await until(lambda: bool(slow.calls))
    await again.close()
    assert slow.calls[0].hidden == frozenset({"secret"})
    assert slow.calls[0].guarded == frozenset({"secret", "private"})


async def test_a_reload_changes_what_is_kept(researching: Researching, config: Config) -> None:
    for _ in range(2):
        await researching.cancel(await begin(researching, Call("local")), Call("local"))
        await until(lambda: not researching.under_way)
    await researching.prune()
    assert len(await researching.newest(Call("local"), 9)) == 2
    researching.researcher = Researcher(cast(Any, None), SystemClock(), config.research)
    researching.use_config(structs.replace(config.research, keep_runs_max=1))
    await researching.prune()
    assert len(await researching.newest(Call("local"), 9)) == 1


async def test_a_run_that_the_daemon_dies_under_again_and_again_is_given_up(
    tmp_path: Path, config: Config, researching: Researching
) -> None:
    files = TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID)
    begun = BegunRuns(files, SystemClock())
    await begun.begin("res_1", ResearchRequest(query="who?"), Call("local"))
    for attempt in range(2, ATTEMPTS + 1):  # as a crash leaves it
        await begun.count_attempt("res_1", Call("local"), 1)
        assert (await begun.all(Call("local")))[0].attempts == attempt
    await files.close()
    await researching.resume(run_of(researching), 60.0)
    assert researching.under_way == 0
    kept = await researching.run("res_1", Call("local"))
    assert kept.run.status == "failed"
    assert kept.error == "the daemon ended in the middle of it 3 times; ask again: gaiad ask QUESTION"
    (end,) = [event async for event in await researching.follow("res_1", 0, Call("local"))]
    assert end.name == "error"


async def test_what_was_broken_off_before_a_crash_stays_broken_off(tmp_path: Path, researching: Researching) -> None:
    files = TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID)
    begun = BegunRuns(files, SystemClock())
    await begun.begin("res_1", ResearchRequest(query="who?"), Call("local"))
    await begun.cancel("res_1", Call("local"))
    await files.close()
    await researching.resume(run_of(researching), 60.0)
    assert (await researching.run("res_1", Call("local"))).run.status == "cancelled"


async def test_a_file_that_cannot_be_read_costs_the_other_tenants_nothing(
    tmp_path: Path, researching: Researching
) -> None:
    begun = BegunRuns(TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID), SystemClock())
    await begun.begin("res_1", ResearchRequest(query="who?"), Call("work"))
    with sqlite3.connect(tmp_path / "research" / "local.db") as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    (trouble,) = await researching.resume(run_of(researching), 60.0)
    assert trouble.startswith("research of tenant local was not gone on with: ")
    assert researching.under_way == 1


async def test_a_run_whose_caller_goes_away_while_it_is_written_goes_on_all_the_same(
    researching: Researching, tmp_path: Path
) -> None:
    file = researching.file("local")
    reached, go_on = threading.Event(), threading.Event()
    file.write(lambda connection: connection.execute("SELECT 1"))
    blocking = asyncio.ensure_future(asyncio.to_thread(file.write, lambda _: (reached.set(), go_on.wait(60))))
    await asyncio.to_thread(reached.wait, 60)
    asked = asyncio.ensure_future(begin(researching, Call("local")))
    await asyncio.sleep(0.05)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    go_on.set()
    await blocking
    await until(lambda: researching.under_way == 1)
    (row,) = await researching.newest(Call("local"), 9)
    assert await researching.cancel(row.research_id, Call("local"))
    await until(lambda: not researching.under_way)
    await researching.forget(row.research_id, Call("local"))


async def test_a_begun_run_that_nothing_goes_on_with_can_be_broken_off_and_forgotten(
    tmp_path: Path, researching: Researching
) -> None:
    files = TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID)
    await BegunRuns(files, SystemClock()).begin("res_1", ResearchRequest(query="who?"), Call("local"))
    await files.close()
    with pytest.raises(Conflict):
        await researching.forget("res_1", Call("local"))
    assert await researching.cancel("res_1", Call("local"))
    assert (await researching.run("res_1", Call("local"))).run.status == "cancelled"
    assert not await researching.cancel("res_1", Call("local"))
    await researching.resume(run_of(researching), 60.0)
    assert researching.under_way == 0
    await researching.forget("res_1", Call("local"))


async def test_what_cannot_be_kept_is_not_told_to_be_broken_off(
    tmp_path: Path, researching: Researching, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID)
    await BegunRuns(files, SystemClock()).begin("res_1", ResearchRequest(query="who?"), Call("local"))
    await files.close()

    async def full(*_: Any) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(researching._files, "write", full)
    with pytest.raises(Unavailable, match="the disk is full"):
        await researching.cancel("res_1", Call("local"))
    assert (await researching.run("res_1", Call("local"))).run.status == "in_progress"


@pytest.mark.parametrize(
    ("request_kept", "query"),
    [(b'{"query": "who?", "depth": 3}', "who?"), (b'{"query": 5}', ""), (b"\xff", "")],
    ids=["a field of another release", "no question", "no JSON"],
)
async def test_a_begun_run_that_cannot_be_read_ends_as_failed_and_costs_the_others_nothing(
    tmp_path: Path, researching: Researching, request_kept: bytes, query: str
) -> None:
    files = TenantFiles(tmp_path / "research", MIGRATIONS, APPLICATION_ID)
    begun = BegunRuns(files, SystemClock())
    for research_id in ("res_1", "res_2"):
        await begun.begin(research_id, ResearchRequest(query="who?"), Call("local"))
    change = "UPDATE begun_runs SET request = ? WHERE research_id = 'res_1'"
    await files.write("local", lambda connection: connection.execute(change, (request_kept,)).rowcount)
    await files.close()
    assert [row.status for row in await researching.newest(Call("local"), 9)] == ["in_progress"] * 2
    assert await researching.resume(run_of(researching), 60.0) == []
    assert researching.under_way == 1
    kept = await researching.run("res_1", Call("local"))
    assert (kept.run.status, kept.run.query) == ("failed", query)
    assert kept.error.startswith("this gaiad cannot read what was asked (")
