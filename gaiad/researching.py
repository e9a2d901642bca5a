"""Opens the researcher at the start, with the files its runs are kept in: one a tenant, under `<home>/research`.

Every run can be followed by its id while it is under way, whoever waits for it; runs that nobody waits for are
`ongoing_runs`.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import structs

from gaiad.archive.archive import LocalArchive
from gaiad.clock import Clock
from gaiad.config import ResearchConfig
from gaiad.errors import Cancelled, GaiadError, Unavailable
from gaiad.ids import IdMaker
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.logs import get_logger
from gaiad.ongoing_runs import BROKEN_OFF, Name, OngoingRuns, StartedRun
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.research.payload.begun_runs import Begun
from gaiad.research.payload.kept_runs import APPLICATION_ID, MIGRATIONS, KeptRuns
from gaiad.research.thinking.thinker import Thinker
from gaiad.research.trail import Trail
from gaiad.run_events import Numbered, OnEvent, RunEvents, alone
from gaiad.run_schemas import ResearchRun, RunRow, SourceText
from gaiad.schemas import ErrorBody, ResearchRequest, ResearchResult
from gaiad.store.file import DatabaseFile
from gaiad.tasks import TaskGroup
from gaiad.thinking import ThinkerOf

_log = get_logger("gaiad.research")

AT_ONCE = 16
"""Runs that go on by themselves."""
TOLD_AGAIN = 64
"""Runs whose events are still in memory; of those before only the end is told."""
_FOLDER = "research"


class Researching:
    """The researcher, and its runs as intake may look at them: each within the tenant of its call.

    `thinker_of` says by the settings which model a run thinks with.
    """

    def __init__(
        self, home: Path, config: ResearchConfig, clock: Clock, archive: LocalArchive, thinker_of: ThinkerOf
    ) -> None:
        self._files = TenantFiles(home / _FOLDER, MIGRATIONS, APPLICATION_ID)
        self._runs = KeptRuns(archive, self._files, clock, IdMaker(clock))
        self._tasks = TaskGroup("research")
        self._config = config
        self._clock = clock
        self._asked: dict[Name, Call] = {}  # of runs that somebody waits for
        self._events: dict[Name, RunEvents] = {}
        self._ongoing = OngoingRuns(self._runs, clock, self._tasks, AT_ONCE, self._begin)
        self._thinker_of = thinker_of
        self.researcher = Researcher(archive, clock, config, self._runs)

    def use_config(self, config: ResearchConfig) -> None:
        """From the next run on."""
        self._config = config
        self.researcher.use_config(config)

    @property
    def under_way(self) -> int:
        """How many runs go on by themselves."""
        return self._ongoing.under_way

    def ids_under_way(self, tenants: Collection[str]) -> list[str]:
        """All runs of these tenants that are not at their end, also those that somebody waits for; oldest first.

        `cancel` breaks off any of them.
        """
        names = {*self._ongoing.names, *self._asked}
        return sorted(research_id for tenant, research_id in names if tenant in tenants)

    # ------------------------------------------------------------------------------------ runs that go on by themselves

    async def start(self, request: ResearchRequest, call: Call, run: StartedRun) -> str:
        """Have `run(request, call, research_id)` go on by itself; its id. Raises as OngoingRuns.

        Also BadInput and NotFound for what no run could be made of.
        """
        await self.researcher.must_be_askable(request, call)
        return await self._ongoing.start(request, call, run)

    async def resume(self, run: StartedRun, limit_s: float) -> list[str]:
        """Go on with what a stop or a crash interrupted, each for at most `limit_s`; what cannot be, in words."""
        trouble = []
        for tenant in await asyncio.to_thread(self._files.tenants):
            try:
                for begun in await self._runs.begun.all(Call(tenant)):
                    await self._ongoing.resume(begun, tenant, run, limit_s)
            except GaiadError as error:
                _log.error("research_not_resumed", tenant=tenant, error=error.message)
                trouble.append(f"research of tenant {tenant} was not gone on with: {error.message}")
        return trouble

    async def cancel(self, research_id: str, call: Call) -> bool:
        """Break off a run that was started, or that somebody waits for; False when it is at its end.

        Raises NotFound for one that never was, Unavailable when its end cannot be written.
        """
        name = (call.tenant, research_id)
        if await self._ongoing.cancel(name, call):
            return True
        if (asked := self._asked.get(name)) is not None:
            asked.cancel()
            return True
        if (left := await self._runs.begun.find(research_id, call)) is not None:
            return await self._let_go(left, call)
        if name not in self._events:
            await self._runs.run(research_id, call)
        return False

    async def _let_go(self, begun: Begun, call: Call) -> bool:
        """End a run that nothing goes on with: its end could not be kept, or it came with a restored backup."""
        why_not = await self._runs.break_off(begun, Cancelled(BROKEN_OFF), call)
        if why_not:
            raise Unavailable(f"the end of run {begun.research_id} cannot be kept: {why_not}")
        return True

    # ---------------------------------------------------------------------------------------------------------- one run

    async def research(
        self, request: ResearchRequest, call: Call, on_event: OnEvent | None = None, research_id: str = ""
    ) -> ResearchResult:
        """A run that others can follow by its id, which is the first thing told: `started`. Raises as Researcher.

        `partial` answers are made for `on_event`, and for who follows at that moment.
        """
        research_id = research_id or self._runs.new_id()
        name = (call.tenant, research_id)
        begun = self._ongoing.begun(name)
        events = self._events.get(name) or self._begin(name)

        def tell(name: str, data: dict[str, Any]) -> None:
            events.add(name, data)
            if on_event is not None:
                on_event(name, data)

        if begun is None:
            self._asked[name] = call
            tell("started", {"research_id": research_id})
        try:
            result = await self.researcher.research(
                request,
                call,
                tell,
                research_id=research_id,
                goes_on=begun is not None,
                listens=lambda: on_event is not None or events.readers > 0,
                thinker=self._thinker_of(self._config),
            )
            events.add("result", result)
        except BaseException as error:
            ended = begun is None or await self._ongoing.broke_off(begun, error, _known(error), call)
            events.add(*(("error", _body(error)) if ended else ("interrupted", {"research_id": research_id})))
            raise
        finally:
            self._asked.pop(name, None)
            events.end()
        return result

    def thinker(self, role: str) -> Thinker | None:
        """That of a role's model, with the bounds of the settings; None for the rules alone."""
        return self._thinker_of(structs.replace(self._config, model=role))

    def new_id(self) -> str:
        """The id of a run that begins."""
        return self._runs.new_id()

    def keep_later(self, trail: Trail, call: Call) -> None:
        """Keep a run that others made, when there is time; why it cannot be is logged."""
        self._tasks.start(f"keep {trail.research_id}", self._kept(trail, call))

    async def _kept(self, trail: Trail, call: Call) -> None:
        await self._runs.keep(trail, call)

    async def follow(self, research_id: str, after: int, call: Call) -> AsyncGenerator[Numbered, None]:
        """The events of a run above number `after` until its end, `result` or `error`. Raises NotFound."""
        if events := self._events.get((call.tenant, research_id)):
            return events.follow(after)
        kept = await self._runs.run(research_id, call)
        if kept.run.status == "in_progress":  # its end could not be written
            error = "its end could not be kept; the next start of the daemon runs it again"
            return alone(Numbered(after + 1, "error", ErrorBody(code=Unavailable.code, message=error)))
        if kept.result is not None:
            return alone(Numbered(after + 1, "result", kept.result))
        return alone(Numbered(after + 1, "error", ErrorBody(code=kept.run.status, message=kept.error)))

    def _begin(self, name: Name) -> RunEvents:
        ended = [one for one, events in self._events.items() if events.ended]
        for one in ended[: max(0, len(ended) - TOLD_AGAIN + 1)]:
            del self._events[one]
        self._events[name] = RunEvents()
        return self._events[name]

    async def run(self, research_id: str, call: Call) -> ResearchRun:
        """A run with its answer and payload. Raises NotFound."""
        return await self._runs.run(research_id, call)

    async def newest(self, call: Call, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        return await self._runs.newest(call, limit, to_review=to_review)

    async def source(self, research_id: str, source_id: str, call: Call) -> SourceText:
        """The whole text of a source of a run, as the archive has it now. Raises NotFound."""
        return await self._runs.source(research_id, source_id, call)

    async def review(self, research_id: str, call: Call, *, done: bool = True) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        await self._runs.review(research_id, call, done=done)

    async def forget(self, research_id: str, call: Call) -> None:
        """Take a run out for good. Raises NotFound, Conflict while it is under way."""
        await self._runs.forget(research_id, call)
        self._events.pop((call.tenant, research_id), None)

    async def prune(self) -> None:
        """Take out the runs beyond `research.keep_runs_days` and `research.keep_runs_max`, of every tenant."""
        for tenant in await asyncio.to_thread(self._files.tenants):
            gone = await self._runs.prune(tenant, self._config.keep_runs_days, self._config.keep_runs_max)
            if gone:
                _log.info("research_pruned", tenant=tenant, runs=gone)

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's runs, for a restore. Raises BadInput, Conflict."""
        return self._files.file(tenant)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home."""
        return self._files.files()

    async def close(self) -> None:
        """Break off what runs by itself, and finish what is being written."""
        await self._tasks.stop()
        await self._files.close()


def _known(error: BaseException) -> GaiadError:
    return error if isinstance(error, GaiadError) else GaiadError(_body(error).message)


def _body(error: BaseException) -> ErrorBody:
    if isinstance(error, GaiadError):
        return ErrorBody(code=error.code, message=error.message)
    if isinstance(error, asyncio.CancelledError):
        return ErrorBody(code=Cancelled.code, message="the caller went away")
    return ErrorBody(code=GaiadError.code, message=f"unexpected {type(error).__name__}")


def open_research(
    stack: AsyncExitStack,
    home: Path,
    config: ResearchConfig,
    clock: Clock,
    archive: LocalArchive,
    thinker_of: ThinkerOf,
) -> Researching:
    """Opened for as long as `stack`; files are opened at first use."""
    opened = Researching(home, config, clock, archive, thinker_of)
    stack.push_async_callback(opened.close)
    return opened
