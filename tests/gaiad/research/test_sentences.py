import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.sentences import cut_at_word, lead_end, split


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in split(text)]


def test_full_stops_end_sentences() -> None:
    assert texts("One thing. Another thing! A third?") == ["One thing.", "Another thing!", "A third?"]


def test_versions_numbers_and_abbreviations_do_not() -> None:
    text = "Schema v2.0 costs 3.5 units, e.g. Dr. Smith's. It holds."
    assert texts(text) == ["Schema v2.0 costs 3.5 units, e.g. Dr. Smith's.", "It holds."]


def test_any_capital_begins_a_sentence_and_is_an_initial() -> None:
    text = "It broke. Łukasz mended it. Потом Иван позвонил. Это помогло. Η Ελένη ήρθε. Όλα καλά. Ask Ł. Nowak."
    assert len(texts(text)) == 7
    assert texts(text)[-1] == "Ask Ł. Nowak."


def test_wrapped_lines_stay_one_sentence() -> None:
    assert texts("A sentence that is\n    wrapped over lines.\nNext one.") == [
        "A sentence that is\n    wrapped over lines.",
        "Next one.",
    ]


def test_empty_lines_lists_and_speakers_end_sentences() -> None:
    text = "Heading\n\n- first point\n- second point\nAnna: hello there\nBob: good day"
    assert texts(text) == ["Heading", "- first point", "- second point", "Anna: hello there", "Bob: good day"]


def test_a_lead_is_whole_sentences_within_the_limit() -> None:
    text = "Anna: One two. Three four. Five six."
    assert text[6 : lead_end(text, 6, 20)] == "One two. Three four."
    assert lead_end("A very long sentence without an end", 0, 12) == len("A very long")


def test_a_cut_never_splits_a_word() -> None:
    assert cut_at_word("alpha beta gamma", 0, 12) == 10
    assert cut_at_word("alphabetagamma", 0, 5) == 5


@given(st.text(max_size=400))
def test_offsets_are_exact_and_nothing_is_lost(text: str) -> None:
    sentences = split(text)
    for sentence in sentences:
        assert text[sentence.start : sentence.end] == sentence.text
        assert sentence.text.strip() == sentence.text != ""
    covered = "".join(sentence.text for sentence in sentences)
    assert "".join(covered.split()) == "".join(text.split())
    assert all(a.end <= b.start for a, b in itertools.pairwise(sentences))


@pytest.mark.parametrize("text", ["." * 40_000, "a" + " " * 120_000 + "b"], ids=["dots", "spaces"])
def test_a_long_run_of_one_mark_costs_no_square_of_it(text: str) -> None:
    began = time.process_time()
    assert texts(text) == [text]
    assert time.process_time() - began < 5  # a square of it takes minutes
