import asyncio
import contextlib
import os
import signal
import time

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.supervision.process import RestartPolicy
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, Segment, TextDelta
from tests.makers.waiting import until

CLOCK = SystemClock("UTC")
GREEDY = Sampling(temperature=0.0)
LONG_PROMPT = "a page of words that goes on and on; " * 70


def request(text="Once upon a time", tokens=24, seed=5, **more):
    more.setdefault("sampling", Sampling())
    return GenerateRequest(segments=[Segment(text)], max_tokens=tokens, seed=seed, **more)


async def whole(generator, asked, call=None):
    """The final event, after a check that it repeats what was streamed."""
    events = [event async for event in generator.generate(asked, call or RequestContext())]
    last = events.pop()
    assert isinstance(last, Generated)
    assert all(isinstance(event, TextDelta) and event.text for event in events)
    assert "".join(event.text for event in events) == last.text
    return last


async def test_text_comes_in_pieces_and_the_end_carries_the_times(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama)
    last = await whole(generator, request())
    assert (last.reason, last.tokens, last.seed, last.fingerprint) == ("length", 24, 5, generator.fingerprint)
    assert last.prompt_tokens == len("Once upon a time") + 1, "a token for each byte and the beginning"
    assert last.prefill_ms > 0 < last.decode_ms
    assert 0 <= last.queue_ms < 60_000


async def test_the_same_seed_gives_the_same_text_and_another_seed_another(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama)
    texts = [(await whole(generator, request(seed=seed))).text for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]
    drawn = [(await whole(generator, request(seed=None))).seed for _ in range(2)]
    assert drawn[0] != drawn[1], "without a seed one is drawn, and told"


async def test_temperature_0_ignores_the_seed_and_penalties_change_the_text(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama)
    plain = [(await whole(generator, request(seed=seed, tokens=60, sampling=GREEDY))).text for seed in (1, 2)]
    assert plain[0] == plain[1]
    strict = Sampling(temperature=0.0, repeat_penalty=1.5, presence_penalty=2.0)
    assert (await whole(generator, request(tokens=60, sampling=strict))).text != plain[0]


async def test_a_stop_string_ends_the_text_before_it(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama)
    free = await whole(generator, request(tokens=200))
    stop = next(free.text[at : at + 2] for at in range(5, 100) if free.text[at : at + 2].isascii())
    last = await whole(generator, request(tokens=200, stop=["never there", stop]))
    assert (last.reason, last.stop) == ("stop", stop)
    assert last.text == free.text[: free.text.index(stop)]


async def test_many_at_once_get_what_each_would_get_alone(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, parallel=4)
    asked = [request(f"Story number {number}" * (number + 1), 30 + number, number) for number in range(9)]
    together = await asyncio.gather(*(whole(generator, one) for one in asked))
    fresh = await open_generator(tiny_llama, parallel=1)
    for one, last in zip(asked, together, strict=True):
        assert last.tokens == one.max_tokens
        assert last.text[:8] == (await whole(fresh, one)).text[:8], "another one's text"


async def test_a_shared_beginning_is_not_read_again(open_generator, slow_llama):
    generator = await open_generator(slow_llama)
    cold = await whole(generator, request(LONG_PROMPT + "one", 4, sampling=GREEDY))
    warm = await whole(generator, request(LONG_PROMPT + "two", 4, sampling=GREEDY))
    assert cold.cached_tokens == 1, "the beginning of every text, known from the first try at start"
    assert warm.cached_tokens == len(LONG_PROMPT) + 1
    assert warm.prefill_ms < cold.prefill_ms * 0.3
    fresh = await open_generator(slow_llama)
    assert (await whole(fresh, request(LONG_PROMPT + "two", 4, sampling=GREEDY))).text == warm.text


async def test_a_prompt_that_can_never_fit_is_refused_with_numbers(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, context=256)
    with pytest.raises(BadInput, match=r"has 201 tokens and 100 more are asked for.* room for 256.* at most 55"):
        await whole(generator, request("x" * 200, 100))
    with pytest.raises(BadInput, match="characters"):
        await whole(generator, request("x" * 1_000_000, 1))
    assert (await whole(generator, request("x" * 200, 55))).tokens == 55


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": 0}, "max_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**70}, f"seed is {2**70}"),
        ({"tokens": 2**70}, f"max_tokens is {2**70}"),
        ({"sampling": Sampling(top_k=2**70)}, f"top_k is {2**70}"),
        ({"sampling": Sampling(temperature=float("nan"))}, "temperature is nan"),
        ({"sampling": Sampling(top_p=1.5)}, "top_p is 1.5"),
        ({"sampling": Sampling(repeat_window=10**9)}, "repeat_window"),
    ],
)
async def test_settings_out_of_range_are_named(open_generator, tiny_llama, change, words):
    generator = await open_generator(tiny_llama)
    with pytest.raises(BadInput, match=words):
        await whole(generator, request(**change))
    assert not generator._supervisor._in_flight, "a request that was never sent waits for no answer"


async def test_a_context_larger_than_trained_is_refused_at_start(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, wait=False, context=4096)
    with pytest.raises(Unavailable, match=r"4096 tokens is asked for, it was trained for 2048; lower models.context"):
        await generator.wait_ready(30.0)


async def test_more_than_the_cells_hold_wait_for_each_other(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, context=256, parallel=4)
    lasts = await asyncio.gather(*(whole(generator, request(str(number) * 40, 180, number)) for number in range(6)))
    assert [last.tokens for last in lasts] == [180] * 6
    assert max(last.queue_ms for last in lasts) > min(last.queue_ms for last in lasts) + 1


async def test_a_cancelled_stream_frees_its_place_and_the_others_go_on_unharmed(open_generator, slow_llama):
    generator = await open_generator(slow_llama, parallel=2)
    alone = await whole(generator, request("stay", 150, sampling=GREEDY))
    call, pid = RequestContext(), generator.status().pid

    async def cancelled():
        events = generator.generate(request(LONG_PROMPT, 1000), call)
        assert isinstance(await anext(events), TextDelta)
        call.cancel()
        with pytest.raises(Cancelled):
            [event async for event in events]

    async with asyncio.TaskGroup() as group:
        stays = group.create_task(whole(generator, request("stay", 150, sampling=GREEDY)))
        group.create_task(cancelled())
    assert (stays.result().tokens, stays.result().text[:60]) == (150, alone.text[:60])
    assert generator.status().pid == pid


async def test_closing_the_iterator_stops_the_work(open_generator, slow_llama):
    generator = await open_generator(slow_llama, parallel=1)
    begun = time.monotonic()
    await whole(generator, request("w", 100))
    a_token_s = (time.monotonic() - begun) / 100
    async with contextlib.aclosing(generator.generate(request("x", 4000), RequestContext())) as events:
        await anext(events)
    begun = time.monotonic()
    await whole(generator, request("y", 2))
    assert time.monotonic() - begun < a_token_s * 4000 / 2, "it wrote the 4,000 tokens to their end"


async def test_a_deadline_ends_a_stream(open_generator, slow_llama):
    generator = await open_generator(slow_llama)
    with pytest.raises(DeadlineExceeded):
        await whole(generator, request("x", 4000), RequestContext(deadline=CLOCK.monotonic() + 0.2))


async def test_a_person_goes_before_background_work_which_then_goes_on_where_it_was(open_generator, slow_llama):
    generator = await open_generator(slow_llama, parallel=1)
    expected = (await whole(generator, request("long", 2500, sampling=GREEDY))).text
    finished = []

    async def run(name, asked, call):
        last = await whole(generator, asked, call)
        finished.append(name)
        return last

    async with asyncio.TaskGroup() as group:
        work = run("background", request("long", 2500, sampling=GREEDY), RequestContext(priority=Priority.BACKGROUND))
        background = group.create_task(work)
        await until(lambda: generator._line.running == 1)
        assert not background.done()
        group.create_task(run("person", request("quick", 5), RequestContext()))
    assert finished == ["person", "background"]
    last = background.result()
    assert (last.tokens, last.text[:60]) == (2500, expected[:60]), "batching moves logits a little, so ends may differ"


async def test_the_heart_beats_with_a_real_token_beside_running_streams(open_generator, slow_llama):
    generator = await open_generator(slow_llama)
    async with asyncio.TaskGroup() as group:
        stream = group.create_task(whole(generator, request("x", 1500)))
        beats = [await generator.beat(RequestContext()) for _ in range(5)]
        assert not stream.done()
    assert all(beat > 0 for beat in beats)
    assert stream.result().tokens == 1500


async def test_a_full_line_says_when_to_come_back(open_generator, slow_llama):
    generator = await open_generator(slow_llama, parallel=1, queue=1)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(whole(generator, request("x", 600)))
        await until(lambda: (generator._line.running, generator._line.waiting) == (1, 1))
        with pytest.raises(Unavailable, match="already wait") as refusal:
            await whole(generator, request())
    assert refusal.value.retry_after_s > 0


async def test_a_worker_killed_mid_stream_is_one_error_to_each_caller_and_comes_back(open_generator, slow_llama):
    generator = await open_generator(slow_llama)
    pid, errors = generator.status().pid, []

    async def hit(number):
        try:
            await whole(generator, request(f"caller {number}", 3000))
        except WorkerDied as error:
            errors.append(str(error))

    async with asyncio.TaskGroup() as group:
        for number in range(6):  # two of them still wait for a place
            group.create_task(hit(number))
        await until(lambda: (generator._line.running, generator._line.waiting) == (4, 2))
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: len(errors) >= 4)
        await generator.wait_ready(30.0)
        assert generator.status().pid not in (0, pid)
        assert all("SIGKILL" in error for error in errors)
    assert (await whole(generator, request())).tokens == 24
    assert generator.status().restarts == 1


async def test_a_worker_that_hangs_is_killed_after_a_missed_cancel(open_generator, slow_llama):
    generator = await open_generator(slow_llama, restart_policy=RestartPolicy(cancel_grace_s=0.3, first_backoff_s=0.02))
    pid = generator.status().pid
    call = RequestContext(deadline=CLOCK.monotonic() + 1.5)
    async with asyncio.TaskGroup() as group:

        async def meets_deadline():
            with pytest.raises(DeadlineExceeded):
                await whole(generator, request("x", 4000), call)

        group.create_task(meets_deadline())
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGSTOP)
    await until(lambda: generator.status().pid not in (0, pid) and generator.status().state == "ready")
    assert (await whole(generator, request())).tokens == 24


async def test_a_worker_that_stops_amid_streams_without_a_deadline_is_one_error_to_each_and_comes_back(
    open_generator, slow_llama
):
    restart_policy = RestartPolicy(start_s=30.0, ping_every_s=0.2, ping_grace_s=1.0, first_backoff_s=0.02)
    generator = await open_generator(slow_llama, parallel=2, restart_policy=restart_policy)
    pid, errors = generator.status().pid, []

    async def hit(number):
        try:
            await whole(generator, request(f"caller {number}", 3000))
        except WorkerDied as error:
            errors.append(str(error))

    async with asyncio.timeout(30.0), asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(hit(number))
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
    assert len(errors) == 2
    assert all("it did not answer a ping for 1 s" in error for error in errors)
    await generator.wait_ready(30.0)
    assert generator.status().pid not in (0, pid)
    assert (await whole(generator, request())).tokens == 24


async def test_a_model_that_makes_no_text_is_refused(open_generator, tiny_bert):
    generator = await open_generator(tiny_bert, wait=False)
    with pytest.raises(Unavailable, match="tiny-bert"):
        await generator.wait_ready(30.0)
