"""Opens the researcher at the start, with the files its runs are kept in: one a tenant, under `<home>/research`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.clock import Clock
from gaiad.config import ResearchConfig
from gaiad.errors import Cancelled, GaiadError, Unavailable
from gaiad.ids import IdMaker
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.logs import get_logger
from gaiad.payload_schemas import ResearchRun, RunRow, SourceText
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.research.payload.kept_runs import APPLICATION_ID, MIGRATIONS, KeptRuns
from gaiad.run_events import Numbered, RunEvents
from gaiad.schemas import ErrorBody, ResearchRequest, ResearchResult
from gaiad.store.file import DatabaseFile
from gaiad.tasks import TaskGroup

_log = get_logger("gaiad.research")

AT_ONCE = 16
"""Runs that go on by themselves."""
TOLD_AGAIN = 64
"""Runs whose events are still in memory; of those before only the end is told."""
_FOLDER = "research"
OnEvent = Callable[[str, dict[str, Any]], None]
StartedRun = Callable[[str], Awaitable[ResearchResult]]


class Researching:
    """The researcher, and its runs as intake may look at them: each within the tenant of its call."""

    def __init__(self, home: Path, config: ResearchConfig, clock: Clock, archive: LocalArchive) -> None:
        self._files = TenantFiles(home / _FOLDER, MIGRATIONS, APPLICATION_ID)
        self._runs = KeptRuns(archive, self._files, clock, IdMaker(clock))
        self._tasks = TaskGroup("research")
        self._started: dict[tuple[str, str], Call] = {}
        self._events: dict[tuple[str, str], RunEvents] = {}
        self.researcher = Researcher(archive, clock, config, self._runs)

    def start(self, call: Call, run: StartedRun) -> str:
        """Have `run(research_id)` go on by itself, and say the id it can be followed by. Raises Unavailable."""
        if len(self._started) >= AT_ONCE:
            raise Unavailable(f"{AT_ONCE} research runs are under way; wait for one to end, or stop one")
        research_id = self._runs.new_id()
        self._begin(call.tenant, research_id)
        self._started[(call.tenant, research_id)] = call
        self._tasks.start(research_id, self._by_itself((call.tenant, research_id), run))
        return research_id

    async def _by_itself(self, name: tuple[str, str], run: StartedRun) -> None:
        try:
            await run(name[1])
        except GaiadError as error:
            _log.info("research_ended", research_id=name[1], code=error.code)  # its last event says why
        finally:
            del self._started[name]

    def cancel(self, research_id: str, call: Call) -> bool:
        """Break off a run that was started; False when none of that id is under way for the tenant."""
        started = self._started.get((call.tenant, research_id))
        if started is not None:
            started.cancel()
        return started is not None

    async def research(
        self, request: ResearchRequest, call: Call, on_event: OnEvent | None = None, research_id: str = ""
    ) -> ResearchResult:
        """A run that others can follow by its id, which is the first thing told: `started`. Raises as Researcher."""
        research_id = research_id or self._runs.new_id()
        events = self._events.get((call.tenant, research_id)) or self._begin(call.tenant, research_id)

        def tell(name: str, data: dict[str, Any]) -> None:
            events.add(name, data)
            if on_event is not None:
                on_event(name, data)

        tell("started", {"research_id": research_id})
        try:
            result = await self.researcher.research(request, call, tell, research_id=research_id)
            events.add("result", result)
        except BaseException as error:
            events.add("error", _body(error))
            raise
        finally:
            events.end()
        return result

    async def follow(self, research_id: str, after: int, call: Call) -> AsyncGenerator[Numbered, None]:
        """The events of a run above number `after` until its end, `result` or `error`. Raises NotFound."""
        if events := self._events.get((call.tenant, research_id)):
            return events.follow(after)
        kept = await self._runs.run(research_id, call)
        if kept.result is not None:
            return _alone(Numbered(after + 1, "result", kept.result))
        return _alone(Numbered(after + 1, "error", ErrorBody(code=kept.run.status, message=kept.error)))

    def _begin(self, tenant: str, research_id: str) -> RunEvents:
        ended = [name for name, events in self._events.items() if events.ended]
        for name in ended[: max(0, len(ended) - TOLD_AGAIN + 1)]:
            del self._events[name]
        self._events[(tenant, research_id)] = RunEvents()
        return self._events[(tenant, research_id)]

    async def run(self, research_id: str, call: Call) -> ResearchRun:
        """A run with its answer and payload. Raises NotFound."""
        return await self._runs.run(research_id, call)

    async def newest(self, call: Call, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        return await self._runs.newest(call, limit, to_review=to_review)

    async def source(self, research_id: str, source_id: str, call: Call) -> SourceText:
        """The whole text of a source of a run, as the archive has it now. Raises NotFound."""
        return await self._runs.source(research_id, source_id, call)

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


async def _alone(event: Numbered) -> AsyncGenerator[Numbered, None]:
    yield event


def _body(error: BaseException) -> ErrorBody:
    if isinstance(error, GaiadError):
        return ErrorBody(code=error.code, message=error.message)
    if isinstance(error, asyncio.CancelledError):
        return ErrorBody(code=Cancelled.code, message="the caller went away")
    return ErrorBody(code=GaiadError.code, message=f"unexpected {type(error).__name__}")


def open_research(
    stack: AsyncExitStack, home: Path, config: ResearchConfig, clock: Clock, archive: LocalArchive
) -> Researching:
    """Opened for as long as `stack`; files are opened at first use."""
    opened = Researching(home, config, clock, archive)
    stack.push_async_callback(opened.close)
    return opened
