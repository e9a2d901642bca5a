"""Cutting literals: nothing is lost, nothing whole is left, and time stays linear."""

import time

from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.child.vocabulary import Literals

KNOWN = ["<|im_start|>", "<|im_end|>", "<s>", "<", "[INST]", "<begin\u2581of>", "<|im", "\n\n", "  ", "]^-\\x", "aa"]
LONG = [text for text in KNOWN if len(text) > 1 and text.strip(" \n\u2581")]
TEXTS = st.lists(st.one_of(st.sampled_from([*KNOWN, "<begin of>"]), st.text("<|im_start>[]^-\\xa \n", max_size=6))).map(
    "".join
)


@given(TEXTS)
def test_no_literal_is_left_whole_and_nothing_is_lost(text):
    parts = Literals(KNOWN).cut(text)
    assert "".join(parts) == text
    spaced = [part.replace(" ", "\u2581") for part in parts]
    assert not [part for part in spaced for one in LONG if one.replace(" ", "\u2581") in part]


@given(TEXTS)
def test_every_place_where_one_begins_is_found(text):
    spaced = text.replace(" ", "\u2581")
    expected = [at for at in range(len(text)) if any(spaced.startswith(one.replace(" ", "\u2581"), at) for one in LONG)]
    assert list(Literals(KNOWN).starts(text)) == expected


def test_without_literals_a_text_is_one_part():
    assert Literals([]).cut("<s>") == ["<s>"]
    assert Literals(["a", " ", "\n\n"]).cut("a \n\n") == ["a \n\n"]
    assert Literals(KNOWN).cut("") == []


def test_thousands_of_literals_cost_no_more_than_a_few():
    literals = Literals([f"<unused{number}>" for number in range(6000)])
    begun = time.process_time()
    assert len(literals.cut("<div><p>text</p></div> <unus" * 20_000)) == 1
    assert len(literals.cut("<unused77>" * 20_000)) == 20_001
    assert time.process_time() - begun < 5.0
