"""What intake may ask of research: answers, runs that outlive their caller, and runs that were kept.

Every run can be followed by its id while it is under way, whoever waits for it. One that nobody waits for is a job: it
is durable from its start, goes on after a stop or a crash where it was, and is cancelled on request.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from typing import Any

from msgspec import structs

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import Clock
from gaiad.base.config import ResearchConfig
from gaiad.base.errors import Cancelled, GaiadError, Unavailable
from gaiad.base.events import Numbered, OnEvent, RunEvents, alone
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup, WorkUnderWay
from gaiad.research.loop import Researcher
from gaiad.research.payload.kept_runs import KIND, KeptRuns, PendingRun, payload_of, pending_run
from gaiad.research.thinking.asking import Limits
from gaiad.research.thinking.by_model import Thinker
from gaiad.research.trail import Trail
from gaiad.service.jobs import JobRun, JobRunner
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import RunJournal
from gaiad.turn.turn_store import CallLog
from gaiad.wire.research import ResearchAgentPayload, ResearchRun, RunRow, SettleContradiction, SourceText
from gaiad.wire.schemas import ErrorBody, ResearchRequest, ResearchResult

ThinkerOf = Callable[[ResearchConfig], Thinker | None]
"""By the settings of the moment the thinker of a run, None for the rules alone."""


def thinking_with(
    calls: CallLog, duties: Callable[[str], frozenset[str] | None], identity: Callable[[], str], clock: Clock
) -> ThinkerOf:
    """One that thinks with the pool's models, each call kept; `duties` says what a model of that name may do, and
    `identity` is the text in force.
    """

    def thinker_of(config: ResearchConfig) -> Thinker | None:
        if not config.model:
            return None
        model = calls.model(config.model, "ask")
        limits = Limits(calls=config.model_calls, tokens=config.model_tokens, seconds=config.model_s)
        return Thinker(model, limits, clock, config.max_pages, duties, identity())

    return thinker_of


_log = get_logger("gaiad.research")
AT_ONCE = 16
"""Runs that go on by themselves."""
TOLD_AGAIN = 64
"""Runs whose events are still in memory; of earlier ones only the end is known."""
ATTEMPTS = 3
"""How often a run is begun at most: one that the daemon died under so often may be what kills it."""
BROKEN_OFF = "it was interrupted"
_GOES_ON = "it goes on after {} steps and uses what they found; earlier events of the run no longer count"
_Name = tuple[str, str]  # tenant and id of a run


class ResearchService:
    """The researcher, and its runs as intake may look at them: each within the tenant of its call.

    `thinker_of` says by the settings which model a run thinks with.
    """

    def __init__(
        self,
        databases: HomeDatabases,
        config: ResearchConfig,
        clock: Clock,
        archive: LocalArchive,
        thinker_of: ThinkerOf,
        runner: JobRunner,
        metrics: Metrics,
        limit_s: float,
        under_way: WorkUnderWay | None = None,
    ) -> None:
        """`limit_s` is how long a run that nobody waits for may take; runs, and their keeping, are `under_way`."""
        self.work = under_way or WorkUnderWay()
        self._let_go_at_end: set[_Name] = set()
        self._archive = archive
        self._databases = databases
        self._runs = KeptRuns(archive, databases, clock)
        self._runner = runner
        self._metrics = metrics
        self._tasks = TaskGroup("research")
        self._config = config
        self._clock = clock
        self._limit_s = limit_s
        self._asked: dict[_Name, RequestContext] = {}  # of runs that somebody waits for
        self._events: dict[_Name, RunEvents] = {}
        self._thinker_of = thinker_of
        self.researcher = Researcher(archive, clock, config, self._runs)
        runner.register(KIND, self._job, AT_ONCE)

    def use_config(self, config: ResearchConfig) -> None:
        """From the next run on."""
        self._config = config
        self.researcher.use_config(config)

    def ids_under_way(self, tenants: Collection[str]) -> list[str]:
        """All runs of these tenants that are not at their end, also those that somebody waits for; oldest first."""
        names = {*self._jobs(), *self._asked}
        return sorted(research_id for tenant, research_id in names if tenant in tenants)

    def _jobs(self) -> set[_Name]:
        return {(job.tenant, job.job_id) for job in self._runner.running if job.kind == KIND}

    # --------------------------------------------------------------------------------- runs that outlive their caller

    async def start(self, request: ResearchRequest, call: RequestContext) -> str:
        """Have a run go on by itself, durable when this returns; its id.

        Raises BadInput and NotFound for what no run could be made of, Unavailable when too many are under way.
        """
        await self.researcher.must_be_askable(request, call)
        if len(self._jobs()) >= AT_ONCE:
            raise Unavailable(f"{AT_ONCE} research runs are already running; wait for one to end, or stop one")
        research_id = self._runs.new_id()
        starting = self._runner.submit(
            KIND, call.tenant, payload_of(request, call), job_id=research_id, priority=call.priority
        )
        name = (call.tenant, research_id)
        self._begin(name).add("started", {"research_id": research_id})
        try:
            await asyncio.shield(self._tasks.start(f"start {research_id}", starting))
        except GaiadError:
            self._events.pop(name).end()
            raise
        return research_id

    async def _job(self, run: JobRun) -> dict[str, Any]:
        """A run as a job. What cannot be run ends as what it was."""
        pending = pending_run(run.unfinished)
        name = (run.call.tenant, pending.research_id)
        journal = RunJournal(self._databases, self._clock, *name)
        call = run.call.without(pending.hidden, pending.guarded).until(self._clock.monotonic() + self._limit_s)
        events = self._followed(name)
        if not events.last:  # not of this life
            events.add("started", {"research_id": pending.research_id})
            note = _GOES_ON.format(await journal.steps_done())
            events.add("resumed", {"research_id": name[1], "began_at": pending.started_at, "note": note})
        if problem := _unrunnable(pending, call):
            await self._runs.break_off(pending, problem, call)
            self._end(name, problem)
            raise problem
        # "yesterday" as of the day it was asked
        request = structs.replace(pending.request, now=pending.request.now or pending.started_at)
        result = await self._run(request, call.journalled(journal), None, pending)
        return {"status": result.status, "confidence": result.confidence}

    async def cancel(self, research_id: str, call: RequestContext) -> bool:
        """Break off a run that was started, or that somebody waits for; False when it is at its end.

        Raises NotFound for one that never was, Unavailable when its end cannot be written.
        """
        name = (call.tenant, research_id)
        if (asked := self._asked.get(name)) is not None:
            asked.cancel()
            return True
        if (pending := await self._runs.pending.find(research_id, call)) is not None:
            await self._runner.cancel(call.tenant, research_id)
            if name not in self._jobs():  # nothing goes on with it
                await self._let_go(pending, call)
            return True
        if name not in self._events:
            await self._runs.run(research_id, call)
        return False

    async def _let_go(self, pending: PendingRun, call: RequestContext) -> None:
        """End a run that nothing goes on with: its end could not be kept, or it came with a restored backup."""
        if why_not := await self._runs.break_off(pending, Cancelled(BROKEN_OFF), call):
            raise Unavailable(f"the end of run {pending.research_id} cannot be kept: {why_not}")

    # ---------------------------------------------------------------------------------------------------------- one run

    async def research(
        self, request: ResearchRequest, call: RequestContext, on_event: OnEvent | None = None
    ) -> ResearchResult:
        """A run that others can follow by its id, which is in the first event, `started`. Raises as Researcher.

        `partial` answers are made for `on_event`, and for who follows at that moment.
        """
        return await self._run(request, call, on_event, None)

    async def _run(
        self, request: ResearchRequest, call: RequestContext, on_event: OnEvent | None, pending: PendingRun | None
    ) -> ResearchResult:
        with self.work.begun():
            return await self._one_run(request, call, on_event, pending)

    async def _one_run(
        self, request: ResearchRequest, call: RequestContext, on_event: OnEvent | None, pending: PendingRun | None
    ) -> ResearchResult:
        research_id = pending.research_id if pending else self._runs.new_id()
        name = (call.tenant, research_id)
        events, began = self._events.get(name) or self._begin(name), self._clock.monotonic()

        def tell(name: str, data: dict[str, Any]) -> None:
            events.add(name, data)
            if on_event is not None:
                on_event(name, data)

        if pending is None:
            self._asked[name] = call
            tell("started", {"research_id": research_id})
        try:
            result = await self.researcher.research(
                request,
                call,
                tell,
                research_id=research_id,
                goes_on=pending is not None,
                listens=lambda: on_event is not None or events.readers > 0,
                thinker=self._thinker_of(self._config),
            )
            result = await self._with_superseded(result, call)
            self._metrics.observe_ms("research", (self._clock.monotonic() - began) * 1000)
            self._metrics.count(f"research_{result.status.lower()}")
            events.add("result", result)
        except BaseException as error:
            if pending is not None and isinstance(error, asyncio.CancelledError):  # the next start goes on with it
                events.add("interrupted", {"research_id": research_id})
            else:
                if pending is not None:
                    await self._runs.break_off(pending, _known(error), call)
                events.add("error", _body(error))
            raise
        finally:
            self._asked.pop(name, None)
            events.end()
            if name in self._let_go_at_end:
                self._let_go_at_end.discard(name)
                self._events.pop(name, None)
        return result

    def _end(self, name: _Name, error: GaiadError) -> None:
        self._events[name].add("error", _body(error))
        self._events[name].end()

    async def _with_superseded(self, result: ResearchResult, call: RequestContext) -> ResearchResult:
        """The answer, its note naming superseded revisions of its packets that do not say what it quotes."""
        revised = {source.packet_id for source in result.sources if source.revision > 1}
        found: dict[str, set[int]] = {}
        for citation in result.citations:
            if citation.packet_id in revised:
                without = await self._archive.revisions_without(citation.packet_id, citation.quote, call)
                found.setdefault(citation.packet_id, set()).update(without)
        notes = [
            f"Superseded revision {', '.join(map(str, sorted(numbers)))} of {packet_id} says otherwise"
            for packet_id, numbers in found.items()
            if numbers
        ]
        return structs.replace(result, note="; ".join(filter(None, [result.note, *notes]))) if notes else result

    def thinker(self, role: str) -> Thinker | None:
        """That of a role's model, with the bounds of the settings; None for the rules alone."""
        return self._thinker_of(structs.replace(self._config, model=role))

    def new_id(self) -> str:
        """The id of a run that begins."""
        return self._runs.new_id()

    def keep_later(self, trail: Trail, call: RequestContext) -> None:
        """Keep a run that others made, when there is time; why it cannot be is logged."""
        self._tasks.start(f"keep {trail.research_id}", self._kept(trail, call))

    async def _kept(self, trail: Trail, call: RequestContext) -> None:
        with self.work.begun():
            await self._runs.keep(trail, call)

    async def follow(self, research_id: str, after: int, call: RequestContext) -> AsyncGenerator[Numbered, None]:
        """The events of a run above number `after` until its end, `result` or `error`. Raises NotFound."""
        name = (call.tenant, research_id)
        if name in self._events or name in self._jobs():
            # Not `_followed`: a run that has just ended is still among the jobs, and new events would never end.
            return (self._events.get(name) or self._begin(name)).follow(after)
        kept = await self._runs.run(research_id, call)
        if kept.run.status == "in_progress":  # its end could not be written
            error = "its end could not be kept; the next start of the daemon runs it again"
            return alone(Numbered(after + 1, "error", ErrorBody(code=Unavailable.code, message=error)))
        if kept.result is not None:
            return alone(Numbered(after + 1, "result", kept.result))
        return alone(Numbered(after + 1, "error", ErrorBody(code=kept.run.status, message=kept.error)))

    def _followed(self, name: _Name) -> RunEvents:
        """The events of a run under way, or of one that ended not long ago."""
        known = self._events.get(name)
        return self._begin(name) if known is None or (known.ended and name in self._jobs()) else known

    def _begin(self, name: _Name) -> RunEvents:
        ended = [one for one, events in self._events.items() if events.ended]
        for one in ended[: max(0, len(ended) - TOLD_AGAIN + 1)]:
            del self._events[one]
        self._events[name] = RunEvents()
        return self._events[name]

    async def run(self, research_id: str, call: RequestContext) -> ResearchRun:
        """A run with its answer and payload. Raises NotFound."""
        return await self._runs.run(research_id, call)

    async def newest(self, call: RequestContext, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        return await self._runs.newest(call, limit, to_review=to_review)

    async def source(self, research_id: str, source_id: str, call: RequestContext) -> SourceText:
        """The whole text of a source of a run, as the archive has it now. Raises NotFound."""
        return await self._runs.source(research_id, source_id, call)

    async def review(self, research_id: str, call: RequestContext, *, done: bool = True) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        await self._runs.review(research_id, call, done=done)

    async def settle(self, research_id: str, asked: SettleContradiction, call: RequestContext) -> None:
        """Mark a contradiction of a kept run. Raises NotFound, BadInput, Conflict while it is under way."""
        await self._runs.settle(research_id, asked, call)

    async def take_in(self, payload: ResearchAgentPayload, call: RequestContext) -> str:
        """Keep a run that another researcher made; its id. Raises BadInput."""
        return await self._runs.take_in(payload, call)

    async def forget(self, research_id: str, call: RequestContext) -> None:
        """Take a run out for good. Raises NotFound, Conflict while it is under way."""
        await self._runs.forget(research_id, call)
        self._events.pop((call.tenant, research_id), None)

    def let_go(self) -> None:
        """Keep no events of runs beyond their end: they quote what may have been deleted."""
        jobs = self._jobs()
        for name in [name for name, events in self._events.items() if events.ended and name not in jobs]:
            del self._events[name]
        self._let_go_at_end |= {name for name, events in self._events.items() if not events.ended}

    async def prune(self) -> None:
        """Take out the runs beyond `research.keep_runs_days` and `research.keep_runs_max`, of every tenant."""
        for tenant in await asyncio.to_thread(self._databases.tenants):
            gone = await self._runs.prune(tenant, self._config.keep_runs_days, self._config.keep_runs_max)
            if gone:
                _log.info("research_pruned", tenant=tenant, runs=gone)

    async def close(self) -> None:
        """Finish what is being written."""
        await self._tasks.stop()


def _unrunnable(pending: PendingRun, call: RequestContext) -> GaiadError | None:
    """Why a run is not begun (again)."""
    if call.cancelled:
        return Cancelled(BROKEN_OFF)
    if pending.unreadable:
        why = f"this version of gaiad cannot read the stored request ({pending.unreadable})"
        return GaiadError(f"{why}; ask again: gaiad ask QUESTION")
    if pending.attempts >= ATTEMPTS:
        return GaiadError(f"the daemon stopped during it {pending.attempts} times; ask again: gaiad ask QUESTION")
    return None


def _known(error: BaseException) -> GaiadError:
    return error if isinstance(error, GaiadError) else GaiadError(_body(error).message)


def _body(error: BaseException) -> ErrorBody:
    if isinstance(error, GaiadError):
        return ErrorBody(code=error.code, message=error.message)
    if isinstance(error, asyncio.CancelledError):
        return ErrorBody(code=Cancelled.code, message="the caller went away")
    return ErrorBody(code=GaiadError.code, message=f"unexpected {type(error).__name__}")
