import itertools

from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.child.step_plan import SHORT_TOKENS, ThreadThrottle

QUERY = 10


def run(crowding, free_cores, batches):
    """So many short batches on a machine with so many cores to spare; the threads that each got."""
    got = []
    for _ in range(batches):
        threads = crowding.threads(QUERY)
        got.append(threads)
        took_s = 0.007 if threads <= free_cores else 0.110
        crowding.note(threads, QUERY, took_s, min(threads, free_cores) * 0.007)
    return got


def test_all_threads_work_while_the_cores_are_free():
    assert set(run(ThreadThrottle(2), free_cores=2, batches=50)) == {2}


def test_on_a_machine_in_use_one_thread_works_and_all_are_tried_again_ever_more_rarely():
    got = run(ThreadThrottle(2), free_cores=1, batches=600)
    assert got[0] == 2
    tries = [number for number, threads in enumerate(got) if threads == 2]
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses == sorted(pauses)
    assert len(tries) < 0.02 * len(got)


def test_they_all_work_again_when_the_cores_are_free_again():
    crowding = ThreadThrottle(4)
    assert run(crowding, free_cores=1, batches=20)[-1] == 1
    got = run(crowding, free_cores=4, batches=200)
    assert got[-1] == 4
    assert run(crowding, free_cores=4, batches=20) == [4] * 20


def test_a_long_batch_gets_all_threads_and_teaches_nothing():
    crowding = ThreadThrottle(2)
    crowding.note(2, SHORT_TOKENS + 1, 10.0, 0.1)
    assert crowding.threads(QUERY) == 2
    run(crowding, free_cores=1, batches=3)
    assert crowding.threads(SHORT_TOKENS + 1) == 2


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(1, 200), st.floats(0, 10), st.floats(0, 100)), max_size=60))
def test_there_is_always_one_thread_at_least_and_never_one_too_many(most, batches):
    crowding = ThreadThrottle(most)
    for tokens, took_s, processor_s in batches:
        threads = crowding.threads(tokens)
        assert 1 <= threads <= most
        crowding.note(threads, tokens, took_s, processor_s)
