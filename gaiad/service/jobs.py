"""Runs jobs, each as a task with its own RequestContext: cancelled on request, resumed from its cursor after a crash.

The table (`store/jobs.py`) remembers; this module runs. What a kind of job does is a function registered under its
name; the runner knows nothing of packets.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import Cancelled, GaiadError, Unavailable
from gaiad.base.events import EventHub
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.store.database import Damaged
from gaiad.store.jobs import Jobs, UnfinishedJob
from gaiad.wire.status import Job, JobState

_log = get_logger("gaiad.jobs")
_AT_ONCE = 4
_KEEP_LOGS = 200
_RECORD_EVERY_S = 0.5
_RECORD_AGAIN_S = 10.0


class JobRun:
    """What a running job works with: its payload and cursor, its call, and where it reports.

    `attempts` counts its starts; those that a stop in order ended are not among them.
    """

    def __init__(self, unfinished: UnfinishedJob, call: RequestContext, jobs: Jobs) -> None:
        self.unfinished = unfinished
        self.job = unfinished.job
        self.payload = unfinished.payload
        self.cursor = unfinished.cursor
        self.call = call
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._recorded_at = 0.0

    async def report(
        self, done: int, total: int, note: str = "", cursor: dict[str, Any] | None = None, log: Sequence[bytes] = ()
    ) -> None:
        """Record progress durably; raises Cancelled when somebody asked the job to stop."""
        await self._jobs.progress(self.job, done, total, note, cursor, log)
        if self.call.cancelled:
            raise Cancelled("the job was cancelled")

    def record(self, done: int, total: int) -> None:
        """Record progress from a thread that is not the event loop's; at most twice a second, and at the end."""
        now = time.monotonic()
        if done == total or now - self._recorded_at > _RECORD_EVERY_S:
            self._recorded_at = now
            recording = self._jobs.progress(self.job, done, total)
            asyncio.run_coroutine_threadsafe(recording, self._loop).result()


JobWork = Callable[[JobRun], Awaitable[dict[str, Any]]]


class _Kind(NamedTuple):
    work: JobWork
    slots: asyncio.Semaphore


class JobRunner:
    """Start with `resume`, end with `stop`; a stop leaves unfinished jobs in the table for the next start."""

    def __init__(self, jobs: Jobs, clock: Clock, hub: EventHub) -> None:
        self.jobs = jobs
        self._clock = clock
        self._hub = hub
        self._kinds: dict[str, _Kind] = {}
        self._tasks = TaskGroup("jobs")
        self._runs: dict[str, JobRun] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._unrecorded: dict[str, tuple[JobState, str]] = {}

    def register(self, kind: str, work: JobWork, at_once: int = _AT_ONCE) -> None:
        """Say what jobs of `kind` do, and how many of them run at the same time."""
        self._kinds[kind] = _Kind(work, asyncio.Semaphore(at_once))

    async def submit(
        self,
        kind: str,
        tenant: str,
        payload: dict[str, Any],
        key: str = "",
        *,
        job_id: str = "",
        priority: Priority = Priority.BACKGROUND,
    ) -> Job:
        """Queue a job, durable when this returns, and start it; with a key seen before, the earlier job."""
        job = await self.jobs.create(kind, tenant, payload, 0, key, job_id)
        if job.state == "queued" and job.job_id not in self._runs:
            self._start(UnfinishedJob(job=job, payload=payload, cursor={}, attempts=0, cancel_wanted=False), priority)
        return job

    async def resume(self, tenants: Iterable[str]) -> int:
        """Start every job of `tenants` that a crash or stop left unfinished; returns how many."""
        resumed = 0
        for tenant in tenants:
            with suppress(Damaged):
                await self.jobs.prune(tenant, _KEEP_LOGS)
                for unfinished in await self.jobs.unfinished(tenant, self._kinds):
                    if unfinished.job.job_id not in self._runs:
                        self._start(unfinished, Priority.BACKGROUND)
                        resumed += 1
        return resumed

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        """Of the jobs of `kind` that have not ended."""
        return [run.payload for run in self._runs.values() if run.job.kind == kind]

    async def wait(self, job: Job) -> Job:
        """Wait until the job has ended, if it runs here; the job as it then is."""
        if (ended := self._ended.get(job.job_id)) is not None:
            await ended.wait()
        return await self.get(job.tenant, job.job_id)

    async def get(self, tenant: str, job_id: str) -> Job:
        """The job now. Raises NotFound."""
        return self.current(await self.jobs.get(tenant, job_id))

    def current(self, job: Job) -> Job:
        """The job of the table, with the end that could not be recorded there yet."""
        state, note = self._unrecorded.get(job.job_id, (job.state, job.note))
        return msgspec.structs.replace(job, state=state, note=note)

    @property
    def running(self) -> list[Job]:
        """The jobs that run or wait for their turn here, oldest first."""
        return [run.job for run in self._runs.values()]

    def unrecorded(self) -> list[str]:
        """Jobs whose end is not in the table yet, in words."""
        return [
            f"job {job_id} {state}, which cannot be recorded: {note}"
            for job_id, (state, note) in self._unrecorded.items()
        ]

    async def cancel(self, tenant: str, job_id: str) -> Job:
        """Ask a job to stop at its next step. Raises NotFound, Conflict when it has ended."""
        job = await self.jobs.cancel(tenant, job_id)
        if (run := self._runs.get(job_id)) is not None:
            run.call.cancel()
        return job

    async def stop(self) -> None:
        """Stop all tasks without marking their jobs ended."""
        await self._tasks.stop()

    def _start(self, unfinished: UnfinishedJob, priority: Priority) -> None:
        job = unfinished.job
        call = RequestContext(tenant=job.tenant, priority=priority, turn_id=job.job_id)
        if unfinished.cancel_wanted:
            call.cancel()
        run = self._runs[job.job_id] = JobRun(unfinished, call, self.jobs)
        self._ended[job.job_id] = asyncio.Event()
        self._tasks.start(job.job_id, self._run(run))

    async def _run(self, run: JobRun) -> None:
        job_id = run.job.job_id
        try:
            async with self._kinds[run.job.kind].slots:
                state, note, result = await self._outcome(run)
            await self._finish(run, state, note, result)
        finally:
            self._runs.pop(job_id, None)
            self._unrecorded.pop(job_id, None)
            self._ended.pop(job_id).set()

    async def _outcome(self, run: JobRun) -> tuple[JobState, str, dict[str, Any]]:
        try:
            await self.jobs.start(run.job)
            self._hub.publish("job_started", run.job.tenant, job_id=run.job.job_id, kind=run.job.kind)
            return "done", "", await self._kinds[run.job.kind].work(run)
        except Cancelled as error:
            return "cancelled", error.message, {}
        except GaiadError as error:
            return "failed", error.message, {}
        except asyncio.CancelledError:
            await self.jobs.interrupt(run.job)
            raise
        except Exception as error:  # noqa: BLE001  (a defect in the job's work: kept in the job and the log)
            _log.exception("job_crashed", job=run.job.job_id, kind=run.job.kind)
            return "failed", f"unexpected {type(error).__name__}: {error}", {}

    async def _finish(self, run: JobRun, state: JobState, note: str, result: dict[str, Any]) -> None:
        """Record the end. On a full disk it stays in memory until it can be written; after a stop the job goes on."""
        job_id, tenant = run.job.job_id, run.job.tenant
        while True:
            try:
                await self.jobs.finish(run.job, state, note, result)
                break
            except Unavailable as error:
                _log.error("job_end_not_recorded", job=job_id, state=state, error=error.message)
                self._unrecorded[job_id] = state, note or error.message
                self._ended[job_id].set()
                await asyncio.sleep(_RECORD_AGAIN_S)
        self._hub.publish("job_ended", tenant, job_id=job_id, kind=run.job.kind, state=state, note=note)
