from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.step_plan import SHARED_CHUNK_TOKENS, Want, plan_step


def decoding(rank=(0, 1)):
    return Want(pending=1, rank=rank, prefilling=False)


def prompt(tokens, rank=(0, 1)):
    return Want(pending=tokens, rank=rank, prefilling=True)


def test_a_prompt_alone_is_read_in_large_chunks_and_in_small_ones_beside_a_running_stream():
    assert plan_step([prompt(2000)], 256) == [256]
    assert plan_step([decoding(), prompt(2000)], 256) == [1, SHARED_CHUNK_TOKENS]
    assert plan_step([prompt(5)], 256) == [5]


def test_the_urgent_prompt_is_read_first_and_the_rest_of_the_chunk_goes_to_the_next():
    assert plan_step([prompt(100, (10, 1)), prompt(200, (0, 2)), prompt(9, (0, 3))], 256) == [47, 200, 9]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500), st.integers(0, 1)), max_size=8), st.integers(1, 300))
def test_every_stream_that_decodes_gets_its_token_and_the_chunk_is_never_exceeded(wants, chunk):
    asked = [
        prompt(tokens, (rank, index)) if prefilling else decoding((rank, index))
        for index, (prefilling, tokens, rank) in enumerate(wants)
    ]
    counts = plan_step(asked, chunk)
    assert all(count == 1 for count, want in zip(counts, asked, strict=True) if not want.prefilling)
    assert all(0 <= count <= want.pending for count, want in zip(counts, asked, strict=True))
    assert sum(counts) - sum(not want.prefilling for want in asked) <= chunk
    assert not asked or any(counts), "somebody goes on"
