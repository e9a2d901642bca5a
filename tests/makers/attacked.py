"""A daemon in a child process that tests attack: started, killed and started again on one home, its log at hand."""

import atexit
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import pytest

from gaiad.base.errors import DaemonUnreachable
from gaiad.client.client import Client

NOBODY = 65534
_READY_S = 240.0
_SHARE = float(os.environ.get("GAIAD_ATTACK") or 0)

_NURSERY = """
import gc, importlib, json, os, resource, signal, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
for name in ("cli.main", "cli.serve", "daemon.daemon", "daemon.assemble", "intake.listeners", "intake.schedule"):
    importlib.import_module(f"gaiad.{name}")
importlib.import_module("gaiad.intake.watch")
from gaiad.base.clock import SystemClock
from gaiad.cli.main import main

def become(arguments, log, environment, limits, offset):
    out, nothing = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, out, out)):
        os.dup2(descriptor, number)
    os.environ.update(environment)
    for limit, value in limits:
        resource.setrlimit(limit, (value, value))
    if offset:
        SystemClock.now = lambda _: datetime.now(UTC) + timedelta(seconds=float(Path(offset).read_text()))
    sys.argv = ["gaiad", *arguments]
    main()

gc.freeze()
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        os.setsid()
        become(**json.loads(line))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class _Daemon:
    """A daemon, forked by a process that has imported everything once; one of them at a time."""

    _waiting: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, **how: Any) -> None:
        self._nursery = self._waiting.pop() if self._waiting else self._begin()
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._answers = self._nursery.stdout
        self._nursery.stdin.write(json.dumps(how) + "\n")
        self._nursery.stdin.flush()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    @staticmethod
    def _begin() -> "subprocess.Popen[str]":
        nursery = subprocess.Popen(
            [sys.executable, "-c", _NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(nursery.kill)
        return nursery

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float = 120.0) -> int:
        """Its exit code, negative for a signal."""
        code = self._ended(timeout)
        assert code is not None, "the daemon does not end"
        return code

    def _ended(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline())
            self._waiting.append(self._nursery)
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


only_in_campaign = pytest.mark.skipif(not _SHARE, reason="only in `make attack`")


def tries(few: int, full: int) -> int:
    """How many: `few` in `make test`, the campaign's share of `full` in `make attack`."""
    return max(few, round(full * _SHARE))


class Row:
    """One line of the campaign's table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tried = 0
        self.fell: list[str] = []

    def check(self, held: bool, what: object) -> None:
        """Count one try; `what` it was is shown when it was not held off."""
        self.tried += 1
        if not held:
            self.fell.append(str(what))


class Attacked:
    """`with Attacked(folder) as daemon`. `settings` are section.key=value; `open_files`, `file_bytes` its limits."""

    def __init__(
        self, folder: Path, *settings: str, config: str = "", open_files: int = 0, file_bytes: int = 0
    ) -> None:
        self.home = folder / "h"
        self.home.mkdir(mode=0o700)
        (self.home / "config.toml").write_text(config)
        self.log = folder / "log"
        self._offset = folder / "clock"
        self._settings = settings
        self._limits = {resource.RLIMIT_NOFILE: open_files, resource.RLIMIT_FSIZE: file_bytes}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def start(self, *settings: str, ready: bool = True) -> None:
        """Start it and, with `ready`, wait until it answers."""
        arguments = ["serve", "--home", str(self.home)]
        for setting in ("http.port=0", "embedder.kind=none", *self._settings, *settings):
            arguments += ["--set", setting]
        self.process = _Daemon(
            arguments=arguments,
            log=str(self.log),
            environment={"XDG_CONFIG_HOME": str(self.home.parent / "config")},
            limits=[limit for limit in self._limits.items() if limit[1]],
            offset=str(self._offset) if self._offset.exists() else "",
        )
        self.client = Client(self.home)
        if ready:
            self.await_ready()

    def await_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.client.get("/healthz")
                return
            except DaemonUnreachable:
                assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < deadline, "the daemon did not come up"
                time.sleep(0.01)

    def set_clock(self, seconds: float) -> None:
        """Its wall clock is so far ahead from now on; for one whose clock was set before it was started."""
        beside = self._offset.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(self._offset)

    def stop(self) -> int:
        """End it in order; its exit code."""
        self.client.close()
        self.process.terminate()
        return self.process.wait(timeout=120)

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return str(self.client.get("/status")["url"])

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().splitlines()[0]

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.post(path, body)
        return answer

    def ingest(self, name: str, content: str) -> dict[str, Any]:
        """Hand one document in; its outcome."""
        answer = self.post("/ingest", documents=[{"name": name, "content": content}], wait=True)
        outcome: dict[str, Any] = answer["outcomes"][0]
        return outcome


def as_another_user(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python program of another uid on this machine (of our own where we are not root); standard library only."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or sys.executable
    command: Sequence[str] = [python, "-I", "-c", script, *arguments]
    if os.getuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
