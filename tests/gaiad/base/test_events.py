"""The hub: numbered, replayable, bounded, and honest about what a slow reader missed."""

import asyncio
from datetime import UTC, datetime

from gaiad.base.clock import FrozenClock
from gaiad.base.events import Event, EventHub


def make_hub(capacity: int = 8) -> EventHub:
    return EventHub(FrozenClock(datetime(2025, 11, 30, tzinfo=UTC)), capacity)


async def read(hub: EventHub, count: int, after: int | None) -> list[Event]:
    events: list[Event] = []
    async for event in hub.follow(after):
        events.append(event)
        if len(events) == count:
            break
    return events


async def test_a_reader_replays_from_an_id_and_goes_on_live() -> None:
    hub = make_hub()
    for number in range(3):
        hub.publish("tick", n=number)
    reader = asyncio.gather(read(hub, 3, after=1))
    await asyncio.sleep(0)
    hub.publish("tick", n=3)
    (events,) = await asyncio.wait_for(reader, 30)
    assert [(e.id, e.data["n"]) for e in events] == [(2, 1), (3, 2), (4, 3)]


async def test_without_an_id_a_reader_sees_only_what_comes() -> None:
    hub = make_hub()
    hub.publish("old")
    reader = asyncio.gather(read(hub, 1, after=None))
    await asyncio.sleep(0)
    hub.publish("new")
    (events,) = await asyncio.wait_for(reader, 30)
    assert [e.kind for e in events] == ["new"]


async def test_a_reader_behind_the_ring_is_told_how_many_it_missed() -> None:
    hub = make_hub(capacity=4)
    for number in range(10):
        hub.publish("tick", n=number)
    events = await asyncio.wait_for(read(hub, 5, after=2), 30)
    assert (events[0].kind, events[0].missed) == ("missed", 4)
    assert [e.id for e in events[1:]] == [7, 8, 9, 10]


async def test_an_id_from_before_a_restart_starts_at_the_present() -> None:
    hub = make_hub()
    reader = asyncio.gather(read(hub, 1, after=900))
    await asyncio.sleep(0)
    hub.publish("first")
    (events,) = await asyncio.wait_for(reader, 30)
    assert events[0].id == 1


async def test_many_readers_each_see_everything() -> None:
    hub = make_hub(capacity=1000)
    readers = asyncio.gather(*(read(hub, 50, after=0) for _ in range(20)))
    for number in range(50):
        hub.publish("tick", n=number)
        await asyncio.sleep(0)
    for events in await asyncio.wait_for(readers, 30):
        assert [e.data["n"] for e in events] == list(range(50))
