import random

import pytest

from gaiad.models.child.sequences import Sequences, common_prefix


class FakeMemory:
    """Cells as llama.cpp keeps them: each knows its sequences; a copy shares, a cut lets go."""

    def __init__(self, partial=True):
        self.partial = partial
        self.held = {}
        self.next = 0

    def write(self, sequence, tokens):
        for token in tokens:
            self.held.setdefault(sequence, []).append((self.next, token))
            self.next += 1

    def copy(self, source, target, length):
        assert self.partial or length == len(self.held[source])
        assert not self.held.get(target)
        self.held[target] = self.held[source][:length]

    def truncate(self, sequence, length):
        if length and not self.partial:
            return False
        self.held[sequence] = self.held.get(sequence, [])[:length]
        return True

    def used(self):
        return len({cell for cells in self.held.values() for cell in cells})


def run(sequences, memory, tokens, room=None):
    """Place a request and evaluate all of it."""
    held = sequences.place(tokens, room or len(tokens))
    if held is not None:
        rest = tokens[held.length :]
        memory.write(held.id, rest)
        sequences.extend(held, rest)
    return held


@pytest.fixture
def memory():
    return FakeMemory()


def test_a_second_prompt_starts_from_what_the_first_left(memory):
    sequences = Sequences(memory, 4, 100)
    sequences.release(run(sequences, memory, [1, 2, 3, 4, 5]))
    held = sequences.place([1, 2, 3, 9, 9], 10)
    assert held.tokens == [1, 2, 3]
    assert sequences.used() == 5, "shared cells are counted once"


def test_a_live_sequence_is_shared_too_and_the_last_token_is_always_read_again(memory):
    sequences = Sequences(memory, 4, 100)
    run(sequences, memory, [1, 2, 3])
    assert sequences.place([1, 2, 3], 6).tokens == [1, 2]


def test_the_least_recently_used_goes_first(memory):
    sequences = Sequences(memory, 3, 20)
    for start in (10, 20):
        sequences.release(run(sequences, memory, [start + offset for offset in range(5)]))
    sequences.release(run(sequences, memory, [10, 11, 12, 13, 14, 99]))  # the older one is used again
    run(sequences, memory, [30] * 12)
    assert [held.tokens[0] for held in sequences.kept.values()] == [10]


def test_what_cannot_fit_now_gives_nothing_up(memory):
    sequences = Sequences(memory, 4, 20)
    sequences.release(run(sequences, memory, [1, 2, 3]))
    live = sequences.place([5, 6], 15)
    assert sequences.place([7, 8], 6) is None
    assert [held.tokens for held in sequences.kept.values()] == [[1, 2, 3]]
    sequences.release(live)
    assert sequences.place([7, 8], 20) is not None


def test_a_shared_beginning_makes_room_for_more(memory):
    sequences = Sequences(memory, 8, 100)
    prefix = list(range(60))
    for number in range(3):
        assert run(sequences, memory, [*prefix, 100 + number], 70) is not None, number
    assert sequences.place([*prefix, 200], 75) is None


def test_a_model_without_partial_cuts_only_continues_whole_sequences():
    memory = FakeMemory(partial=False)
    sequences = Sequences(memory, 4, 100)
    sequences.release(run(sequences, memory, [1, 2, 3]))
    assert sequences.place([1, 2, 9], 5).tokens == []
    held = sequences.place([1, 2, 3, 4], 5)
    assert held.tokens == [1, 2, 3]
    memory.write(held.id, [4])
    sequences.extend(held, [4])
    sequences.shorten(held, 3)
    assert held.tokens == [], "a refused cut means reading it all again"


def test_one_number_left_is_taken_over(memory):
    sequences = Sequences(memory, 2, 100)
    run(sequences, memory, [7, 7, 7])
    sequences.release(run(sequences, memory, [1, 2, 3, 4]))
    held = sequences.place([1, 2, 8, 8], 9)
    assert held.tokens == [1, 2]
    assert sequences.kept == {}


def test_common_prefix_by_halving_is_the_plain_one():
    dice = random.Random(5)
    for _ in range(300):
        one, other = ([dice.randint(0, 1) for _ in range(dice.randint(0, 9))] for _ in range(2))
        plain = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        assert common_prefix(one, other) == plain


@pytest.mark.parametrize("partial", [True, False])
def test_bookkeeping_and_memory_agree_through_random_traffic(partial):
    dice = random.Random(11)
    memory = FakeMemory(partial)
    sequences = Sequences(memory, 5, 64)
    for _ in range(3000):
        if sequences.live and (len(sequences.live) == 3 or dice.random() < 0.4):
            held = dice.choice(list(sequences.live.values()))
            if dice.random() < 0.3:
                sequences.shorten(held, dice.randint(0, held.length))
            sequences.release(held)
        else:
            tokens = [dice.randint(0, 1) for _ in range(dice.randint(1, 20))]
            run(sequences, memory, tokens, len(tokens) + dice.randint(0, 30))
        for held in [*sequences.live.values(), *sequences.kept.values()]:
            assert [token for _, token in memory.held.get(held.id, [])] == held.tokens
        assert memory.used() == sequences.used()
        assert sequences.used() + sum(held.room - held.length for held in sequences.live.values()) <= 64
