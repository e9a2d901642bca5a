"""The pulse over a real worker that is stopped and goes on again, with short limits."""

import asyncio
import os
import signal
import time

import msgspec
import pytest

from council.limits import HeartbeatLimits
from council.pulse import Pulse
from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.ports import RequestContext
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import TokenWorker
from tests.makers.llama_files import write_tiny_llama
from tests.makers.waiting import until

LIMITS = HeartbeatLimits(interval_s=0.6, inactive_after_s=4.0)
ROLES = ("prime", "lite", "codemind")


@pytest.fixture
async def pool(tmp_path):
    settings = msgspec.structs.replace(load_config(environment={}).models, threads=1, flash_attention="off")
    clock = SystemClock("UTC")
    dependencies = ModelDependencies(
        settings=settings, clock=clock, tokenizer_process=TokenWorker(clock), environment={}
    )
    known = {
        name: ModelConfig(kind="gguf", path=str(write_tiny_llama(tmp_path / f"{name}.gguf"))) for name in ("one", "two")
    }
    roles = {"prime": "one", "lite": "two", "codemind": "one"}
    one = ModelPool(roles, [Pooled(name, model) for name, model in known.items()], dependencies, 2**32)
    await one.start()
    for name in known:
        await one.load(name, RequestContext())
    yield one
    await one.close()


class Watched:
    """A pulse over the pool's models, and what it told."""

    def __init__(self, pool):
        self.members = {role: pool.model(pool.name_of(role=role)) for role in ROLES}
        self.beats, self.changes = [], []
        self.pulse = Pulse(self.members, LIMITS, SystemClock("UTC"), self.on_beat, self.on_change)

    async def on_beat(self, beat):
        self.beats.append(beat)

    async def on_change(self, change):
        self.changes.append((change.role, change.now))

    def states(self):
        return [self.pulse.state(role) for role in ROLES]


@pytest.fixture
async def watched(pool):
    one = Watched(pool)
    one.pulse.start()
    await until(lambda: one.states() == ["ready"] * 3)
    yield one
    await one.pulse.close()


async def test_a_stopped_worker_is_inactive_and_ready_again_when_it_goes_on(watched):
    pid = watched.members["lite"].status().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await until(lambda: ("lite", "inactive") in watched.changes)  # the state is so a moment before it is told
        assert watched.states() == ["ready", "inactive", "ready"]
    finally:
        os.kill(pid, signal.SIGCONT)
    await until(lambda: watched.changes[-2:] == [("lite", "inactive"), ("lite", "ready")])
    assert watched.states() == ["ready"] * 3
    assert watched.members["lite"].status().pid == pid


async def test_a_killed_worker_counts_again_as_soon_as_the_next_one_writes(watched):
    pid = watched.members["lite"].status().pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: watched.members["lite"].status().pid not in (0, pid))
    await until(lambda: watched.pulse.state("lite") == "ready" and watched.members["lite"].state == "ready")
    assert [one for one in watched.changes if one[0] != "lite"] == [("prime", "ready"), ("codemind", "ready")]


async def test_an_unloaded_model_sleeps_is_not_loaded_by_the_pulse_and_counts_once_it_is_roused(watched, pool):
    await pool.unload("two")
    await until(lambda: watched.pulse.state("lite") == "sleeping")
    await asyncio.sleep(2 * LIMITS.interval_s)
    assert watched.members["lite"].status().pid == 0
    await watched.pulse.rouse("lite", RequestContext(deadline=time.monotonic() + 20.0))
    assert watched.states() == ["ready"] * 3
