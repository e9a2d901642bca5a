import asyncio
import os
import signal

from gaiad.models.supervision.process import RestartPolicy
from tests.makers.waiting import until

ATTENTIVE = RestartPolicy(
    start_s=30.0, ping_every_s=0.05, idle_ping_every_s=0.2, ping_grace_s=0.5, first_backoff_s=0.02, failures=50
)


async def test_a_worker_that_stops_while_nobody_asks_it_is_noticed_and_replaced(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, restart_policy=ATTENTIVE)
    pid = generator.status().pid
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: generator.status().pid not in (0, pid) and generator.status().state == "ready")
    assert generator.status().restarts == 1


async def test_a_healthy_idle_worker_is_left_alone(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, restart_policy=ATTENTIVE)
    pid = generator.status().pid
    await asyncio.sleep(1.0)
    assert (generator.status().pid, generator.status().restarts) == (pid, 0)


async def test_an_idle_worker_is_asked_as_often_as_told_though_a_busy_one_is_asked_less(open_generator, tiny_llama):
    restart_policy = RestartPolicy(
        start_s=30.0, ping_every_s=60.0, idle_ping_every_s=0.1, ping_grace_s=0.5, first_backoff_s=0.02, failures=50
    )
    generator = await open_generator(tiny_llama, restart_policy=restart_policy)
    pid = generator.status().pid
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: generator.status().pid not in (0, pid))
