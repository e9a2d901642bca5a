from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.child.step_plan import AIM_S, FIRST_CHUNK, LONE_AIM_S, StepBudget
from gaiad.models.supervision.process import RestartPolicy


def test_before_anything_is_known_the_chunk_is_middling_and_never_above_the_batch():
    assert StepBudget(256).shared_chunk == FIRST_CHUNK
    assert StepBudget(20).shared_chunk == 20


def run(machine, pace, steps):
    """Steps as a machine of (seconds to write, seconds a prompt token) takes them; the longest of the last half."""
    writing, reading = machine
    took = []
    for _ in range(steps):
        pace.note(0, 4, writing)
        chunk = pace.shared_chunk
        took.append(writing + chunk * reading)
        pace.note(chunk, 4, took[-1])
    return max(took[steps // 2 :])


def test_a_slow_machine_takes_little_at_a_time_and_a_fast_one_much():
    slow, fast = StepBudget(256), StepBudget(256)
    assert run((0.06, 0.006), slow, 10) <= AIM_S
    run((0.002, 0.0002), fast, 10)
    assert slow.shared_chunk == 16
    assert fast.shared_chunk == 256


def test_it_follows_a_machine_that_becomes_slower():
    pace = StepBudget(256)
    run((0.01, 0.001), pace, 10)
    before = pace.shared_chunk
    assert run((0.01, 0.005), pace, 20) <= AIM_S
    assert pace.shared_chunk < before


def test_a_few_tokens_tell_nothing_of_a_prompts_price():
    pace = StepBudget(256)
    pace.note(2, 0, 0.5)
    assert pace.shared_chunk == FIRST_CHUNK


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 8), st.floats(0.0, 100.0))), st.integers(1, 512))
def test_whatever_was_measured_the_chunk_stays_in_its_bounds(steps, most):
    pace = StepBudget(most)
    for read, written, took in steps:
        pace.note(read, written, took)
    for chunk in (pace.shared_chunk, pace.lone_chunk):
        assert min(16, most) <= chunk <= most
    assert pace.shared_chunk <= pace.lone_chunk


def test_a_step_too_short_to_measure_is_no_division_by_nearly_nothing():
    pace = StepBudget(256)
    pace.note(16, 0, 2e-309)
    assert pace.shared_chunk == 256


def read_alone(pace, reading, steps):
    """Seconds of each step of a prompt on a machine that takes `reading` seconds a token."""
    took = []
    for _ in range(steps):
        chunk = pace.lone_chunk
        took.append(chunk * reading)
        pace.note(chunk, 0, took[-1])
    return took


def test_a_slow_model_that_reads_alone_comes_round_long_before_it_counts_as_lost():
    first, *others = read_alone(StepBudget(256), 0.125, 10)
    assert first < RestartPolicy().ping_grace_s / 2
    assert max(others) <= LONE_AIM_S


def test_a_fast_model_that_reads_alone_takes_the_whole_batch():
    pace = StepBudget(256)
    read_alone(pace, 0.002, 2)
    assert pace.lone_chunk == 256
