import asyncio

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Cancelled, DeadlineExceeded, Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.supervision.queueing import FairLine


def line(places=1, limit=3):
    return FairLine("writer", places, limit, SystemClock("UTC"))


async def occupy(queue, call, served, name, leave):
    async with queue.place(call):
        served.append(name)
        await leave.wait()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_tenants_take_turns_however_much_one_of_them_asks():
    queue, served, leave = line(places=2, limit=9), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in ("greedy1", "greedy2", "greedy3", "modest1"):
            call = RequestContext(tenant=name[:-1])
            group.create_task(occupy(queue, call, served, name, leave))
        await settle()
        assert served == ["greedy1", "greedy2"]
        leave.set()
    assert served == ["greedy1", "greedy2", "modest1", "greedy3"]


async def test_a_person_does_not_wait_behind_background_work():
    queue, served, leave = line(), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in ("background1", "background2"):
            group.create_task(occupy(queue, RequestContext(priority=Priority.BACKGROUND), served, name, leave))
        group.create_task(occupy(queue, RequestContext(), served, "person", leave))
        await settle()
        assert served == ["background1", "person"]
        leave.set()


async def test_a_full_line_refuses_with_numbers_and_a_time():
    queue, served, leave = line(limit=1), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(occupy(queue, RequestContext(), served, name, leave))
        await settle()
        with pytest.raises(Unavailable, match=r"1 requests already wait \(limit 1\); try again in") as refusal:
            async with queue.place(RequestContext()):
                pass
        assert refusal.value.retry_after_s > 0
        leave.set()
    assert served == ["a", "b"]
    assert (queue.waiting, queue.running) == (0, 0)


async def test_a_line_without_room_to_wait_still_gives_its_free_places():
    queue, served, leave = line(limit=0), [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(occupy(queue, RequestContext(), served, "a", leave))
        await settle()
        assert served == ["a"]
        with pytest.raises(Unavailable, match="limit 0"):
            async with queue.place(RequestContext()):
                pass
        leave.set()


async def test_who_gives_up_waiting_leaves_no_gap():
    queue, leave = line(), asyncio.Event()
    impatient, gone = RequestContext(deadline=SystemClock("UTC").monotonic() + 0.02), RequestContext()
    gone.cancel()
    async with asyncio.TaskGroup() as group:
        group.create_task(occupy(queue, RequestContext(), [], "first", leave))
        await settle()
        for call, error in ((impatient, DeadlineExceeded), (gone, Cancelled)):
            with pytest.raises(error):
                async with queue.place(call):
                    pass
        assert queue.waiting == 0
        leave.set()
    async with asyncio.timeout(30), queue.place(RequestContext()):
        assert queue.running == 1


async def test_a_cancel_that_comes_with_the_turn_is_not_lost():
    queue, served, first, never = line(), [], asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(occupy(queue, RequestContext(), served, "first", first))
        await settle()
        second = group.create_task(occupy(queue, RequestContext(), served, "second", never))
        await settle()
        first.set()
        await asyncio.sleep(0)
        assert not queue.waiting, "its turn has come, and it does not know yet"
        second.cancel()
        await asyncio.wait([second], timeout=30)
        assert second.cancelled()
    assert (served, queue.running, queue.waiting) == (["first"], 0, 0)
