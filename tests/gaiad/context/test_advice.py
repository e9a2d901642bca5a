"""Advice of reviews: versions and sources, what came of it with an interval, retired when it does not help, struck."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.errors import Conflict, NotFound
from gaiad.base.ports import RequestContext
from gaiad.context.advice import ACTIVE, Outcomes, difference, wilson
from gaiad.context.store import ContextStore
from gaiad.wire.context_reviews import AdviceEffect, ReviewQuery
from tests.makers.context import output, review

OUTCOMES = st.integers(1, 200).flatmap(lambda n: st.floats(0, 1).map(lambda mean: Outcomes(n, n * mean)))


async def advice(store: ContextStore, call: RequestContext, agent: str = "") -> list[AdviceEffect]:
    return (await store.feedback(ReviewQuery(agent_type=agent), call)).advice


async def outputs(store: ContextStore, call: RequestContext, first: int, confidence: float) -> None:
    for number in range(first, first + 12):
        await store.add(output(f"t{number}", confidence=confidence), call)


@given(OUTCOMES, OUTCOMES)
def test_intervals_hold_the_mean_and_are_narrower_with_more(before: Outcomes, after: Outcomes) -> None:
    low, high = wilson(before)
    assert -1e-9 <= low <= before.mean + 1e-9
    assert before.mean - 1e-9 <= high <= 1 + 1e-9
    many = wilson(Outcomes(before.number * 4, before.total * 4))
    assert many[1] - many[0] < high - low
    rise, down, up = difference(before, after)
    assert down - 1e-9 <= rise <= up + 1e-9


async def test_advice_that_helps_stays_and_shows_by_how_much(store: ContextStore, call: RequestContext) -> None:
    await outputs(store, call, 0, 0.1)
    made = await store.add(review(1, advice={"generation": ["name the source", "be  brief"]}), call)
    assert await store.active_advice(call) == {
        "generation": [(1, "name the source", f"v1 {made.id}"), (2, "be brief", f"v2 {made.id}")]
    }
    (_, first) = await advice(store, call)
    assert (first.version, first.effect, first.outcomes_before, first.mean_before) == (1, None, 12, 0.1)
    await outputs(store, call, 50, 0.95)
    (_, first) = await advice(store, call, "generation")
    assert (first.state, first.effect) == ("active", 0.85)
    assert first.interval is not None
    assert first.interval[0] > 0
    assert await advice(store, call, "ranking") == []


async def test_advice_that_does_not_help_is_retired_visibly(store: ContextStore, call: RequestContext) -> None:
    await outputs(store, call, 0, 0.5)
    await store.add(review(1), call)
    await outputs(store, call, 50, 0.4)
    await store.add(review(2, at="2025-12-02T11:00:00Z", advice={}), call)
    (one,) = await advice(store, call)
    assert (one.state, one.why) == ("retired", "it did not help: 0.50 before, 0.40 in 12 since")
    assert await store.active_advice(call) == {}


async def test_the_same_advice_is_not_given_twice_and_the_oldest_make_room(
    store: ContextStore, call: RequestContext
) -> None:
    await store.add(review(1), call)
    await store.add(review(2, at="2025-12-02T11:00:00Z"), call)
    assert len(await advice(store, call)) == 1
    texts = [f"advice {number}" for number in range(ACTIVE)]
    await store.add(review(3, at="2025-12-03T11:00:00Z", advice={"generation": texts}), call)
    assert [text for _, text, _ in (await store.active_advice(call))["generation"]] == texts
    assert (await advice(store, call))[-1].why == "newer advice took its place"


async def test_what_a_person_struck_does_not_come_back(store: ContextStore, call: RequestContext) -> None:
    await store.add(review(1), call)
    (one,) = await advice(store, call)
    assert (await store.strike(one.number, call)).state == "struck"
    await store.add(review(2, at="2025-12-02T11:00:00Z"), call)
    assert await store.active_advice(call) == {}
    with pytest.raises(Conflict, match="is struck already"):
        await store.strike(one.number, call)
    with pytest.raises(NotFound):
        await store.strike(99, call)


async def test_counted_outcomes_count_for_advice_that_was_there(store: ContextStore, call: RequestContext) -> None:
    counted: dict[str, Any] = {"lite": Outcomes(10, 2)}
    await store.add(review(1, advice={"lite": "short"}), call, counted)
    (one,) = await advice(store, call)
    later = 10**14
    await store.judge({"lite": Outcomes(4, 4)}, 0, call)
    await store.judge({"lite": Outcomes(10, 9)}, later, call)
    (two,) = await advice(store, call)
    assert (one.mean_before, one.outcomes_after) == (0.2, 0)
    assert (two.outcomes_after, two.mean_after, two.effect) == (10, 0.9, 0.7)
