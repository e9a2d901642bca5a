"""A daemon in a child process, as a user would run it, for measurements over its socket."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gaiad.base.errors import DaemonUnreachable, Unavailable
from gaiad.client.client import Client

_READY_S = 240.0  # a guard: with twenty busy processes beside it a start took a minute


class BenchDaemon:
    """A running daemon on its own home; `start_s` is from spawn to the first answered request."""

    def __init__(self, home: Path, settings: Sequence[str]) -> None:
        self.home = home
        command = [sys.executable, "-m", "gaiad.cli.main", "serve", "--home", str(home)]
        for setting in ("http.port=0", *settings):
            command += ["--set", setting]
        self._log = (home.parent / f"{home.name}.log").open("ab")
        started = time.perf_counter()
        own = {"GAIAD_HOME": str(home), "XDG_CONFIG_HOME": str(home.parent / f"{home.name}.config")}  # settings and key
        own["PYTHONFAULTHANDLER"] = "1"  # its log shows the stacks when it crashes, or hangs and is aborted
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env={**os.environ, **own})
        self.client = Client(home)
        try:
            self._await_ready(started)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.perf_counter() - started

    def _await_ready(self, started: float) -> None:
        while True:
            try:
                self.client.get("/healthz")
                return
            except DaemonUnreachable:
                if self._process.poll() is not None or time.perf_counter() - started > _READY_S:
                    raise Unavailable(self._why_not_up(time.perf_counter() - started)) from None
                time.sleep(0.01)

    def _why_not_up(self, waited_s: float) -> str:
        """Whether it exited or hangs, and the end of its log; one that hangs is aborted, which logs its stacks."""
        status = self._process.poll()
        how = (
            f"exited with status {status}"
            if status is not None
            else f"gave no answer, and was aborted, after {waited_s:.0f} s"
        )
        if status is None:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(timeout=10)
        tail = Path(self._log.name).read_text(encoding="utf-8", errors="replace")[-8000:]
        return f"the daemon under measurement did not come up: it {how}:\n{tail}"

    @property
    def process_id(self) -> int:
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """`gaiad status` as a dict."""
        answer: dict[str, Any] = self.client.get("/status")
        return answer

    def processor_s(self) -> float:
        """Processor seconds the daemon itself has used, all threads, its workers apart."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ingest(self, folder: Path) -> dict[str, Any]:
        """Ingest a folder and wait; the job."""
        answer: dict[str, Any] = self.client.post("/ingest", {"paths": [str(folder)], "wait": True})
        job: dict[str, Any] = answer["job"]
        return job

    def await_embedder(self, limit_s: float = 120.0) -> None:
        """Wait until a question is answered with vectors: the model loads while the daemon already answers by words."""
        deadline = time.monotonic() + limit_s
        while degraded := self.client.post("/search", {"query": "ready", "limit": 1})["degraded"]:
            if time.monotonic() > deadline:
                raise Unavailable(f"no answer with vectors after {limit_s:.0f} s: {'; '.join(degraded)}")
            time.sleep(0.1)

    def await_quiet(self) -> None:
        """Wait until no model works, as after the pause that a person makes: what was said has been read ahead."""
        while any(row.running for row in self.client.models()):
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it and wait."""
        self.client.close()
        self._process.terminate()
        self._process.wait(timeout=120)
        self._log.close()


@contextmanager
def running_daemon(*settings: str, home: Path | None = None) -> Iterator[BenchDaemon]:
    """A daemon for the length of the block, on a temporary home unless one is given."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        daemon = BenchDaemon(home or Path(scratch) / "home", settings)
        try:
            yield daemon
        finally:
            daemon.stop()
