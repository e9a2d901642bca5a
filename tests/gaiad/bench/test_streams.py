import pytest

from gaiad.base.errors import Unavailable
from gaiad.bench.model import Pace, Sizes, Trace, prompt, request, shared_rate, together
from gaiad.wire.generation import Generated, TextDelta
from tests.bench.bare_loop import Duel, Figure


def trace(*pieces):
    found = Trace()
    for when, tokens in pieces:
        found.note(TextDelta(text="x", tokens=tokens), when)
    return found


def end(tokens):
    return Generated(
        text="x" * tokens,
        reason="length",
        stop="",
        prompt_tokens=10,
        cached_tokens=1,
        tokens=tokens,
        seed=0,
        fingerprint="",
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )


def test_the_rate_counts_only_the_time_in_which_all_wrote():
    early = trace((0.0, 1), (1.0, 5), (2.0, 9), (3.0, 13))
    late = trace((1.0, 1), (2.0, 3), (3.0, 5), (9.0, 90))
    assert shared_rate([early, late]) == pytest.approx((13 - 5) / 2 + (5 - 1) / 2)
    assert shared_rate([early]) == pytest.approx(4.0)
    with pytest.raises(Unavailable):
        shared_rate([early, trace((3.5, 1), (4.0, 2))])
    with pytest.raises(Unavailable):
        shared_rate([early, trace()])


def test_prompts_have_their_length_and_differ():
    assert len(prompt(100, 1)) == 99
    assert prompt(100, 1) == prompt(100, 1) != prompt(100, 2)


async def test_all_are_asked_at_once_and_waited_for():
    order = []

    async def ask(asked, found, call):
        order.append(asked.seed)
        await found.reach(0)
        found.note(TextDelta(text="x", tokens=1))
        found.note(end(1))

    traces = await together(ask, [request("x", 1, seed) for seed in range(3)])
    assert order == [0, 1, 2]
    assert all(found.end is not None and found.ended >= found.asked for found in traces)


class FixedLoop:
    """A bare loop of 50 tokens a second; `asked` is how many tokens it was given."""

    def __init__(self):
        self.asked = []

    async def run(self, task):
        self.asked.append(task.tokens)
        return Figure(tokens=100, seconds=2.0)


def writer(rate, length):
    """An `ask` that writes `length` tokens at `rate` tokens a second, on a clock of its own."""

    async def ask(asked, found, call):
        found.asked = 0.0
        for number in range(1, min(length, asked.max_tokens) + 1):
            found.note(TextDelta(text="x", tokens=number), number / rate)
        found.note(end(min(length, asked.max_tokens)), 10 / rate)

    return ask


async def test_a_duel_tells_both_rates_and_their_ratio():
    duel = Duel(writer(40.0, 1000), FixedLoop(), Sizes(rounds=3))
    pair = await duel.decode(2)
    assert (pair.ours, pair.bare, pair.ratio) == (pytest.approx(80.0), 50.0, pytest.approx(1.6))
    pair = await duel.prefill(1)
    assert (pair.ours, pair.ratio) == (pytest.approx(9 / 0.25), pytest.approx(0.72)), "9 tokens that were not cached"


async def test_the_bare_loop_is_given_as_many_tokens_as_ours_had():
    bare = FixedLoop()
    duel = Duel(writer(40.0, 30), bare, Sizes(decode=48, rounds=3))
    await duel.decode(2)
    await duel.prefill(1)
    assert bare.asked == [30] * 3 + [9] * 3


async def test_a_model_that_says_nothing_has_no_rate():
    with pytest.raises(Unavailable, match="ends its replies"):
        await Pace(writer(40.0, 2), Sizes()).decode(1)
