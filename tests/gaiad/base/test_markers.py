"""Marked output is cut into the same blocks however its stream is split, early, and only by what is a marker."""

import time
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaiad.base.marker_forms import BLANK_CHARACTERS, LONGEST_HEAD, Marker, MarkerPiece, Mode
from gaiad.base.markers import (
    MOST_DEPTH,
    MOST_NOTES,
    PREAMBLE_CHARACTERS,
    MarkedBlock,
    MarkerParser,
    Sighting,
    read_blocks,
)

Read = list[tuple[str, str, int]]


def stream(parser: MarkerParser, pieces: list[str]) -> list[MarkerPiece]:
    return [piece for text in pieces for piece in parser.feed(text)] + parser.finish()


def joined(pieces: list[MarkerPiece]) -> list[MarkerPiece]:
    """Neighbouring texts as one."""
    found: list[MarkerPiece] = []
    for piece in pieces:
        if found and piece.kind == "text" == found[-1].kind:
            found[-1] = msgspec.structs.replace(piece, text=found[-1].text + piece.text)
        else:
            found.append(piece)
    return found


def read(text: str, mode: Mode = "tolerant", default: Marker | None = "RESPONSE") -> tuple[Read, list[str]]:
    """The texts of all blocks as (marker, text, depth), and the notes."""
    parser = MarkerParser(mode, default)
    pieces = joined(stream(parser, [text]))
    return [(piece.marker, piece.text, piece.depth) for piece in pieces if piece.kind == "text"], parser.notes


FRAGMENTS = st.sampled_from(
    [
        *("PLAN:", "EXECUTE:", "RESPONSE:", "THOUGHT_SEED:", "INTERRUPT:", "VERIFY:", "CONTINUE", " / ", "INTERRUPT"),
        *("Plan:", "response:", "**PLAN:**", "**Verify**:", "## Plan", "- INTERRUPT:", "2. PLAN:", "THOUGHT\\_SEED:"),
        *("```", "~~~", "```bash", "`", "- ", "* ", "> ", "1. ", "# ", "<think>", "</think>", "<", "</th", ":", "："),
        *("\n", "\n", "\n", "\n\n", "\r\n", "\r", " ", "  ", "\t", "\ufeff", "word", "P", "EXEC", "UTE: ls", "é", "*"),
        *("and some longer words that make a preamble too long to be one ", " " * 70, "\n" * (BLANK_CHARACTERS + 9)),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=40).map("".join)
MODES = st.sampled_from(("strict", "tolerant"))
DEFAULTS = st.sampled_from((None, "RESPONSE", "PLAN"))


@settings(max_examples=400)
@given(TEXTS, MODES, DEFAULTS, st.data())
def test_any_split_gives_the_blocks_of_the_whole(
    text: str, mode: Mode, default: Marker | None, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    whole, split, single = (MarkerParser(mode, default) for _ in range(3))
    expected = joined(stream(whole, [text]))
    assert joined(stream(split, pieces)) == expected
    assert joined(stream(single, list(text))) == expected
    assert whole.notes == split.notes == single.notes
    assert whole.sightings() == split.sightings() == single.sightings()


@settings(max_examples=200)
@given(TEXTS, MODES, DEFAULTS)
@example("```\nRESPONSE: x\n" + "w" * 300, "strict", "RESPONSE")
def test_no_more_is_held_back_than_may_still_be_a_marker(text: str, mode: Mode, default: Marker | None) -> None:
    for end in range(0, len(text) + 1, 7):
        parser = MarkerParser(mode, default)
        kinds = [piece.kind for piece in parser.feed(text[:end])]
        opened = kinds.count("open") > kinds.count("close")
        held = "".join("".join(piece.text for piece in parser.finish()).split())
        assert len(held) <= LONGEST_HEAD + (0 if opened or not default else PREAMBLE_CHARACTERS)


@given(TEXTS, MODES)
@example("\ufeffPLAN:", "tolerant")
def test_every_block_of_a_marker_was_sighted_where_the_text_spells_it(text: str, mode: Mode) -> None:
    parser = MarkerParser(mode, None)
    opened = [piece.marker for piece in stream(parser, [text]) if piece.kind == "open" and piece.marker]
    sightings = parser.sightings()
    assert [one.marker for one in sightings if one.marker != "EXECUTE"] == [one for one in opened if one != "EXECUTE"]
    for marker, at in sightings:
        assert text[at:].lstrip("#*_-+0123456789.) \t")[:4].upper() == marker[:4]


@settings(max_examples=200)
@given(TEXTS)
def test_in_strict_mode_nothing_but_markers_and_white_space_leaves_the_text(text: str) -> None:
    text = text.replace("think", "thick")
    said = "".join(
        piece.text + (f"{piece.marker}:" if piece.kind == "open" and piece.marker else "")
        for piece in stream(MarkerParser("strict", None), [text])
    )
    assert "".join(said.split()) == "".join(text.split())


@settings(max_examples=200)
@given(TEXTS, MODES, DEFAULTS)
def test_blocks_open_and_close_in_pairs_and_only_seeds_and_thoughts_nest(
    text: str, mode: Mode, default: Marker | None
) -> None:
    opened: list[MarkerPiece] = []
    for piece in stream(MarkerParser(mode, default), [text]):
        if piece.kind == "open":
            assert piece.depth == len(opened) <= MOST_DEPTH + 1
            assert piece.depth == 0 or piece.marker in ("", "THOUGHT_SEED")
            opened.append(piece)
        else:
            assert (piece.marker, piece.depth) == (opened[-1].marker, opened[-1].depth)
            assert (piece.text != "") == (piece.kind == "text")
            opened = opened if piece.kind == "text" else opened[:-1]
    assert not opened


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_the_six_markers_at_the_beginning_of_a_line(mode: Mode) -> None:
    text = "PLAN: 1\n2\n\nEXECUTE:\nls\nRESPONSE: hi\nINTERRUPT: no\nVERIFY: ok\nTHOUGHT_SEED: then\n"
    assert read(text, mode) == (
        [
            *(("PLAN", "1\n2", 0), ("EXECUTE", "ls", 0), ("RESPONSE", "hi", 0), ("INTERRUPT", "no", 0)),
            *(("VERIFY", "ok", 0), ("THOUGHT_SEED", "then", 1)),
        ],
        [],
    )


def test_text_streams_as_it_comes() -> None:
    parser = MarkerParser("tolerant", "RESPONSE")
    assert parser.feed("RESPONSE: The ans") == [
        MarkerPiece("open", "RESPONSE", "", 0),
        MarkerPiece("text", "RESPONSE", "The ans", 0),
    ]
    assert parser.feed("wer") == [MarkerPiece("text", "RESPONSE", "wer", 0)]
    assert parser.feed(".\nPlea") == [MarkerPiece("text", "RESPONSE", ".\nPlea", 0)]
    assert parser.feed("se.\nPL") == [MarkerPiece("text", "RESPONSE", "se.", 0)]
    assert parser.feed("AN") == []
    assert parser.feed("E") == [MarkerPiece("text", "RESPONSE", "\nPLANE", 0)]
    assert parser.finish() == [MarkerPiece("close", "RESPONSE", "", 0)]


def test_output_without_a_marker_is_the_default() -> None:
    assert read("It is 42.\n\nPlan: the Pro one.\n") == ([("RESPONSE", "It is 42.\n\nPlan: the Pro one.", 0)], [])
    assert read("It is 42.", default=None) == ([("", "It is 42.", 0)], [])
    parser = MarkerParser("tolerant", "RESPONSE")
    assert parser.feed("w" * PREAMBLE_CHARACTERS) == []
    assert [piece.text for piece in parser.feed("x")] == ["", "w" * PREAMBLE_CHARACTERS + "x"]


def test_a_preamble_belongs_to_no_marker() -> None:
    blocks, notes = read("Sure, here it is:\n\nRESPONSE: It is 42.")
    assert blocks == [("", "Sure, here it is:", 0), ("RESPONSE", "It is 42.", 0)]
    assert notes == ["text before the first marker went to the council's log"]


def test_text_too_long_for_a_preamble_is_passed_on_and_the_notes_say_so() -> None:
    blocks, notes = read("w" * (PREAMBLE_CHARACTERS + 1) + "\nTHOUGHT_SEED: s\nRESPONSE: It is 42.\nPLAN: p")
    assert [marker for marker, _, _ in blocks] == ["RESPONSE", "THOUGHT_SEED", "RESPONSE", "PLAN"]
    assert notes == ["text before the first marker was passed on as RESPONSE before the marker came"]


def test_words_before_a_seed_are_the_answer_for_a_seed_stands_inside_blocks() -> None:
    assert read("It is 42.\nTHOUGHT_SEED: why?")[0] == [("RESPONSE", "It is 42.", 0), ("THOUGHT_SEED", "why?", 1)]


def test_a_seed_gives_way_to_its_block_at_a_blank_line() -> None:
    blocks, _ = read("RESPONSE: a\nTHOUGHT_SEED: b\n  THOUGHT_SEED: c\nd\nTHOUGHT_SEED: e\n\nf\nVERIFY: g")
    assert blocks == [
        *(("RESPONSE", "a", 0), ("THOUGHT_SEED", "b", 1), ("THOUGHT_SEED", "c\nd", 2), ("THOUGHT_SEED", "e", 1)),
        *(("RESPONSE", "\n\nf", 0), ("VERIFY", "g", 0)),
    ]
    assert read("THOUGHT_SEED: a\n\nb")[0] == [("THOUGHT_SEED", "a", 0), ("RESPONSE", "b", 0)]
    assert read("THOUGHT_SEED: a\n\nb", default=None)[0] == [("THOUGHT_SEED", "a\n\nb", 0)]


def test_nothing_is_added_to_a_command_behind_a_seed() -> None:
    assert read("EXECUTE: ls\nTHOUGHT_SEED: a\n\nrm", default=None)[0] == [
        ("EXECUTE", "ls", 0),
        ("THOUGHT_SEED", "a\n\nrm", 0),
    ]


def test_markers_in_code_fences_are_text() -> None:
    for fence in ("```", "~~~~", "```text"):
        text = f"RESPONSE: so:\n{fence}\nEXECUTE: rm -rf x\n{fence[:4].rstrip('t')}\nVERIFY: ok"
        assert [marker for marker, _, _ in read(text)[0]] == ["RESPONSE", "VERIFY"]
    nested = "RESPONSE:\n```markdown\n```bash\nls\n```\nEXECUTE: x\n```\nPLAN: p"
    assert [marker for marker, _, _ in read(nested)[0]] == ["RESPONSE", "PLAN"]
    listed = "RESPONSE:\n- ```\n  x\n  ```\nPLAN: p"
    assert [marker for marker, _, _ in read(listed)[0]] == ["RESPONSE", "PLAN"]
    assert read("EXECUTE: ```bash\nls\n```\nVERIFY: ok")[0] == [("EXECUTE", "```bash\nls\n```", 0), ("VERIFY", "ok", 0)]
    assert read("RESPONSE: ``` inline ``` \nPLAN: p")[0][1] == ("PLAN", "p", 0)
    assert len(read("RESPONSE:\n```\n- ```\nPLAN: p\n```")[0]) == 1


def test_a_fence_that_never_closes_is_told() -> None:
    assert read("RESPONSE:\n```\nPLAN: p")[1] == ["a code fence was never closed; markers behind it were read as text"]


def test_models_write_markers_in_other_case_and_decorated() -> None:
    blocks, notes = read("Plan:\n1. a\n\nResponse: Hello\nPlan: Pro\n**VERIFY:** ok")
    assert blocks == [("PLAN", "1. a", 0), ("RESPONSE", "Hello\nPlan: Pro", 0), ("VERIFY", "ok", 0)]
    assert notes == [
        *("PLAN was written as 'Plan:'", "RESPONSE was written as 'Response:'", "VERIFY was written as '**VERIFY:**'"),
    ]
    assert read("Plan:\n1. a\nVerify: b")[0] == [("PLAN", "1. a", 0), ("VERIFY", "b", 0)]
    for spelled in ("## Plan\n", "**Plan**\n", "PLAN\n", "### PLAN: ", " PLAN : ", "PLAN：", "**PLAN**: ", "- PLAN: "):
        assert read(f"{spelled}a")[0] == [("PLAN", "a", 0)], spelled
        assert len(read(f"{spelled}a")[1]) == 1
        assert read(f"{spelled}a", "strict")[0][0][0] == "RESPONSE"
    assert read("RESPONSE: a\nTHOUGHT\\_SEED: b")[0] == [("RESPONSE", "a", 0), ("THOUGHT_SEED", "b", 1)]


def test_ordinary_words_do_not_end_an_answer() -> None:
    answer = "Your week:\nPlan: rest\n## Plan\n- VERIFY: it\n> PLAN: x\nResponse: none\nInterrupt: 5\nPLANS: 2"
    assert read(f"RESPONSE: {answer}") == ([("RESPONSE", answer, 0)], [])
    assert read("PLAN: 1. a\nVerify: b\nResponse: c")[0] == [("PLAN", "1. a\nVerify: b", 0), ("RESPONSE", "c", 0)]


def test_an_observer_that_writes_both_alternatives_interrupts() -> None:
    for text in ("CONTINUE\nINTERRUPT: wrong", "- CONTINUE\n- INTERRUPT: wrong", "CONTINUE / INTERRUPT: wrong"):
        assert read(text, default=None)[0][1:] == [("INTERRUPT", "wrong", 0)]
    assert read("CONTINUE", default=None) == ([("", "CONTINUE", 0)], [])


def test_markers_in_one_line_follow_each_other_only_when_tolerant() -> None:
    blocks, notes = read("PLAN: RESPONSE: hi")
    assert blocks == [("RESPONSE", "hi", 0)]
    assert notes == ["RESPONSE is in the line of another marker"]
    assert read("PLAN: RESPONSE: hi", "strict")[0] == [("PLAN", "RESPONSE: hi", 0)]


@pytest.mark.parametrize(
    "text",
    [
        *("RESPONSE: I run it. EXECUTE: ls", "RESPONSE: EXECUTE: ls", "RESPONSE: a\nExecute: ls"),
        *("RESPONSE: a\n1. EXECUTE: ls", "RESPONSE: a\n- EXECUTE: ls"),
    ],
)
@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_execute_counts_only_in_capitals_at_the_beginning_of_its_line(text: str, mode: Mode) -> None:
    blocks, notes = read(text, mode)
    assert blocks == [("RESPONSE", text.removeprefix("RESPONSE: "), 0)]
    assert notes or mode == "strict"
    assert read("RESPONSE: a\n**EXECUTE:** ls")[0][1] == ("EXECUTE", "ls", 0)


def test_thoughts_go_to_the_council_and_hold_no_markers() -> None:
    blocks, notes = read("<think>\nThey want\nEXECUTE: rm\n</think>\n\nRESPONSE: hi <think> is a tag")
    assert blocks == [("", "They want\nEXECUTE: rm", 0), ("RESPONSE", "hi <think> is a tag", 0)]
    assert notes == ["thoughts went to the council's log"]
    assert read("RESPONSE: <think>a</think>b")[0] == [("", "a", 1), ("RESPONSE", "b", 0)]
    assert read("<think>a</think>b")[0] == [("", "a", 0), ("RESPONSE", "b", 0)]
    assert read("<think>a</think>EXECUTE: ls", "strict")[0] == [("", "a", 0), ("EXECUTE", "ls", 0)]
    assert read("RESPONSE: <think>a</think>EXECUTE: ls")[0] == [("", "a", 1), ("RESPONSE", "EXECUTE: ls", 0)]
    assert read("<think>cut")[0] == [("", "cut", 0)]


def test_seeds_in_seeds_end_at_a_depth() -> None:
    parser = MarkerParser("tolerant", "RESPONSE")
    assert max(piece.depth for piece in stream(parser, ["THOUGHT_SEED: " * 20])) == MOST_DEPTH


def test_endless_white_space_is_passed_on() -> None:
    parser = MarkerParser("strict", None)
    passed = parser.feed("PLAN: a" + "\n" * 1000) + parser.feed(" " * 1000)
    assert sum(len(piece.text) for piece in passed) == 1 + 2000 - BLANK_CHARACTERS
    assert parser.finish() == [MarkerPiece("close", "PLAN", "", 0)]


def test_line_ends_of_other_systems() -> None:
    assert read("PLAN: a\r\nb\r\nRESPONSE: c\r\n")[0] == [("PLAN", "a\nb", 0), ("RESPONSE", "c", 0)]
    assert read("RESPONSE: a\rEXECUTE: b")[0] == [("RESPONSE", "a\rEXECUTE: b", 0)]


def test_floods_are_read_in_time_that_grows_with_them_and_notes_stay_few() -> None:
    floods = ("PLAN:\n", "> - `", "\n", " ", "P\n", "<think></th", "THOUGHT_SEED:", "`", "```\n", "**Plan:**\n", "**")
    for flood in floods:
        text = flood * (200_000 // len(flood))
        parser = MarkerParser("tolerant", "RESPONSE")
        begun = time.process_time()
        for start in range(0, len(text), 5):
            parser.feed(text[start : start + 5])
        parser.finish()
        assert time.process_time() - begun < 5, flood
        assert len(parser.notes) <= MOST_NOTES


def test_an_execute_behind_another_marker_is_sighted_though_it_opens_nothing() -> None:
    parser = MarkerParser("tolerant", "RESPONSE")
    pieces = parser.feed("RESPONSE: EXECUTE: ls -l and more") + parser.finish()
    assert [piece.marker for piece in pieces if piece.kind == "open"] == ["RESPONSE"]
    assert parser.sightings() == [Sighting("RESPONSE", 0), Sighting("EXECUTE", 10)]
    assert parser.sightings() == [], "each is given once"


def test_places_are_those_of_the_text_as_it_came() -> None:
    parser = MarkerParser("tolerant", None)
    text = "a\r\nb\r\n  PLAN: c\r\n"
    parser.feed(text)
    assert parser.sightings() == [Sighting("PLAN", text.index("PLAN"))]
    assert parser.text_from == len(text)


def test_other_markers_are_read_beside_the_six() -> None:
    assert [block.text for block in read_blocks("Well.\n**Vote**: yes", "tolerant", None, others=("VOTE",)).blocks] == [
        "Well.",
        "yes",
    ]


def test_a_whole_text_as_blocks() -> None:
    output = read_blocks("Well:\nRESPONSE: Hello\nTHOUGHT_SEED: later\n\nand more\nVERIFY:\n", "strict")
    assert output.blocks == [
        MarkedBlock("", "Well:", 0),
        MarkedBlock("RESPONSE", "Hello\n\nand more", 0),
        MarkedBlock("THOUGHT_SEED", "later", 1),
        MarkedBlock("VERIFY", "", 0),
    ]
    assert output.notes == ["text before the first marker went to the council's log"]
    assert read_blocks("Hello", "tolerant").blocks == [MarkedBlock("RESPONSE", "Hello", 0)]
    assert read_blocks(" \n", "tolerant").blocks == []
