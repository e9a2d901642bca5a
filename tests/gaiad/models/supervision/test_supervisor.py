import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from gaiad.base.errors import Unavailable
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.supervision.process import RestartPolicy, WorkerProcess
from tests.makers.waiting import until

STUBBORN = RestartPolicy(start_s=30.0, first_backoff_s=0.02, failures=2)


async def killed(generator):
    """Kill the worker as soon as it is ready; return when it is seen to be gone."""
    await generator.wait_ready(30.0)
    pid = generator.status().pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: generator.status().pid != pid)


async def test_a_worker_that_dies_again_and_again_is_given_up_with_the_remedy(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, restart_policy=STUBBORN)
    for _ in range(STUBBORN.failures):
        await killed(generator)
    with pytest.raises(Unavailable, match="2 failures in a row; `gaiad models load writer` after fixing the cause"):
        await generator.wait_ready(30.0)


async def test_deaths_far_from_each_other_are_no_row(open_generator, tiny_llama):
    restart_policy = RestartPolicy(start_s=30.0, first_backoff_s=0.02, failures=2, settled_s=0.0)
    generator = await open_generator(tiny_llama, restart_policy=restart_policy)
    for _ in range(3):
        await killed(generator)
    await generator.wait_ready(30.0)
    assert generator.status().restarts == 3


async def test_a_slow_start_names_the_setting(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, wait=False, restart_policy=RestartPolicy(start_s=0.001, failures=1))
    with pytest.raises(Unavailable, match=r"not ready after 0.001 s.* raise models\.start_timeout_s"):
        await generator.wait_ready(30.0)


async def test_a_fault_of_our_own_is_told_to_those_who_wait(open_embedder, tiny_bert, monkeypatch):
    def faulty(*_):
        raise ZeroDivisionError("as a test")

    monkeypatch.setattr(WorkerEmbedder, "_check_canary", faulty)
    embedder = await open_embedder(tiny_bert, wait=False)
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"as a test.* fault in gaiad"):
        await embedder.wait_ready(60.0)
    assert time.monotonic() - begun < 30.0


@pytest.mark.parametrize("error", [OSError("no more sockets"), asyncio.CancelledError()])
async def test_a_worker_that_cannot_be_talked_to_is_not_left_behind(monkeypatch, error):
    socks = []

    async def refuse(sock):
        socks.append(sock)
        raise error

    monkeypatch.setattr(asyncio, "open_unix_connection", refuse)
    with pytest.raises(type(error)):
        await WorkerProcess.spawn([])
    assert socks[0].fileno() == -1
    assert not children(), "the child outlived its failed start"


def children():
    """Pids of this process's children that run the worker."""
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in own if b"models.child.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_the_wait_doubles_up_to_the_longest():
    restart_policy = RestartPolicy(first_backoff_s=0.5, longest_backoff_s=3.0)
    assert [restart_policy.backoff_s(failures) for failures in (1, 2, 3, 4, 50)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("failures", [1, 5, 1000])
def test_however_often_it_failed_the_wait_is_finite(failures):
    assert 0 < RestartPolicy().backoff_s(failures) <= RestartPolicy().longest_backoff_s
