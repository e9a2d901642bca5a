"""No worker outlives the daemon, however the daemon dies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DAEMON = """
import asyncio, sys
from pathlib import Path
from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.models.embedder import WorkerEmbedder
from gaiad.base.ports import RequestContext, Priority

async def main():
    embedder = WorkerEmbedder(Path(sys.argv[1]), load_config(environment={}).embedder, SystemClock("UTC"))
    await embedder.start()
    await embedder.wait_ready(30)
    print(embedder.status().pid, "llama_cpp" in sys.modules, flush=True)
    while True:
        texts = [f"{n} " + "busy " * 300 for n in range(200)]
        await embedder.embed(texts, RequestContext(priority=Priority.BACKGROUND))

asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_ends_by_itself_after_a_kill_9_of_its_parent(slow_bert, stopped):
    parent = subprocess.Popen([sys.executable, "-c", DAEMON, str(slow_bert)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker, imported = parent.stdout.readline().split()
    assert imported == "False", "the daemon imported llama_cpp"
    pid = int(worker)
    time.sleep(0.2)
    assert is_running(pid)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_running(pid)


def test_a_worker_whose_parent_is_already_gone_does_not_start():
    result = subprocess.run([sys.executable, "-m", "gaiad.models.child.worker", "0", "1"], timeout=60, check=False)
    assert result.returncode == 0
