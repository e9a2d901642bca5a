"""Runs jobs: each as a task with its own Call, cancelled on request, resumed after a crash from its recorded cursor.

The table (`store/jobs.py`) remembers; this module runs. What a kind of job does is a function registered under its
name; the runner knows nothing of packets.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from gaiad.clock import Clock
from gaiad.errors import Cancelled, GaiadError, Unavailable
from gaiad.events import EventHub
from gaiad.logs import get_logger
from gaiad.ports import Call, Priority
from gaiad.status_schemas import Job, JobState
from gaiad.store.jobs import Jobs
from gaiad.tasks import TaskGroup

_log = get_logger("gaiad.jobs")
_CONCURRENT = 4
_KEEP_LOGS = 200
_RECORD_EVERY_S = 0.5
_RECORD_AGAIN_S = 10.0


class JobRun:
    """What a running job works with: its payload and cursor, its call, and where it reports."""

    def __init__(self, job: Job, payload: dict[str, Any], cursor: dict[str, Any], call: Call, jobs: Jobs) -> None:
        self.job = job
        self.payload = payload
        self.cursor = cursor
        self.call = call
        self._jobs = jobs
        self._recorded_at = 0.0

    async def report(
        self, done: int, total: int, note: str = "", cursor: dict[str, Any] | None = None, log: Sequence[bytes] = ()
    ) -> None:
        """Record progress durably; raises Cancelled when somebody asked the job to stop."""
        await asyncio.to_thread(self._jobs.progress, self.job.job_id, done, total, note, cursor, log)
        if self.call.cancelled:
            raise Cancelled("the job was cancelled")

    def record(self, done: int, total: int) -> None:
        """Record progress from a thread that is not the event loop's; at most twice a second, and at the end."""
        now = time.monotonic()
        if done == total or now - self._recorded_at > _RECORD_EVERY_S:
            self._recorded_at = now
            self._jobs.progress(self.job.job_id, done, total)


JobWork = Callable[[JobRun], Awaitable[dict[str, Any]]]


class JobRunner:
    """Start with `resume`, end with `stop`; a stop leaves unfinished jobs in the table for the next start."""

    def __init__(self, jobs: Jobs, clock: Clock, hub: EventHub) -> None:
        self.jobs = jobs
        self._clock = clock
        self._hub = hub
        self._kinds: dict[str, JobWork] = {}
        self._tasks = TaskGroup("jobs")
        self._calls: dict[str, Call] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._unrecorded: dict[str, tuple[JobState, str]] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT)

    def register(self, kind: str, work: JobWork) -> None:
        """Say what jobs of `kind` do."""
        self._kinds[kind] = work

    async def submit(self, kind: str, tenant: str, payload: dict[str, Any], key: str = "") -> Job:
        """Queue a job and start it; with an idempotency key seen before, the earlier job as it stands."""
        job = await asyncio.to_thread(self.jobs.create, kind, tenant, payload, 0, key)
        if job.state == "queued" and job.job_id not in self._calls:
            self._start(job, payload, {})
        return job

    async def resume(self) -> int:
        """Start every job a crash or stop left unfinished; returns how many."""
        await asyncio.to_thread(self.jobs.prune, _KEEP_LOGS)
        resumed = 0
        for kind in self._kinds:
            for job in await asyncio.to_thread(self.jobs.unfinished, kind):
                payload = await asyncio.to_thread(self.jobs.payload, job.job_id)
                cursor = await asyncio.to_thread(self.jobs.cursor, job.job_id)
                self._start(job, payload, cursor)
                resumed += 1
        return resumed

    async def wait(self, job_id: str) -> Job:
        """Wait until the job has ended, if it runs here; the job as it then stands."""
        if (ended := self._ended.get(job_id)) is not None:
            await ended.wait()
        return await self.get(job_id)

    async def get(self, job_id: str) -> Job:
        """The job as it stands. Raises NotFound."""
        return self.as_it_stands(await asyncio.to_thread(self.jobs.get, job_id))

    def as_it_stands(self, job: Job) -> Job:
        """The job of the table, with the end that could not be recorded there yet."""
        state, note = self._unrecorded.get(job.job_id, (job.state, job.note))
        return msgspec.structs.replace(job, state=state, note=note)

    @property
    def running(self) -> list[str]:
        """The ids of the jobs that run or wait for their turn here."""
        return list(self._calls)

    def unrecorded(self) -> list[str]:
        """Jobs whose end is not in the table yet, in words."""
        return [
            f"job {job_id} {state}, which cannot be recorded: {note}"
            for job_id, (state, note) in self._unrecorded.items()
        ]

    async def cancel(self, job_id: str) -> Job:
        """Ask a job to stop at its next step. Raises NotFound, Conflict when it has ended."""
        job = await asyncio.to_thread(self.jobs.cancel, job_id)
        if (call := self._calls.get(job_id)) is not None:
            call.cancel()
        return job

    async def stop(self) -> None:
        """Stop all tasks without marking their jobs ended."""
        await self._tasks.stop()

    def _start(self, job: Job, payload: dict[str, Any], cursor: dict[str, Any]) -> None:
        call = Call(tenant=job.tenant, priority=Priority.BACKGROUND, turn_id=job.job_id)
        self._calls[job.job_id] = call
        self._ended[job.job_id] = asyncio.Event()
        self._tasks.start(job.job_id, self._run(JobRun(job, payload, cursor, call, self.jobs)))

    async def _run(self, run: JobRun) -> None:
        job_id = run.job.job_id
        try:
            async with self._slots:
                state, note, result = await self._outcome(run)
            await self._finish(run, state, note, result)
        finally:
            self._calls.pop(job_id, None)
            self._unrecorded.pop(job_id, None)
            self._ended.pop(job_id).set()

    async def _outcome(self, run: JobRun) -> tuple[JobState, str, dict[str, Any]]:
        try:
            if await asyncio.to_thread(self.jobs.cancel_wanted, run.job.job_id):
                run.call.cancel()
            await asyncio.to_thread(self.jobs.start, run.job.job_id)
            self._hub.publish("job_started", run.job.tenant, job_id=run.job.job_id, kind=run.job.kind)
            if run.call.cancelled:
                raise Cancelled("the job was cancelled")
            return "done", "", await self._kinds[run.job.kind](run)
        except Cancelled as error:
            return "cancelled", error.message, {}
        except GaiadError as error:
            return "failed", error.message, {}
        except Exception as error:  # noqa: BLE001  (a defect in the job's work: kept in the job and the log)
            _log.exception("job_crashed", job=run.job.job_id, kind=run.job.kind)
            return "failed", f"unexpected {type(error).__name__}: {error}", {}

    async def _finish(self, run: JobRun, state: JobState, note: str, result: dict[str, Any]) -> None:
        """Record the end. On a full disk it is told from memory until it can be; after a stop the job goes on."""
        job_id, tenant = run.job.job_id, run.job.tenant
        while True:
            try:
                await asyncio.to_thread(self.jobs.finish, job_id, state, note, result)
                break
            except Unavailable as error:
                _log.error("job_end_not_recorded", job=job_id, state=state, error=error.message)
                self._unrecorded[job_id] = state, note or error.message
                self._ended[job_id].set()
                await asyncio.sleep(_RECORD_AGAIN_S)
        self._hub.publish("job_ended", tenant, job_id=job_id, kind=run.job.kind, state=state, note=note)
