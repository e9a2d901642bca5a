"""Keeps one worker alive: spawn, handshake, canary, restart with backoff, and an answer for every request.

A request in flight when its worker dies gets WorkerDied. A worker that ignores a cancel, a deadline or a ping for its
grace time is killed. What the requests mean is left to the caller (the embedder, the generator).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Literal

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.metrics import resident_bytes
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.supervision.process import (
    STDERR_LINES,
    BadModel,
    Check,
    RestartPolicy,
    WorkerProcess,
    exit_reason,
    handshake,
    not_ready,
    retry_hint,
    start_line,
)
from gaiad.models.supervision.protocol import (
    Cancel,
    Delta,
    Failed,
    Load,
    LoadFailed,
    Ping,
    Pong,
    ProtocolError,
    Ready,
    Reply,
    Stop,
    Work,
)
from gaiad.models.supervision.queueing import InFlight, Pending, error_of, look_again_s
from gaiad.wire.status import ModelStatus

State = Literal["inactive", "starting", "ready", "failed"]

_log = get_logger("gaiad.models")


class Supervisor:
    """One role's worker. `check(ready, canary_reply)` returns a problem in words, or "" when the model works."""

    def __init__(
        self,
        role: str,
        load: Load,
        canary: Work,
        check: Check,
        clock: Clock,
        restart_policy: RestartPolicy | None = None,
    ) -> None:
        self._role = role
        self._load = load
        self._canary = canary
        self._check = check
        self._clock = clock
        self._policy = restart_policy or RestartPolicy()
        self._tasks = TaskGroup(f"models/{role}", on_failure=self._task_failed)
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._process: WorkerProcess | None = None
        self._in_flight = InFlight()
        self._turned = asyncio.Event()
        self._state: State = "inactive"
        self._reason = "not started"
        self._killed_because = ""
        self._failures = 0
        self._restarts = 0
        self._heard_at = 0.0

    # -- life

    async def start(self) -> None:
        """Begin in the background; returns at once. Starting again after `failed` tries again."""
        if self._state in ("starting", "ready"):
            return
        self._failures = 0
        self._become("starting", "loading the model")
        self._tasks.start("supervise", self._supervise())

    def wait(self, reason: str) -> None:
        """Before `start`: why not yet."""
        self._become("inactive", reason)

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once the worker answers. Raises Unavailable with the reason when it failed or time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._state == "starting":
                    await self._turned.wait()
        except TimeoutError:
            raise Unavailable(f"{self._role}: not ready after {timeout_s:g} s: {self._reason}", 5.0) from None
        if self._state != "ready":
            raise Unavailable(f"{self._role}: {self._reason}", 30.0)

    async def close(self) -> None:
        """Stop the worker (asked, terminated, killed) and fail what was in flight."""
        if self._process is not None:
            self._process.send(Stop())
        await self._tasks.stop()
        self._become("inactive", "stopped")

    def status(self) -> ModelStatus:
        pid = self._process.pid if self._process is not None else 0
        return ModelStatus(
            role=self._role,
            kind="gguf",
            path_or_url=self._load.path,
            state=self._state,
            pid=pid,
            reason="" if self._state == "ready" else self._reason,
            memory_bytes=resident_bytes(pid) if pid else 0,
            restarts=self._restarts,
        )

    @property
    def load(self) -> Load:
        """The next worker's settings: as asked for, with what an earlier life measured."""
        return self._load

    def stderr_lines(self) -> list[str]:
        """The worker's last lines on standard error, lives before this one included."""
        return list(self._stderr)

    # -- requests

    async def submit(self, make: Callable[[int], Work], call: RequestContext) -> Pending:
        """Send `make(id)`, waiting for a worker that starts. Raises Unavailable, DeadlineExceeded, Cancelled, and
        BadInput for what no message can carry.
        """
        await self._until_ready(call)
        assert self._process is not None
        pending = self._in_flight.register()
        try:
            self._process.send(make(pending.id))
        except BaseException as error:
            self._in_flight.withdraw(pending)
            if isinstance(error, ProtocolError):
                raise BadInput(str(error)) from error
            raise
        return pending

    async def result(self, pending: Pending, call: RequestContext) -> Reply:
        """The answer. Raises WorkerDied, DeadlineExceeded, Cancelled, BadInput; cancels the work when nobody waits."""
        async for _ in self.pieces(pending, call):
            pass
        return pending.answer.result()

    async def pieces(self, pending: Pending, call: RequestContext) -> AsyncGenerator[Delta, None]:
        """The text as it comes; when it ends `pending.answer` holds a reply other than Failed. Raises as `result`."""
        try:
            while found := await pending.more(call, self._clock, self._policy.cancel_look_s):
                for piece in found:
                    yield piece
        except (Cancelled, DeadlineExceeded, asyncio.CancelledError, GeneratorExit):
            self.abandon(pending)
            raise
        reply = pending.answer.result()
        if isinstance(reply, Failed):
            raise error_of(self._role, reply)

    async def beat(self, call: RequestContext) -> float:
        """Milliseconds until the worker answered a ping: for a generating one, after a real decode. Raises as both."""
        await self._until_ready(call)
        assert self._process is not None
        pending, sent = self._in_flight.register(), self._clock.monotonic()
        self._process.send(Ping(id=pending.id))
        try:
            await pending.more(call, self._clock, self._policy.cancel_look_s)
        finally:
            self._in_flight.withdraw(pending)
        pending.answer.result()
        return (self._clock.monotonic() - sent) * 1e3

    def abandon(self, pending: Pending) -> None:
        """Tell the worker to drop it, and kill the worker when it does not obey in time."""
        if pending.answer.done():
            pending.answer.exception()  # looked at: nobody waits for it any longer
        elif self._process is not None:
            self._process.send(Cancel(id=pending.id))
            self._tasks.start("enforce_cancel", self._enforce_cancel(pending, self._process))

    async def _enforce_cancel(self, pending: Pending, process: WorkerProcess) -> None:
        grace = self._policy.cancel_grace_s
        await asyncio.wait([pending.answer], timeout=grace)
        if not pending.answer.done():
            self._kill(process, f"it ignored a cancel for {grace:g} s")
            await asyncio.wait([pending.answer])
        pending.answer.exception()

    async def _until_ready(self, call: RequestContext) -> None:
        while self._state == "starting":
            call.check(self._clock.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_again_s(call, self._clock, self._policy.cancel_look_s)):
                    await self._turned.wait()
        call.check(self._clock.monotonic())
        if self._state != "ready":
            raise Unavailable(f"{self._role}: {self._reason}", 30.0)

    # -- supervision

    async def _supervise(self) -> None:
        try:
            while True:
                begun = self._clock.monotonic()
                reason = await self._run_once()
                if self._clock.monotonic() - begun >= self._policy.settled_s:
                    self._failures = 0
                self._failures += 1
                if self._failures >= self._policy.failures:
                    tries = f"gave up after {self._failures} failures in a row" if self._failures > 1 else "gave up"
                    self._become("failed", f"{reason} ({tries}; {retry_hint(self._role, self._load)})")
                    _log.error("worker_failed", role=self._role, reason=reason)
                    return
                delay = self._policy.backoff_s(self._failures)
                self._restarts += 1
                self._become("starting", f"{reason}; restarting")
                _log.warning("worker_restarting", role=self._role, reason=reason, delay_s=delay)
                await asyncio.sleep(delay)
        except BadModel as error:
            self._become("failed", str(error))
            _log.error("worker_refused_model", role=self._role, reason=str(error))

    async def _run_once(self) -> str:
        """Run one worker to its end and say why it ended. Raises BadModel when another life would end the same way."""
        self._killed_because = ""
        try:
            process = await WorkerProcess.spawn(self._stderr)
        except OSError as error:
            return f"the worker cannot be started ({error}); free some memory or processes"
        self._process = process
        self._stderr.append(start_line(process.pid))
        async with TaskGroup(f"models/{self._role}/{process.pid}") as life:
            words = life.start("stderr", process.read_stderr())
            reason: str | None = ""
            try:
                reason = await self._handshake(process)
                if reason is None:
                    self._become("ready", "")
                    life.start("watch", self._watch(process))
                    reason = await self._read(process)
            finally:
                self._process, self._state = None, "starting"
                code = await process.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(words), 1.0)
                why = self._killed_because or reason or exit_reason(self._stderr, self._load, code)
                self._in_flight.fail(self._role, why)
        return why

    async def _handshake(self, process: WorkerProcess) -> str | None:
        """None when the worker is fit, else why not ("" when it died). Raises BadModel."""
        limit = self._policy.start_s
        try:
            async with asyncio.timeout(limit):
                settled = await handshake(process, self._load, self._canary, self._check)
        except TimeoutError:
            return self._kill(process, not_ready(limit, self._load))
        except ProtocolError as error:
            return self._kill(process, str(error))
        self._heard_at = self._clock.monotonic()
        self._load = settled or self._load
        return None if settled else ""

    async def _read(self, process: WorkerProcess) -> str:
        """Hand replies to their callers until the worker ends; returns a reason of our own, or ""."""
        while True:
            try:
                reply = await process.receive()
            except ProtocolError as error:
                return self._kill(process, str(error))
            if reply is None:
                return ""
            self._heard_at = self._clock.monotonic()
            if isinstance(reply, Ready | LoadFailed):
                continue
            if isinstance(reply, Delta):
                self._in_flight.add(reply)
                continue
            self._in_flight.settle(reply)
            if not isinstance(reply, Pong):
                self._failures = 0

    async def _watch(self, process: WorkerProcess) -> None:
        """Ping a worker that has been silent, sooner with work in hand; kill one whose engine does not come round."""
        while True:
            await asyncio.sleep(min(self._policy.ping_every_s, self._policy.idle_ping_every_s))
            silent_s = self._clock.monotonic() - self._heard_at
            if silent_s < (self._policy.ping_every_s if self._in_flight else self._policy.idle_ping_every_s):
                continue
            pending = self._in_flight.register()
            process.send(Ping(id=pending.id))
            await asyncio.wait([pending.answer], timeout=self._policy.ping_grace_s)
            if not pending.answer.done():
                self._kill(process, f"it did not answer a ping for {self._policy.ping_grace_s:g} s")

    def _kill(self, process: WorkerProcess, because: str) -> str:
        self._killed_because = f"the worker was killed: {because}"
        process.kill()
        return self._killed_because

    def _become(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason
        self._turned.set()  # wakes all who wait for this turn; the next one has an event of its own
        self._turned = asyncio.Event()

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._become("failed", f"{name} failed: {error!r}; this is a fault in gaiad, please report it")
        self._in_flight.fail(self._role, self._reason)


class SupervisedModel:
    """One supervised worker under a fingerprint; what is asked of it is the subclass's business."""

    def __init__(self, supervisor: Supervisor, fingerprint: str) -> None:
        self._supervisor = supervisor
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's file; an embedder adds what else names its vector space."""
        return self._fingerprint

    async def start(self) -> None:
        """Spawn the worker in the background."""
        await self._supervisor.start()

    def wait(self, reason: str) -> None:
        """Say why it is not started yet; until `start` requests are refused with that."""
        self._supervisor.wait(reason)

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises Unavailable with the reason when the worker is not ready by then."""
        await self._supervisor.wait_ready(timeout_s)

    async def close(self) -> None:
        """Stop the worker; calls in flight get WorkerDied."""
        await self._supervisor.close()

    def status(self) -> ModelStatus:
        return msgspec.structs.replace(self._supervisor.status(), fingerprint=self._fingerprint)

    def stderr_lines(self) -> list[str]:
        """The worker's last lines on standard error, for `gaiad doctor`."""
        return self._supervisor.stderr_lines()
