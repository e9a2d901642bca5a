"""No run writes more than it may, and what was not written is not counted."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.initiative.account import MeteredSpeaker
from council.ports import Ask
from council.stages import Form
from gaiad.base.errors import BadInput, Cancelled, GaiadError, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from tests.makers.scripted_council import ScriptedSpeaker


def ask(most: int) -> Ask:
    return Ask(role="prime", task_instruction="initiative", subject="x", form=Form(), max_tokens=most)


async def test_what_was_not_written_is_given_back(call: RequestContext) -> None:
    speaker = MeteredSpeaker(ScriptedSpeaker(lambda _: "yes", tokens=10))
    meter = speaker.begin(100)
    await speaker.say(ask(100), call)
    assert meter.spent == 10
    with pytest.raises(Unavailable, match=r"100 tokens in this run and has spent 10; 91 more"):
        await speaker.say(ask(91), call)
    assert meter.spent == 10


@pytest.mark.parametrize(
    ("error", "spent"), [(BadInput("too long"), 0), (WorkerDied("it died"), 50), (Unavailable("midway"), 50)]
)
async def test_a_failure_counts_in_full_unless_nothing_was_sent(
    error: GaiadError, spent: int, call: RequestContext
) -> None:
    speaker = MeteredSpeaker(ScriptedSpeaker(lambda _: error))
    meter = speaker.begin(100)
    with pytest.raises(type(error)):
        await speaker.say(ask(50), call)
    assert meter.spent == spent


async def test_stop_ends_every_call_that_runs_and_counts_it_in_full() -> None:
    below = ScriptedSpeaker(lambda _: None)
    speaker = MeteredSpeaker(below)
    meter, calls = speaker.begin(100), [RequestContext(), RequestContext()]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(speaker.say(ask(30), call)) for call in calls]
        await asyncio.sleep(0)
        speaker.stop()
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert below.cancelled == 2
    assert all(call.cancelled for call in calls)
    assert meter.spent == 60


async def test_after_a_stop_nobody_begins_until_it_is_allowed(call: RequestContext) -> None:
    speaker = MeteredSpeaker(below := ScriptedSpeaker(lambda _: "yes"))
    meter = speaker.begin(100)
    speaker.stop()
    with pytest.raises(Cancelled, match="was interrupted before this call"):
        await speaker.say(ask(30), call)
    assert (below.asks, meter.spent) == ([], 0)
    speaker.allow()
    assert (await speaker.say(ask(30), call)).text == "yes"


async def test_a_late_call_counts_in_its_own_run(call: RequestContext) -> None:
    speaker = MeteredSpeaker(ScriptedSpeaker(lambda _: None))
    first = speaker.begin(100)
    late = asyncio.ensure_future(speaker.say(ask(30), call))
    await asyncio.sleep(0)
    second = speaker.begin(100)
    speaker.stop()
    await asyncio.wait([late])
    assert (first.spent, second.spent) == (30, 0)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 90), st.booleans()), max_size=12), st.integers(0, 200))
async def test_never_more_than_the_allowance(asks: list[tuple[int, int, bool]], allowance: int) -> None:
    written = 0
    for_all = MeteredSpeaker(below := ScriptedSpeaker(lambda _: "yes"))
    meter = for_all.begin(allowance)
    for most, tokens, fails in asks:
        below.tokens = tokens
        below.script = (lambda _: WorkerDied("gone")) if fails else (lambda _: "yes")
        try:
            written += (await for_all.say(ask(most), RequestContext())).tokens
        except Unavailable:
            written += 0
        assert written <= meter.spent <= allowance
