"""One worker process: spawn it, shake hands, talk frames, read its standard error, end it without leaving a zombie.

And how long it is waited for, how often another is tried, and why one ended, in words.
"""

import asyncio
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from gaiad.models.supervision.protocol import (
    HEADER_BYTES,
    PROTOCOL_VERSION,
    Delta,
    Load,
    LoadFailed,
    Ready,
    Reply,
    Work,
    WorkerMessage,
    decode_reply,
    encode_frame,
    frame_length,
)

STDERR_LINES = 200
TERMINATE_GRACE_S = 1.0
_STDERR_LINE_BYTES = 1 << 16
_REMEDIES = {
    signal.SIGILL: "llama.cpp was built for another processor; run `make` to rebuild it on this machine",
    signal.SIGSEGV: "the model file is damaged or llama.cpp has a fault; verify the file or choose another",
    signal.SIGBUS: "the model file changed or shrank while in use; replace it with a complete GGUF",
    signal.SIGABRT: "llama.cpp gave up on the model; verify the file or choose another",
    signal.SIGKILL: "it was killed, perhaps for want of memory; free some or choose a smaller model",
    signal.SIGTERM: "something asked it to end",
}


def worker_environment(base: Mapping[str, str]) -> dict[str, str]:
    """A child's environment. OpenMP threads spin a few microseconds at a barrier and then sleep, unless the user says
    otherwise: spinning as long as OpenMP does by default stalls every process on a busy machine (a 6 ms query took
    1 s), sleeping at once costs half of a short query's time.
    """
    return {"GOMP_SPINCOUNT": "3000", **base, "GGML_NO_BACKTRACE": "1"}


def describe_exit(code: int) -> str:
    """An exit status in words: the signal's name and what to do about it."""
    if code >= 0:
        return f"the worker ended with status {code}"
    try:
        name = signal.Signals(-code)
    except ValueError:
        return f"the worker died of signal {-code}"
    remedy = _REMEDIES.get(name, "see `gaiad doctor` for its last words")
    return f"the worker died of {name.name}: {remedy}"


class WorkerProcess:
    """A running child with its socket. Use `spawn`, then `close` in every case."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stderr: deque[str],
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.stderr = stderr

    @classmethod
    async def spawn(cls, stderr: deque[str]) -> Self:
        """Start `gaiad.models.child.worker` in its own session with one end of a socketpair and nothing else open."""
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "gaiad.models.child.worker", str(theirs.fileno()), str(os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=worker_environment(os.environ),
                limit=_STDERR_LINE_BYTES,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            process.kill()
            await process.wait()
            raise
        return cls(process, reader, writer, stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: WorkerMessage) -> None:
        """Queue a message for the child; a broken socket shows in `receive`."""
        if not self._writer.is_closing():
            self._writer.write(encode_frame(message))

    async def receive(self) -> Reply | None:
        """The child's next message, None when its socket closed. Raises ProtocolError."""
        try:
            header = await self._reader.readexactly(HEADER_BYTES)
            return decode_reply(await self._reader.readexactly(frame_length(header)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def read_stderr(self) -> None:
        """Keep the child's last lines until it closes standard error."""
        stream = self._process.stderr
        assert stream is not None
        pending = b""
        while chunk := await stream.read(4096):
            *lines, pending = (pending + chunk).split(b"\n")
            self.stderr.extend(line.decode("utf-8", "replace") for line in lines)
            pending = pending[-_STDERR_LINE_BYTES:]
        if pending:
            self.stderr.append(pending.decode("utf-8", "replace"))

    def kill(self) -> None:
        """SIGKILL; works on a stopped process too."""
        if self._process.returncode is None:
            self._process.kill()

    async def wait(self) -> int:
        """The exit status, negative for a signal; reaps the child."""
        return await self._process.wait()

    async def close(self) -> int:
        """Close the socket (the child exits on that), terminate after a grace, then kill; returns the exit status."""
        self._writer.close()
        for push in (None, self._process.terminate, self._process.kill):
            if push is not None and self._process.returncode is None:
                push()
            try:
                return await asyncio.wait_for(self._process.wait(), TERMINATE_GRACE_S)
            except TimeoutError:
                continue
        return await self._process.wait()


Check = Callable[[Ready, Reply], str]
"""A problem in words, from what the worker said of its model and the canary's reply; "" when the model works."""


class BadModel(Exception):
    """The model cannot be served, whatever the number of tries."""


async def handshake(process: WorkerProcess, load: Load, canary: Work, check: Check) -> Load | None:
    """What a later life is sent when this one is fit: `load` with what was measured. None when it died meanwhile.

    Raises BadModel, ProtocolError.
    """
    process.send(load)
    ready = await process.receive()
    if isinstance(ready, LoadFailed):
        raise BadModel(ready.reason)
    if not isinstance(ready, Ready):
        return None
    if ready.version != PROTOCOL_VERSION:
        raise BadModel(f"the worker speaks protocol {ready.version}, not {PROTOCOL_VERSION}; reinstall gaiad")
    process.send(canary)
    answer = await process.receive()
    while isinstance(answer, Delta):
        answer = await process.receive()
    if answer is None:
        return None
    if problem := check(ready, answer):
        raise BadModel(f"{load.path}: {problem}")
    return msgspec.structs.replace(load, flash="on" if ready.flash else "off") if load.flash == "auto" else load


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what, in seconds, and how often it tries.

    A worker that ran for `settled_s` ends a row of failures.
    """

    start_s: float = 60.0
    cancel_grace_s: float = 3.0
    ping_every_s: float = 10.0
    idle_ping_every_s: float = 30.0
    ping_grace_s: float = 30.0
    first_backoff_s: float = 0.2
    longest_backoff_s: float = 30.0
    failures: int = 5
    settled_s: float = 600.0
    cancel_look_s: float = 0.015

    def backoff_s(self, failures: int) -> float:
        """The wait before the next try, after so many failures in a row: doubled each time, up to the longest."""
        return min(self.longest_backoff_s, self.first_backoff_s * 2.0 ** (failures - 1))


_STARTED = "--- worker started, pid"
_LONGER = {
    "embed": "; when it only needs longer, raise embedder.start_timeout_s",
    "generate": "; when it only needs longer, raise models.start_timeout_s",
}


def start_line(pid: int) -> str:
    """The line between the standard error of one worker and the next."""
    return f"{_STARTED} {pid}"


def exit_reason(stderr: Sequence[str], load: Load, code: int) -> str:
    """From its exit status and the last it wrote."""
    words = next((line.strip() for line in reversed(stderr) if line.strip()), "")
    last = "" if words.startswith(_STARTED) else f" (its last words: {words[:300]})"
    where = f"{load.path}: " if load.path else ""
    return f"{where}{describe_exit(code)}{last}"


def not_ready(limit_s: float, load: Load) -> str:
    """It took longer to start than it may; names the setting."""
    return f"it was not ready after {limit_s:g} s{_LONGER.get(load.engine, '')}"


def retry_hint(role: str, load: Load) -> str:
    """How to start a worker again that was given up."""
    remedy = "restart gaiad" if load.engine == "embed" else f"`gaiad models load {role}`"
    return f"{remedy} after fixing the cause"
