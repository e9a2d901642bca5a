"""Keeps one worker alive: spawn, hello, canary, restart with backoff, and an answer for every request.

A request in flight when its worker dies gets WorkerDied. A worker that ignores a cancel, a deadline or a ping for its
grace time is killed. What the requests mean is left to the caller (the embedder; later generation).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from gaiad.clock import Clock
from gaiad.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable, WorkerDied
from gaiad.logs import get_logger
from gaiad.models.process import STDERR_LINES, WorkerProcess, describe_exit, resident_bytes
from gaiad.models.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Embed,
    Failed,
    Load,
    LoadFailed,
    Ping,
    Pong,
    ProtocolError,
    Ready,
    Reply,
    Stop,
)
from gaiad.ports import Call
from gaiad.schemas import ModelStatus
from gaiad.tasks import TaskGroup

State = Literal["inactive", "starting", "ready", "failed"]
Check = Callable[[Ready, Reply], str]

_STARTED = "--- worker started, pid"
_log = get_logger("gaiad.models")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what, in seconds, and how often it tries."""

    start_s: float = 60.0
    cancel_grace_s: float = 3.0
    ping_every_s: float = 10.0
    ping_grace_s: float = 30.0
    first_backoff_s: float = 0.2
    longest_backoff_s: float = 30.0
    failures: int = 5
    cancel_look_s: float = 0.05


class Pending:
    """A request on its way. Await `Supervisor.result`."""

    __slots__ = ("answer", "id")

    def __init__(self, request_id: int) -> None:
        self.id = request_id
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()


class Supervisor:
    """One role's worker. `check(ready, canary_reply)` returns a problem in words, or "" when the model works."""

    def __init__(
        self, role: str, load: Load, canary: Embed, check: Check, clock: Clock, patience: Patience | None = None
    ) -> None:
        self._role = role
        self._load = load
        self._canary = canary
        self._check = check
        self._clock = clock
        self._patience = patience or Patience()
        self._tasks = TaskGroup(f"models/{role}", on_failure=self._task_failed)
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._process: WorkerProcess | None = None
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self._changed = asyncio.Condition()
        self._state: State = "inactive"
        self._reason = "not started"
        self._killed_because = ""
        self._failures = 0
        self._restarts = 0
        self._heard_at = 0.0

    # -- life

    async def start(self) -> None:
        """Begin in the background; returns at once. Starting again after `failed` tries anew."""
        if self._state in ("starting", "ready"):
            return
        self._failures = 0
        await self._become("starting", "loading the model")
        self._tasks.start("supervise", self._supervise())

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once the worker answers. Raises Unavailable with the reason when it failed or time ran out."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self._state != "starting")
        except TimeoutError:
            raise Unavailable(f"{self._role}: not ready after {timeout_s:g} s: {self._reason}", 5.0) from None
        if self._state != "ready":
            raise Unavailable(f"{self._role}: {self._reason}", 30.0)

    async def close(self) -> None:
        """Stop the worker (asked, terminated, killed) and fail what was in flight."""
        if self._process is not None:
            self._process.send(Stop())
        await self._tasks.stop()
        await self._become("inactive", "stopped")

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

    def stderr_lines(self) -> list[str]:
        """The worker's last lines on standard error, lives before this one included."""
        return list(self._stderr)

    # -- requests

    async def submit(self, make: Callable[[int], Embed], call: Call) -> Pending:
        """Send `make(id)`, waiting for a worker that starts. Raises Unavailable, DeadlineExceeded, Cancelled."""
        await self._until_ready(call)
        assert self._process is not None
        pending = self._register()
        try:
            self._process.send(make(pending.id))
        except ProtocolError as error:
            self._pending.pop(pending.id, None)
            raise BadInput(str(error)) from error
        return pending

    async def result(self, pending: Pending, call: Call) -> Reply:
        """The answer. Raises WorkerDied, DeadlineExceeded, Cancelled, BadInput; cancels the work when nobody waits."""
        try:
            while not pending.answer.done():
                call.check(self._clock.monotonic())
                await asyncio.wait([pending.answer], timeout=self._look_again_s(call))
        except (Cancelled, DeadlineExceeded, asyncio.CancelledError):
            self.abandon(pending)
            raise
        reply = pending.answer.result()
        if isinstance(reply, Failed):
            raise _as_error(self._role, reply)
        return reply

    def abandon(self, pending: Pending) -> None:
        """Tell the worker to drop it, and kill the worker when it does not obey in time."""
        if pending.answer.done():
            pending.answer.exception()  # looked at: nobody waits for it any more
        elif self._process is not None:
            self._process.send(Cancel(id=pending.id))
            self._tasks.start("enforce_cancel", self._enforce_cancel(pending, self._process))

    async def _enforce_cancel(self, pending: Pending, process: WorkerProcess) -> None:
        grace = self._patience.cancel_grace_s
        await asyncio.wait([pending.answer], timeout=grace)
        if not pending.answer.done():
            self._kill(process, f"it ignored a cancel for {grace:g} s")
            await asyncio.wait([pending.answer])
        pending.answer.exception()

    async def _until_ready(self, call: Call) -> None:
        while self._state == "starting":
            call.check(self._clock.monotonic())
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._look_again_s(call)):
                        await self._changed.wait_for(lambda: self._state != "starting")
        call.check(self._clock.monotonic())
        if self._state != "ready":
            raise Unavailable(f"{self._role}: {self._reason}", 30.0)

    def _look_again_s(self, call: Call) -> float:
        if call.deadline is None:
            return self._patience.cancel_look_s
        return max(0.001, min(self._patience.cancel_look_s, call.deadline - self._clock.monotonic()))

    def _register(self) -> Pending:
        self._next_id += 1
        pending = self._pending[self._next_id] = Pending(self._next_id)
        return pending

    # -- supervision

    async def _supervise(self) -> None:
        try:
            while True:
                reason = await self._one_life()
                self._failures += 1
                if self._failures >= self._patience.failures:
                    tries = f"gave up after {self._failures} failures in a row" if self._failures > 1 else "gave up"
                    await self._become("failed", f"{reason} ({tries}; restart gaiad once it is mended)")
                    _log.error("worker_failed", role=self._role, reason=reason)
                    return
                delay = min(
                    self._patience.longest_backoff_s, self._patience.first_backoff_s * 2.0 ** (self._failures - 1)
                )
                self._restarts += 1
                await self._become("starting", f"{reason}; restarting")
                _log.warning("worker_restarting", role=self._role, reason=reason, delay_s=delay)
                await asyncio.sleep(delay)
        except _BadModel as error:
            await self._become("failed", str(error))
            _log.error("worker_refused_model", role=self._role, reason=str(error))

    async def _one_life(self) -> str:
        """Run one worker to its end and say why it ended. Raises _BadModel when another life would end the same way."""
        self._killed_because = ""
        try:
            process = await WorkerProcess.spawn(self._stderr)
        except OSError as error:
            return f"the worker cannot be started ({error}); free some memory or processes"
        self._process = process
        self._stderr.append(f"{_STARTED} {process.pid}")
        async with TaskGroup(f"models/{self._role}/{process.pid}") as life:
            words = life.start("stderr", process.read_stderr())
            reason: str | None = ""
            try:
                reason = await self._hello(process)
                if reason is None:
                    await self._become("ready", "")
                    life.start("watch", self._watch(process))
                    reason = await self._read(process)
            finally:
                self._process, self._state = None, "starting"
                code = await process.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(words), 1.0)
                why = self._killed_because or reason or self._why_it_died(code)
                self._fail_pending(why)
        return why

    async def _hello(self, process: WorkerProcess) -> str | None:
        """Load, wait for Ready, run the canary. None when the worker is fit, else why not ("" when it died)."""
        limit = self._patience.start_s
        try:
            async with asyncio.timeout(limit):
                process.send(self._load)
                ready = await process.receive()
                if isinstance(ready, LoadFailed):
                    raise _BadModel(ready.reason)
                if not isinstance(ready, Ready):
                    return ""
                if ready.version != PROTOCOL_VERSION:
                    raise _BadModel(
                        f"the worker speaks protocol {ready.version}, not {PROTOCOL_VERSION}; reinstall gaiad"
                    )
                process.send(self._canary)
                answer = await process.receive()
        except TimeoutError:
            return self._kill(process, f"it was not ready after {limit:g} s")
        except ProtocolError as error:
            return self._kill(process, str(error))
        problem = self._check(ready, answer) if answer is not None else ""
        if problem:
            raise _BadModel(f"{self._load.path}: {problem}")
        self._heard_at = self._clock.monotonic()
        return None if answer is not None else ""

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
            pending = self._pending.pop(reply.id, None)
            if pending is not None and not pending.answer.done():
                pending.answer.set_result(reply)
            if not isinstance(reply, Pong):
                self._failures = 0

    async def _watch(self, process: WorkerProcess) -> None:
        """Ping a worker that has been silent with work in hand; kill one whose engine does not come round."""
        while True:
            await asyncio.sleep(self._patience.ping_every_s)
            if not self._pending or self._clock.monotonic() - self._heard_at < self._patience.ping_every_s:
                continue
            pending = self._register()
            process.send(Ping(id=pending.id))
            await asyncio.wait([pending.answer], timeout=self._patience.ping_grace_s)
            if not pending.answer.done():
                self._kill(process, f"it did not answer a ping for {self._patience.ping_grace_s:g} s")

    def _kill(self, process: WorkerProcess, because: str) -> str:
        self._killed_because = f"the worker was killed: {because}"
        process.kill()
        return self._killed_because

    def _why_it_died(self, code: int) -> str:
        words = next((line.strip() for line in reversed(self._stderr) if line.strip()), "")
        last = "" if words.startswith(_STARTED) else f" (its last words: {words[:300]})"
        return f"{self._load.path}: {describe_exit(code)}{last}"

    def _fail_pending(self, reason: str) -> None:
        pending, self._pending = list(self._pending.values()), {}
        for waiting in pending:
            if not waiting.answer.done():
                waiting.answer.set_exception(WorkerDied(f"{self._role}: {reason}"))
                waiting.answer.exception()  # a request nobody awaits any more must not warn

    async def _become(self, state: State, reason: str) -> None:
        async with self._changed:
            self._state, self._reason = state, reason
            self._changed.notify_all()

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._state, self._reason = "failed", f"{name} failed: {error!r}; this is a fault in gaiad, please report it"
        self._fail_pending(self._reason)


class _BadModel(Exception):
    """The model cannot be served, whatever the number of tries."""


def _as_error(role: str, failed: Failed) -> GaiadError:
    match failed.code:
        case "cancelled":
            return Cancelled(f"{role}: {failed.reason}")
        case "bad_input":
            return BadInput(f"{role}: {failed.reason}")
        case "engine":
            return Unavailable(f"{role}: {failed.reason}")
