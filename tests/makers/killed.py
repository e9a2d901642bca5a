"""A daemon to be killed, and waiting for what it does; what hangs is ended by the time limit of the test itself."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaiad.bench.daemon_process import BenchDaemon
from gaiad.client.client import Client


def start(home: Path, *settings: str) -> tuple[subprocess.Popen[bytes], Client]:
    """Without a TCP listener, and with no settings given without an embedder.

    A daemon that does not come up says how it exited, or where it hangs.
    """
    settings = settings or ("embedder.kind=none", "intake.batch_files=16")
    daemon = BenchDaemon(home, ("http.enabled=false", *settings))
    daemon._log.close()  # the daemon has its own
    return daemon._process, daemon.client


def until(ask: Callable[[], dict[str, Any]], enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What `ask` returns once it is enough."""
    while not enough(found := ask()):
        time.sleep(0.02)
    return found


def finish(client: Client, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""
    return until(lambda: client.get(f"/jobs/{job_id}"), lambda job: job["state"] not in ("queued", "running"))
