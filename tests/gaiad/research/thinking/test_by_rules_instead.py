"""Where a model fails, is late, out of bounds or not there: the rules answer, and a run ends only by its own word."""

import asyncio
import json
from typing import Any

import pytest

from gaiad.base.errors import Cancelled, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.research.thinking.asking import Limits
from tests.gaiad.research.thinking.conftest import (
    CLOCK,
    PLAN,
    REFLECT,
    WRITE,
    Mind,
    no_plan,
    prompt,
    reply,
    sentences,
    sufficient,
)
from tests.makers.switch_case import GOOD, QUESTION, QUOTED, SWITCH, of


@pytest.mark.parametrize(
    "written",
    [
        sentences(("It is wired in series with the supply.", ["s99"])),
        sentences(("The council met in Lisbon to discuss violins.", ["s1"])),
        sentences(),
    ],
    ids=["a label that is not there", "words of its own", "nothing"],
)
async def test_when_nothing_it_writes_stands_the_rules_write(run: Any, page: Any, written: Any) -> None:
    told = await run([page(SWITCH)], QUESTION, Mind([no_plan(), sufficient(), reply(WRITE, written)]))
    assert of(told.result) == ("SUCCESS", "extractive")
    assert told.result.answer == QUOTED
    (why,) = told.result.degraded
    assert why.startswith("synthesis by rules: ")
    assert f"Degraded: {why}." in told.result.note


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"text": "no JSON"}, "did not keep to the form"),
        ({"text": '{"sentences": ['}, "did not keep to the form"),
        ({"error": "unavailable"}, "unavailable"),
        ({"error": "worker_died"}, "worker_died"),
        ({"error": "deadline_exceeded"}, "deadline_exceeded"),
        ({"error": "cancelled"}, "cancelled"),
    ],
)
@pytest.mark.parametrize("step", [PLAN, REFLECT, WRITE])
async def test_a_step_that_fails_goes_by_the_rules_and_says_so(
    run: Any, page: Any, step: str, broken: dict[str, str], why: str
) -> None:
    good = {PLAN: no_plan(), REFLECT: sufficient(), WRITE: reply(WRITE, sentences(GOOD))}
    replies = [ScriptedReply(match=match, **broken) if match == step else one for match, one in good.items()]
    told = await run([page(SWITCH)], QUESTION, Mind(replies))
    assert told.result.status == "SUCCESS"
    (said,) = told.result.degraded
    name = {PLAN: "planning", REFLECT: "reflection", WRITE: "synthesis"}[step]
    assert said.startswith(f"{name} by rules: ")
    assert why in said
    assert told.result.engine == ("extractive" if step == WRITE else "script")


async def test_a_model_that_always_misses_its_form_is_told_of_once(run: Any, page: Any) -> None:
    told = await run([page(SWITCH)], QUESTION, Mind([ScriptedReply(text="no JSON")]))
    (said,) = told.result.degraded
    assert said.startswith("planning, reflection and synthesis by rules: script did not keep to the form: ")
    assert told.result.note.count("did not keep to the form") == 1


async def test_a_frame_around_the_reply_does_no_harm(run: Any, page: Any) -> None:
    framed = reply(WRITE, f"Here it is:\n```json\n{json.dumps(sentences(GOOD))}\n```\n")
    told = await run([page(SWITCH)], QUESTION, Mind([no_plan(), sufficient(), framed]))
    assert (told.result.engine, told.result.degraded) == ("script", [])


async def test_pages_that_do_not_fit_the_window_are_left_out_with_their_labels(run: Any, page: Any) -> None:
    pages = [page(SWITCH), page("The float switch was wired by Mara. " * 40, packet_id="tp-2")]
    mind = Mind([no_plan(), sufficient(), reply(WRITE, sentences(GOOD))])
    mind.window = 1500
    told = await run(pages, QUESTION, mind)
    sources = mind.seen[-1].schema["properties"]["sentences"]["items"]["properties"]["sources"]
    assert sources["items"]["enum"] == ["s1", "s2"]
    assert "tp-2" not in prompt(mind.seen[-1])
    assert told.result.engine == "script"
    mind.window = 300
    small = await run(pages, QUESTION, mind)
    assert of(small.result) == ("SUCCESS", "extractive")
    assert "has no room for a page: its window is 300" in small.result.degraded[0]


async def test_a_model_that_failed_twice_is_left_alone(run: Any, page: Any) -> None:
    mind = Mind([ScriptedReply(error="worker_died")])
    told = await run([page(SWITCH)], QUESTION, mind)
    assert told.result.answer == QUOTED
    assert len(mind.seen) == 2
    assert told.result.degraded[-1] == "synthesis by rules: script failed 2 times"


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (Limits(calls=1, tokens=24_000, seconds=60.0), ["plan"]),
        (Limits(calls=2, tokens=24_000, seconds=60.0), ["plan", "reflect"]),
        (Limits(calls=8, tokens=600, seconds=60.0), []),
        (Limits(calls=8, tokens=24_000, seconds=0.0), []),
    ],
)
async def test_calls_tokens_and_time_are_bounded(run: Any, page: Any, limits: Limits, asked: list[str]) -> None:
    mind = Mind([no_plan(), sufficient(), reply(WRITE, sentences(GOOD))])
    told = await run([page(SWITCH)], QUESTION, mind, limits)
    assert mind.asked == asked
    assert of(told.result) == ("SUCCESS", "extractive")
    assert told.result.degraded
    assert told.trail.spent.calls == len(asked)


async def test_a_late_reply_does_not_end_the_run_but_the_runs_own_deadline_does(run: Any, page: Any) -> None:
    slow = [ScriptedReply(text="{}", delay_ms=600_000.0)]
    told = await run([page(SWITCH)], QUESTION, Mind(slow), Limits(calls=8, tokens=24_000, seconds=0.02))
    assert of(told.result) == ("SUCCESS", "extractive")
    with pytest.raises(DeadlineExceeded):
        await run([page(SWITCH)], QUESTION, Mind(slow), call=RequestContext(deadline=CLOCK.monotonic() - 1.0))


async def test_a_cancel_while_the_model_thinks_ends_the_run(run: Any, page: Any) -> None:
    call, mind = RequestContext(), Mind([ScriptedReply(text="{}", delay_ms=600_000.0)])
    asked = asyncio.create_task(run([page(SWITCH)], QUESTION, mind, call=call))
    await mind.was_asked.wait()
    call.cancel()
    with pytest.raises(Cancelled):
        await asked


async def test_a_model_without_words_or_not_there_leaves_the_run_to_the_rules(run: Any, page: Any) -> None:
    plain = await run([page(SWITCH)], QUESTION, Mind([], kind="extractive"))
    assert (plain.result.answer, plain.result.degraded) == (QUOTED, [])
    starting = await run([page(SWITCH)], QUESTION, Mind([], state="starting"))
    assert starting.result.answer == QUOTED
    assert starting.result.degraded == ["thinking by rules: script is starting (it was just started)"]
