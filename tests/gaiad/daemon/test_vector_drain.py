"""The vector queue in the background."""

import asyncio
from collections.abc import Iterator

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.daemon import set_up
from gaiad.daemon.set_up import drain_vectors
from gaiad.store.database import StorageFull


class Queue:
    """Answers each drain with the next of `answers`, then with 0."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers: Iterator[int | Exception] = iter(answers)
        self.drained: asyncio.Queue[RequestContext] = asyncio.Queue()

    async def drain_vectors(self, call: RequestContext) -> int:
        self.drained.put_nowait(call)
        answer = next(self.answers, 0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def looks(queue: Queue, count: int, seconds: float = 2.0) -> list[RequestContext]:
    return [await asyncio.wait_for(queue.drained.get(), seconds) for _ in range(count)]


async def test_it_drains_to_the_end_in_the_background_and_then_waits_for_news() -> None:
    hub, queue, notes = EventHub(SystemClock()), Queue(64, 64, 3), dict[str, str]()
    async with TaskGroup("test") as tasks:
        tasks.start("drain", drain_vectors(queue, hub, notes.__setitem__))
        calls = await looks(queue, 4)
        assert {call.priority for call in calls} == {Priority.BACKGROUND}
        with pytest.raises(TimeoutError):
            await looks(queue, 1, 0.1)
        hub.publish("ingested")
        await looks(queue, 1)


async def test_an_event_while_it_drains_is_not_missed() -> None:
    hub, notes = EventHub(SystemClock()), dict[str, str]()

    class Busy(Queue):
        async def drain_vectors(self, call: RequestContext) -> int:
            if self.drained.empty():
                hub.publish("ingested")  # after the queue was read, before it answered
            return await super().drain_vectors(call)

    queue = Busy(0)
    async with TaskGroup("test") as tasks:
        tasks.start("drain", drain_vectors(queue, hub, notes.__setitem__))
        await looks(queue, 2)


async def test_trouble_is_shown_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_up, "_TROUBLE_PAUSE_S", 0.05)
    hub, queue, notes = EventHub(SystemClock()), Queue(RuntimeError("no room"), 1), dict[str, str]()
    async with TaskGroup("test") as tasks:
        tasks.start("drain", drain_vectors(queue, hub, notes.__setitem__))
        await looks(queue, 1)
        await asyncio.sleep(0.01)
        assert notes["vectors"] == "vectors cannot be built: no room; trying again"
        await looks(queue, 2)
        assert notes["vectors"] == ""


async def test_a_full_disk_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, queue, notes = EventHub(SystemClock()), Queue(StorageFull("the disk is full", 0.1), 1), dict[str, str]()
    async with TaskGroup("test") as tasks:
        tasks.start("drain", drain_vectors(queue, hub, notes.__setitem__))
        await looks(queue, 1)
        await asyncio.sleep(0.01)
        assert "the disk is full" in notes["vectors"]


async def test_a_worker_that_restarts_is_waited_for() -> None:
    hub, queue, notes = EventHub(SystemClock()), Queue(Unavailable("restarting", 1.0), 1), dict[str, str]()
    async with TaskGroup("test") as tasks:
        tasks.start("drain", drain_vectors(queue, hub, notes.__setitem__))
        await looks(queue, 1)
        with pytest.raises(TimeoutError):
            await looks(queue, 1, 0.3)
        await looks(queue, 1)
        assert not any(notes.values())
