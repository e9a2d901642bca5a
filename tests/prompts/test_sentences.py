"""Sentences for a summary: found without loss, chosen for what they say, the same however they are embedded."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from prompts.sentences import choose_sentences, most_telling, split_sentences
from tests.makers.word_embedder import WordEmbedder


def test_sentences_end_at_stops_and_lines_and_keep_their_quotes() -> None:
    text = 'He said "Go." Then he left!\n- one item\n\nVersion 2.5 is out. Last'
    assert split_sentences(text) == ['He said "Go."', "Then he left!", "- one item", "Version 2.5 is out.", "Last"]


@given(st.text())
@example("word " * 300 + "x" * 900 + "\u3000\t" + "y-" * 500)
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_of_a_long_text_every_part_has_its_say_with_the_sentence_that_tells_most() -> None:
    sentences = [f"well then again {'so' * number}." for number in range(40)]
    sentences[7], sentences[33] = "Maria flies to Oslo on 3 May.", "The budget is 4200 Euro."
    chosen = most_telling(sentences, 4)
    assert len(chosen) == 4
    assert (chosen[0], chosen[3]) == (sentences[7], sentences[33])
    assert most_telling(["a", "b", "a"], 4) == ["a", "b"]


def test_long_sentences_are_fewer_and_none_is_longer_than_can_be_embedded_quickly() -> None:
    sentences = split_sentences("no stop in this text " * 2000)
    assert max(map(len, sentences)) <= 400
    lines = [f"{number} {'word ' * 60}" for number in range(100)]
    assert sum(map(len, most_telling(lines))) <= 6_500


async def test_what_repeats_is_not_chosen_twice(call) -> None:
    sentences = [
        "The harbour lantern keeps its light.",
        "The harbour lantern keeps its light now.",
        "Bread costs three coins at the harbour.",
        "The harbour lantern keeps light.",
    ]
    vectors = await WordEmbedder().embed(sentences, call)
    assert choose_sentences(vectors, [5, 5, 5, 5], 10)[1] == 2


async def test_a_sentence_that_does_not_fit_leaves_room_for_others(call) -> None:
    vectors = await WordEmbedder().embed(["one two three", "one two", "four"], call)
    assert sorted(choose_sentences(vectors, [50, 6, 4], 10)) == [1, 2]
    assert choose_sentences(vectors, [50, 60, 40], 10) == []


def test_noise_in_the_last_digits_changes_nothing_and_ties_go_to_the_first() -> None:
    random = np.random.default_rng(5)
    vectors = random.standard_normal((12, 16)).astype(np.float32)
    vectors = np.vstack([vectors, vectors])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    noisy = vectors + random.uniform(-1e-7, 1e-7, vectors.shape).astype(np.float32)
    chosen = choose_sentences(vectors, [1] * 24, 6)
    assert chosen == choose_sentences(noisy, [1] * 24, 6)
    assert chosen[0] < 12
