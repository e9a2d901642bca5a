"""What a turn told, as its readers get it: in order, once, whole, each at its own pace, and within a bound."""

import asyncio
import itertools
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.base.events import MISSED, Numbered, RunEvents


async def read(events: RunEvents, after: int = 0) -> list[Numbered]:
    return [event async for event in events.follow(after)]


def said(events: list[Numbered]) -> str:
    return "".join(event.data["text"] for event in events if event.name == "delta")  # type: ignore[index]


async def test_a_late_reader_gets_everything_and_text_in_one_piece() -> None:
    events = RunEvents()
    events.add("turn", {"turn_id": "t"})
    for piece in ("One. ", "Two. ", "Three."):
        events.add("delta", {"text": piece})
    events.add("done", {"answer": "One. Two. Three."})
    events.end()
    found = await read(events)
    assert [(event.number, event.name) for event in found] == [(1, "turn"), (4, "delta"), (5, "done")]
    assert found[1].data == {"text": "One. Two. Three."}
    assert msgspec.json.encode(found[2].data) == b'{"answer":"One. Two. Three."}'


async def test_who_goes_on_in_the_middle_of_text_gets_the_rest_of_it_and_nothing_twice() -> None:
    events = RunEvents()
    for piece in "abcdef":
        events.add("delta", {"text": piece})
    events.end()
    assert [said(await read(events, after)) for after in range(7)] == ["abcdef", "bcdef", "cdef", "def", "ef", "f", ""]


async def test_a_reader_that_keeps_up_gets_each_piece_as_it_comes() -> None:
    events, heard = RunEvents(), list[Numbered]()

    async def reader() -> None:
        async for event in events.follow():
            heard.append(event)

    task = asyncio.create_task(reader())
    for number, piece in enumerate("abc", start=1):
        events.add("delta", {"text": piece})
        await asyncio.sleep(0.01)
        assert heard[-1] == Numbered(number, "delta", {"text": piece})
    events.end()
    await asyncio.wait_for(task, 30)


async def test_text_in_different_manners_is_not_put_together() -> None:
    events = RunEvents()
    events.add("delta", {"text": "a"})
    events.add("delta", {"text": "b", "manner": "log"})
    events.add("delta", {"text": "c", "manner": "log"})
    events.end()
    assert [event.data for event in await read(events)] == [{"text": "a"}, {"text": "bc", "manner": "log"}]


async def test_much_text_comes_in_pieces_of_a_size() -> None:
    events = RunEvents()
    for _ in range(100):
        events.add("delta", {"text": "x" * 1000})
    events.end()
    found = await read(events)
    assert len(said(found)) == 100_000
    assert 5 < len(found) < 10


async def test_beyond_the_bound_the_oldest_goes_and_the_reader_is_told_how_much() -> None:
    events = RunEvents(limit_bytes=5000)
    for number in range(1000):
        events.add("block", {"number": number})
    events.add("done", {"answer": "x" * 20_000})
    events.end()
    assert events.bytes < 30_000
    first, *rest = await read(events)
    assert (first.name, first.number) == (MISSED, first.data["events"])  # type: ignore[index]
    assert [event.number for event in rest] == list(range(first.number + 1, 1002))
    assert rest[-1].name == "done"
    assert [event.number for event in await read(events, 1000)] == [1001]


async def test_the_bytes_that_are_held_stay_within_the_bound() -> None:
    events = RunEvents(limit_bytes=10_000)
    for number in range(5000):
        events.add("delta", {"text": f"{number} ü "})
        assert events.bytes <= 10_000


async def test_what_is_counted_is_no_less_than_what_is_held() -> None:
    words = [f"{number:020}" for number in range(10_000)]
    tracemalloc.start()
    try:
        events = RunEvents(limit_bytes=100_000_000)
        before, _ = tracemalloc.get_traced_memory()
        for word in words:
            events.add("delta", {"text": word + "!"})
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * events.bytes < held < events.bytes


@pytest.mark.parametrize("after", [99, -1])
async def test_a_number_that_was_never_given_begins_at_the_beginning(after: int) -> None:
    events = RunEvents()
    events.add("turn", {})
    events.end()
    assert [event.number for event in await read(events, after)] == [1]


@settings(max_examples=150)
@given(
    st.lists(st.one_of(st.text(max_size=5), st.none()), max_size=30),
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(0, 31),
)
def test_whatever_the_pace_nothing_is_lost_doubled_or_reordered(
    told: list[str | None], pace: list[int], leaves_at: int
) -> None:
    """A reader that comes early, waits as it likes, leaves in the middle and comes back where it was."""

    async def run() -> list[Numbered]:
        events, heard = RunEvents(), list[Numbered]()
        pauses = itertools.cycle(pace)

        async def reader(until: int) -> None:
            async for event in events.follow(heard[-1].number if heard else 0):
                heard.append(event)
                for _ in range(next(pauses)):
                    await asyncio.sleep(0)
                if len(heard) == until:
                    return

        async def twice() -> None:
            await reader(leaves_at)
            await reader(10_000)

        task = asyncio.create_task(twice())
        for text in told:
            if text is None:
                events.add("block", {"text": "", "marker": "PLAN"})
            else:
                events.add("delta", {"text": text})
            await asyncio.sleep(0)
        events.end()
        await asyncio.wait_for(task, 30)
        return heard

    heard: list[Any] = asyncio.run(run())
    numbers = [event.number for event in heard]
    assert numbers == sorted(set(numbers))
    assert (numbers[-1] if numbers else 0) == len(told)
    runs = "".join("|" if text is None else text for text in told)
    assert "".join("|" if event.name == "block" else event.data["text"] for event in heard) == runs
