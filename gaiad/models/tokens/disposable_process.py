"""Runs a function in a forked process that may crash, hang or eat memory without harm to anyone (decision 3).

`run` blocks; a Sandbox lets the other tasks of an event loop go on meanwhile.

What a vocabulary, a template or a grammar does to llama.cpp is not known before it is tried. The fork costs a few
milliseconds and sees all that the parent has loaded. Only what is safe after a fork of a process with threads happens
in it: no lock of another thread, no socket of the parent, no buffer written twice, and an end by `_exit`.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

_COMPLETE = b"\x01"
_READ_BYTES = 1 << 16
_LAST_WORDS = 300
_ERROR_BYTES = 1 << 16
_STACK_BYTES = 4 << 20  # half of what a worker has: what passes here must not overflow there
_PR_SET_PDEATHSIG = 1
PROCESSES = 3
_Result = TypeVar("_Result")


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What it may use. `memory_bytes` is what it may take beyond the parent's own; `stack_bytes` bounds recursion."""

    cpu_s: int = 10
    wall_s: float = 20.0
    memory_bytes: int = 2 << 30
    stack_bytes: int = _STACK_BYTES
    result_bytes: int = 64 << 20


class Died(Exception):
    """It ended without a result; the message says how, in words that can follow the name of what it worked on."""


class DisposableProcess:
    """One try of `work`. `start`, then `pump` whenever one of `descriptors` is readable until it is `over`.

    `kill` at any time; `outcome` gives the result or raises Died.
    """

    def __init__(self, work: Callable[[], bytes], limits: ProcessLimits | None = None) -> None:
        self._work = work
        self._limits = limits or ProcessLimits()
        self._pid = 0
        self._ends: dict[int, bytearray] = {}
        self._result, self._words = bytearray(), bytearray()
        self._because = ""
        self.until = 0.0
        self.over = False

    @property
    def started(self) -> bool:
        return self._pid != 0

    @property
    def descriptors(self) -> list[int]:
        """What to wait for: readable when there is news, gone one by one as the process closes them."""
        return list(self._ends)

    def start(self) -> None:
        """Fork. A machine with no room for another process shows in `outcome`."""
        libc = ctypes.CDLL(None, use_errno=True)  # looked up here: a fork must not load libraries
        ends: list[int] = []
        parent = os.getpid()
        try:
            ends += (*os.pipe(), *os.pipe())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the child below takes care of the other threads
                self._pid = os.fork()
        except OSError as error:
            for end in ends:
                os.close(end)
            self._because, self.over = f"could not be tested in a separate process ({error.strerror})", True
            return
        if self._pid == 0:
            _be_the_child(self._work, self._limits, ends[1], ends[3], libc, parent)
        os.close(ends[1])
        os.close(ends[3])
        self._ends = {ends[0]: self._result, ends[2]: self._words}
        for end in self._ends:
            os.set_blocking(end, False)
        self.until = time.monotonic() + self._limits.wall_s

    def pump(self) -> None:
        """Take what it has written; end it when its time is over. Never blocks for long."""
        if self.over or not self.started:
            return
        for end in list(self._ends):
            self._drain(end)
        if len(self._result) > self._limits.result_bytes:
            self._end(f"gave back more than {self._limits.result_bytes} bytes")
        elif not self._ends:
            self._end("")
        elif time.monotonic() > self.until:
            self._end(f"did not finish within {self._limits.wall_s:g} s")

    def kill(self) -> None:
        """End it now; safe when it is over or was never started."""
        if self.started:
            self._end("was stopped")

    def outcome(self) -> bytes:
        """What `work` returned. Raises Died."""
        if self._because:
            raise Died(self._because)
        return bytes(self._result[: -len(_COMPLETE)])

    def _drain(self, end: int) -> None:
        kept = self._ends[end]
        limit = self._limits.result_bytes if kept is self._result else None
        with contextlib.suppress(BlockingIOError):
            while data := os.read(end, _READ_BYTES):
                kept += data
                if limit is not None and len(kept) > limit:
                    return
                if limit is None:
                    del kept[:-_ERROR_BYTES]
            os.close(end)
            del self._ends[end]

    def _end(self, because: str) -> None:
        """Reap the process. Once it has said all it cannot linger: it is killed, whatever it thinks it still does."""
        if self.over:
            return
        complete = not because and self._result.endswith(_COMPLETE)
        if because or complete:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        for end in self._ends:
            os.close(end)
        self._ends.clear()
        self.over = True
        if not complete:
            self._because = because or self._in_words(os.waitstatus_to_exitcode(status))

    def _in_words(self, code: int) -> str:
        lines = [line.strip() for line in self._words.decode("utf-8", "replace").splitlines() if line.strip()]
        last = lines[-1][:_LAST_WORDS] if lines else ""
        if code >= 0:
            return f"failed: {last or f'it ended with status {code}'}"
        if -code == signal.SIGXCPU:
            return f"took more than {self._limits.cpu_s} s of processor time"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"crashed a process ({name}{f': {last}' if last else ''})"


def run(work: Callable[[], bytes], limits: ProcessLimits | None = None) -> bytes:
    """What `work` returned in a process of its own. Blocks; raises Died."""
    trial = DisposableProcess(work, limits)
    trial.start()
    try:
        while not trial.over:
            wait_readable(trial.descriptors, trial.until - time.monotonic())
            trial.pump()
    finally:
        trial.kill()
    return trial.outcome()


class Sandbox:
    """At most PROCESSES disposable processes at once, or one thread more; for the tasks of one event loop.

    No process is forked beside a running thread, whose locks it would inherit.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(PROCESSES)
        self._forking = asyncio.Lock()

    async def in_process(self, work: Callable[[], bytes], limits: ProcessLimits | None = None) -> bytes:
        """As `run`; a caller that is cancelled ends the process. Raises Died."""
        trial = DisposableProcess(work, limits)
        async with self._places:
            async with self._forking:
                trial.start()
            try:
                while not trial.over:
                    await _news(trial)
                    trial.pump()
            finally:
                trial.kill()
        return trial.outcome()

    async def in_thread(self, work: Callable[[], _Result]) -> _Result:
        """What `work` returns or raises. A thread cannot be killed: left to itself it works on to its end."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        results: list[_Result] = []
        faults: list[Exception] = []

        def background() -> None:
            try:
                results.append(work())
            except Exception as fault:  # noqa: BLE001  (raised again below)
                faults.append(fault)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                loop.call_soon_threadsafe(done.set)

        async with self._forking:
            thread = threading.Thread(target=background, name="sandbox", daemon=True)
            thread.start()
            await done.wait()
            thread.join()
        if faults:
            raise faults[0]
        return results[0]


async def _news(trial: DisposableProcess) -> None:
    """Until the process has written something or ended, or its time is over."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    ends = trial.descriptors
    for end in ends:
        loop.add_reader(end, news.set)
    try:
        async with asyncio.timeout(max(0.0, trial.until - time.monotonic())):
            await news.wait()
    except TimeoutError:
        pass
    finally:
        for end in ends:
            loop.remove_reader(end)


def wait_readable(descriptors: Iterable[int], timeout_s: float | None) -> None:
    """Until one of them has news or is closed on its other side, or the time is over; None waits without end."""
    look = select.poll()  # `select` knows no descriptor above 1023
    for descriptor in descriptors:
        look.register(descriptor, select.POLLIN)
    look.poll(None if timeout_s is None else max(0.0, timeout_s) * 1e3 + 1.0)


def _be_the_child(
    work: Callable[[], bytes], limits: ProcessLimits, result: int, error: int, libc: ctypes.CDLL, parent: int
) -> NoReturn:
    try:
        gc.disable()  # nothing of the parent's is to be finalised here
        _die_with(parent, libc)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(error, 2)
        os.closerange(3, result)
        os.closerange(result + 1, max(result + 2, os.sysconf("SC_OPEN_MAX")))
        _limit(limits)
        _write_all(result, work() + _COMPLETE)
        os._exit(0)
    except BaseException as fault:
        _write_all(2, f"\n{type(fault).__name__}: {fault}\n".encode("utf-8", "replace")[:_READ_BYTES])
        raise
    finally:
        os._exit(1)


def _die_with(parent: int, libc: ctypes.CDLL) -> None:
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _limit(limits: ProcessLimits) -> None:
    _lower(resource.RLIMIT_CORE, 0, 0)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)
    _lower(resource.RLIMIT_STACK, limits.stack_bytes, limits.stack_bytes)
    lower_address_space(limits.memory_bytes)


def lower_address_space(growth_bytes: int) -> tuple[int, int]:
    """Let this process take so much memory beyond what it has now; returns the limits that were in force before."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = _address_space()
    if now:
        _lower(resource.RLIMIT_AS, now + growth_bytes, before[1])
    return before


def _lower(which: int, soft: int, hard: int) -> None:
    """Set a limit, but never above the one in force."""
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    """Bytes of address space this process has now, 0 where that cannot be known."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
