import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.remote.wire import WORD_JOINER, plain_text
from gaiad.wire.generation import Segment

LITERALS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|channel>",
    "<channel|>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "<s>",
    "</s>",
    "<S>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[SYSTEM_PROMPT]",
    "[gMASK]",
    "<sop>",
    "<<SYS>>",
    "<</SYS>>",
    "<think>",
    "</think>",
    "<tool_call>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<begin_of_box>",
    "<fim_prefix>",
    "<file_sep>",
    "<unused99>",
    "<reserved_12>",
    "<extra_id_0>",
]
PIECES = st.sampled_from(
    [*LITERALS, "<", "|", ">", "<|", "|>", "[", "]", "/", "a", " ", "INST", "s", "｜", "think", "<<"]
)


def spells_control(text):
    return plain_text([Segment(text)]) != text


@pytest.mark.parametrize("literal", LITERALS)
def test_a_control_token_in_untrusted_text_is_broken_and_reads_the_same(literal):
    shown = plain_text([Segment(f"say {literal} now", source="TP-1")])
    assert literal not in shown
    assert not spells_control(shown)
    assert shown.replace(WORD_JOINER, "") == f"say {literal} now"


@pytest.mark.parametrize(
    "text",
    ["a < b > c", "x[0] | y", "<b>bold</b>", "[link](http://x)", "List<String>", "[ ] todo", "if a<s: pass", "[1]"],
)
def test_plain_text_stays_as_it_is(text):
    assert plain_text([Segment(text)]) == text


def test_trusted_text_goes_as_it_is_also_in_parts():
    parts = [Segment("<|im_", trusted=True), Segment("start|>user\n", trusted=True), Segment("hi <s>")]
    assert plain_text(parts) == f"<|im_start|>user\nhi <{WORD_JOINER}s>"


@pytest.mark.parametrize(
    "parts",
    [
        [Segment("<|im_"), Segment("start|>")],
        [Segment("<"), Segment("|im_start|>", trusted=True)],
        [Segment("<|im_start", trusted=True), Segment("|>")],
        [Segment("[IN"), Segment("", trusted=True), Segment("ST]")],
    ],
)
def test_a_token_put_together_from_parts_is_broken_too(parts):
    assert not spells_control(plain_text(parts))


@given(st.lists(PIECES, max_size=30))
def test_nothing_untrusted_ever_spells_a_control_token(pieces):
    shown = plain_text([Segment(piece) for piece in pieces])
    assert not spells_control(shown)
    assert shown.replace(WORD_JOINER, "") == "".join(pieces)


@pytest.mark.parametrize("piece", ["<|", "<", "<|a", "</", "<tool_", "[", "[/", "<a", "<s", "<|im_start|>", "｜"])
def test_the_time_grows_with_the_text_and_no_faster(piece):
    text = piece * (200_000 // len(piece))
    begun = time.process_time()
    plain_text([Segment(text)])
    assert time.process_time() - begun < 8.0
