"""Messages for Discord: within its limit, whole where they can be, nothing lost."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.channels.discord_text import (
    LIMIT,
    block_messages,
    split_message,
    thread_name,
    units,
    with_also,
    with_sources,
)

CODE = "\n".join(f"line_{number} = {number}" for number in range(60))


def test_a_short_text_is_one_message():
    assert split_message("Hello there.") == ["Hello there."]
    assert split_message("  \n ") == []


def test_paragraphs_come_before_lines_and_lines_before_sentences_and_words():
    assert split_message("aaa aaa\n\nbbb bbb\nccc", 17) == ["aaa aaa", "bbb bbb\nccc"]
    assert split_message("One two. Three four\nfive", 20) == ["One two. Three four", "five"]
    assert split_message("One two. Three four five", 16) == ["One two.", "Three four five"]
    assert split_message("alpha beta gamma", 12) == ["alpha beta", "gamma"]


def test_a_word_longer_than_a_message_is_cut_and_nothing_else_is():
    pieces = split_message("x" * 45, 20)
    assert pieces == ["x" * 20, "x" * 20, "x" * 5]


def test_a_fence_that_fits_stays_whole():
    text = f"{'Words go here. ' * 20}\n```python\n{CODE}\n```\nAnd after."
    pieces = split_message(text, 900)
    assert len(pieces) == 2
    assert pieces[1] == f"```python\n{CODE}\n```\nAnd after."


def test_a_fence_that_is_too_long_is_closed_and_opened_again_in_its_language():
    pieces = split_message(f"Look:\n```python\n{CODE}\n```\nDone.", 400)
    assert len(pieces) > 2
    assert pieces[0].startswith("Look:\n```python\nline_0 = 0")
    for piece in pieces:
        assert piece.count("```") % 2 == 0
        assert units(piece) <= 400
    assert all(piece.startswith("```python\n") for piece in pieces[1:])
    code = "\n".join(line for piece in pieces for line in piece.splitlines() if line.startswith("line_"))
    assert code == CODE
    assert pieces[-1].endswith("Done.")


def test_an_unclosed_fence_is_closed_in_every_message_but_the_last():
    pieces = split_message(f"```\n{CODE}", 300)
    assert all(piece.count("```") == 2 for piece in pieces[:-1])


def test_emoji_are_counted_as_two_and_not_cut_in_half():
    family = "👨\u200d👩\u200d👧"
    pieces = split_message(family * 9, 20)
    assert "".join(pieces) == family * 9
    assert all(units(piece) <= 20 for piece in pieces)
    assert all(piece.replace(family, "") == "" for piece in pieces)


TEXTS = st.lists(
    st.sampled_from(
        ["word ", "Sentence. ", "\n", "\n\n", "```\n", "```py\n", "x" * 70, "ü", "😀", "  ", "- item\n", "`"]
    )
).map("".join)


@settings(max_examples=400)
@given(text=TEXTS, limit=st.integers(40, 120))
def test_any_text_fits_and_nothing_but_space_and_fences_is_lost(text, limit):
    pieces = split_message(text, limit)
    assert all(units(piece) <= limit and piece.strip() for piece in pieces)

    def kept(words):
        return re.sub(r"[`py\s]", "", words)  # a fence and its language may be repeated, or cut

    assert kept("\n".join(pieces)) == kept(text)


def test_markers_other_than_an_answer_are_named_and_quiet_ones_are_small():
    assert block_messages("RESPONSE", "Yes.") == ["Yes."]
    assert block_messages("VERIFY", "It holds.") == ["-# verify\nIt holds."]
    assert block_messages("RESPONSE", "one\ntwo", quiet=True) == ["-# one\n-# two"]
    assert block_messages("RESPONSE", " \n") == []


def test_sources_are_named_under_the_last_message_or_in_one_more():
    assert with_sources(["a", "b"], ["tp-1", "tp-2"]) == ["a", "b\n-# sources: `tp-1`, `tp-2`"]
    full = "x" * LIMIT
    assert with_sources([full], ["tp-1"]) == [full, "-# sources: `tp-1`"]
    seven = with_sources(["a"], [f"t{number}" for number in range(7)])
    assert seven == ["a\n-# sources: `t0`, `t1`, `t2`, `t3`, `t4` and 2 more"]
    assert with_sources([], ["tp-1"]) == []


@pytest.mark.parametrize(("text", "name"), [("  What\nis it? ", "What is it?"), ("", "conversation")])
def test_a_thread_is_called_by_its_first_words(text, name):
    assert thread_name(text) == name
    assert len(thread_name("many words " * 40)) <= 90


@pytest.mark.parametrize("piece", ["a", "word ", "```\n", "ü 😀 ", "\n \n", "```py\nx = 1\n"])
def test_a_text_without_end_is_split_in_time_linear_in_it(piece):
    def seconds(length):
        text = (piece * length)[:length]
        began = time.process_time()
        split_message(text)
        return time.process_time() - began

    assert seconds(1_000_000) < 40 * max(seconds(100_000), 0.005)


def test_a_long_fence_is_cut_as_a_short_one_however_much_comes_after_it():
    more = "x = 1\n" * 3000
    pieces = split_message(f"```py\n{CODE}\n{more}```\nDone.", 300)
    assert all(piece.startswith("```py\n") and piece.count("```") == 2 for piece in pieces[:-1])
    assert pieces[-1].endswith("Done.")
    assert sum(piece.count("x = 1") for piece in pieces) == 3000


def test_an_earlier_packet_is_named_in_small_print_or_in_a_message_of_its_own() -> None:
    words = "In [Packet: tp-7] we also covered\nbearings"
    line = "-# In [Packet: tp-7] we also covered bearings"
    assert with_also(["a", "b"], words) == ["a", f"b\n{line}"]
    full = "x" * LIMIT
    assert with_also([full], words) == [full, line]
    assert with_also(["a"], "") == ["a"]
    assert with_also([], words) == []
