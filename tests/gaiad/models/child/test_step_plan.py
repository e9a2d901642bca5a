from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.child.step_plan import Want, plan_step


def decoding(rank=(0, 1)):
    return Want(pending=1, rank=rank, prefilling=False)


def prompt(tokens, rank=(0, 1)):
    return Want(pending=tokens, rank=rank, prefilling=True)


def test_a_prompt_alone_is_read_in_large_chunks_and_in_small_ones_beside_a_running_stream():
    assert plan_step([prompt(2000)], 256, 64) == [256]
    assert plan_step([decoding(), prompt(2000)], 256, 64) == [1, 64]
    assert plan_step([prompt(5)], 256, 64) == [5]


def test_the_urgent_prompt_is_read_first_and_the_rest_of_the_chunk_goes_to_the_next():
    assert plan_step([prompt(100, (10, 1)), prompt(200, (0, 2)), prompt(9, (0, 3))], 256, 64) == [47, 200, 9]


def test_background_work_does_not_write_while_a_persons_prompt_is_read():
    background, person = decoding((10, 1)), decoding((0, 2))
    assert plan_step([background, prompt(500, (0, 3))], 256, 64) == [0, 256]
    assert plan_step([background, person, prompt(500, (0, 3))], 256, 64) == [0, 1, 64]
    assert plan_step([background, person, prompt(500, (10, 3))], 256, 64) == [1, 1, 64]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500), st.integers(0, 1)), max_size=8), st.integers(1, 300))
def test_who_decodes_gets_one_token_unless_a_more_urgent_prompt_is_read_and_the_chunk_is_never_exceeded(wants, chunk):
    asked = [
        prompt(tokens, (rank, index)) if prefilling else decoding((rank, index))
        for index, (prefilling, tokens, rank) in enumerate(wants)
    ]
    counts = plan_step(asked, chunk, min(chunk, 64))
    urgent = min((want.rank[0] for want in asked if want.prefilling), default=9)
    for count, want in zip(counts, asked, strict=True):
        assert want.prefilling or count == (want.rank[0] <= urgent)
        assert 0 <= count <= want.pending
    assert sum(counts) - sum(not want.prefilling for want in asked) <= chunk
    assert not asked or any(counts), "somebody goes on"
