"""Child processes with their logs and a sign of life on the screen; and one set-up at a time."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from gaiad.bootstrap.state import WORK, show_progress

STEPS = 6
HEARTBEAT_S = 15.0
LOG_TAIL_LINES = 25
TROUBLES = [
    (r"No space left on device", "the disk is full: free about 3 GB, then run make again"),
    (r"fatal error: Killed|signal: 9", "out of memory: run make again with CMAKE_BUILD_PARALLEL_LEVEL=1"),
    (r"[Hh]ash(es)? mismatch|DO NOT MATCH THE HASHES", "a download differs from requirements.lock: check your index"),
    (
        r"dns error|error sending request|Failed to fetch|Connection (refused|reset)|timed out|SSLError|certificate",
        "no registry could be reached: check the network, proxy or pip's index settings, then run make again",
    ),
]


class SetupFailed(Exception):
    """Set-up cannot go on; the message is one line with the remedy."""


def say(text: str) -> None:
    print(text, flush=True)


def spent(since: float) -> str:
    seconds = time.monotonic() - since
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


@contextlib.contextmanager
def step(number: int, what: str) -> Iterator[None]:
    """Say what begins and how long it took."""
    say(f"[{number}/{STEPS}] {what}")
    began = time.monotonic()
    yield
    say(f"[{number}/{STEPS}] done in {spent(began)}")


def run(what: str, command: list[str], log: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a child with its output in .setup/`log`, showing that it is alive; the output. Raises SetupFailed."""
    code, output = watch(what, command, log, environment)
    return succeed(what, code, output, log)


def succeed(what: str, code: int, output: str, log: str) -> str:
    """The output of a child that ended well; else show the end of its log and raise SetupFailed with the remedy."""
    if code:
        shown = [line for line in output.splitlines() if line.strip() and not line.startswith(("DEBUG", "TRACE"))]
        say("\n".join(f"      | {line}" for line in shown[-LOG_TAIL_LINES:]))
        advice = next(
            (text for sign, text in TROUBLES if re.search(sign, output)), "finished steps are kept, run make again"
        )
        raise SetupFailed(f"{what} failed ({ended(code)}); {advice} (whole log: {WORK.name}/{log})")
    return output


def watch(what: str, command: list[str], log: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a child with its output in .setup/`log`; its exit code and output. A sign of life every few seconds."""
    path = WORK / log
    began = shown = time.monotonic()
    with path.open("wb") as sink:
        child = subprocess.Popen(
            command,
            cwd=WORK,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            pass_fds=_held,
            process_group=0,
        )
        try:
            while True:
                try:
                    return child.wait(timeout=0.5), path.read_text(encoding="utf-8", errors="replace")
                except subprocess.TimeoutExpired:
                    _end_with_daemon()
                    done, files = compiled(path)
                    if files:
                        show_progress("building llama.cpp", 100 * done // files)
                    if time.monotonic() - shown >= HEARTBEAT_S:
                        shown = time.monotonic()
                        say(f"      {what}: {f'{done} of {files} files, ' if files else ''}{spent(began)}")
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise


def compiled(log: Path) -> tuple[int, int]:
    """How many files of how many a compilation has done, read from the end of its log; 0 of 0 when it says nothing."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - 65536))
        found = re.findall(rb"\[(\d+)/(\d+)\]", source.read())
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


_daemon: list[int] = []
"""The process id of the daemon that this set-up works beside."""


def work_beside(daemon: int) -> None:
    """Work at low priority, and stop when this process's parent, the daemon, is gone."""
    os.nice(10)
    _daemon.append(daemon)


def _end_with_daemon() -> None:
    if _daemon and os.getppid() != _daemon[0]:
        raise KeyboardInterrupt


def ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


_held: list[int] = []
"""The lock's file descriptor while it is held; children inherit it."""


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One set-up at a time. Children hold the lock too: an orphan of a killed set-up is waited for, not raced."""
    WORK.mkdir(exist_ok=True)
    with (WORK / "lock").open("w") as handle:
        began = time.monotonic()
        shown = 0.0
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - shown >= HEARTBEAT_S:
                    shown = time.monotonic()
                    say(f"another set-up of this checkout is still running, waiting for it: {spent(began)}")
                time.sleep(0.3)
        os.set_inheritable(handle.fileno(), True)
        _held.append(handle.fileno())
        try:
            yield
        finally:
            _held.clear()
