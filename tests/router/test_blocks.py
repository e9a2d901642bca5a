"""A whole text gives the blocks of its stream, each with all it said."""

from hypothesis import given
from hypothesis import strategies as st

from council.marked_text import read_marked
from router import MarkedBlock, read_blocks
from router.blocks import BlockCollector
from router.markers import MarkerParser

OUTPUT = "Well:\nPLAN: 1. a\n\nRESPONSE: Hello\nTHOUGHT_SEED: later\n\nand more\nVERIFY:\n"
BLOCKS = [
    MarkedBlock("", "Well:", 0),
    MarkedBlock("PLAN", "1. a", 0),
    MarkedBlock("RESPONSE", "Hello\n\nand more", 0),
    MarkedBlock("THOUGHT_SEED", "later", 1),
    MarkedBlock("VERIFY", "", 0),
]


def test_a_whole_text_as_blocks() -> None:
    output = read_blocks(OUTPUT, "strict")
    assert output.blocks == BLOCKS
    assert output.notes == ["text before the first marker went to the council's log"]


def test_text_without_a_marker_is_a_response_unless_told_otherwise() -> None:
    assert read_blocks("Hello", "tolerant").blocks == [MarkedBlock("RESPONSE", "Hello", 0)]
    assert read_blocks("Hello", "tolerant", default=None).blocks == [MarkedBlock("", "Hello", 0)]
    assert read_blocks(" \n", "tolerant").blocks == []


def test_a_stream_is_collected_as_it_comes() -> None:
    parser, collector = MarkerParser("strict", "RESPONSE"), BlockCollector()
    collector.add(parser.feed("RESPONSE: Hel"))
    assert collector.blocks() == [MarkedBlock("RESPONSE", "Hel", 0)]
    collector.add(parser.feed("lo\nTHOUGHT_SEED: x"))
    collector.add(parser.finish())
    assert collector.blocks() == [MarkedBlock("RESPONSE", "Hello", 0), MarkedBlock("THOUGHT_SEED", "x", 1)]


EXACT = st.sampled_from(
    [
        "PLAN: ",
        "EXECUTE:",
        "RESPONSE: ",
        "INTERRUPT: x",
        "\n```\n",
        "\n```sh\nls\n```\n",
        "a",
        "é: ",
        "\n",
        "\n\n",
        " ",
        "#",
    ]
)


@given(st.lists(EXACT, max_size=25).map("".join))
def test_exactly_marked_text_reads_as_the_council_reads_it(text: str) -> None:
    text = f"VERIFY: b\n{text}"
    ours = read_blocks(text, "strict", default=None).blocks
    assert [(block.marker, block.text) for block in ours] == read_marked(text, "VERIFY").blocks
