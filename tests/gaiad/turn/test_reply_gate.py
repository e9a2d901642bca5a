from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.reading.reader import ID_MAX_CHARS
from gaiad.turn.acting import ReplyGate


def through(pieces, known=("tp-1",)):
    gate = ReplyGate("RESPONSE", known)
    return "".join([*(gate.feed(piece) for piece in pieces), gate.finish()]), gate


def test_the_marker_goes_however_it_is_cut():
    for pieces in (["RESPONSE: Yes."], ["RES", "PONSE", ":", " ", "Yes."], ["\n RESPONSE:\nYes."]):
        assert through(pieces)[0] == "Yes."


def test_text_without_a_marker_is_shown_as_it_is():
    assert through(["RESPOND", " kindly"])[0] == "RESPOND kindly"
    assert through(["RES"])[0] == "RES"
    assert through([])[0] == ""


def test_a_citation_of_a_packet_that_was_not_given_is_taken_out_and_counted():
    text, gate = through(["So it is ", "[Pack", "et: tp-9", "] and [Packet: tp-1]."])
    assert text == "So it is and [Packet: tp-1]."
    assert (gate.removed, gate.cited) == (["tp-9"], ["tp-1"])


def test_ids_as_long_as_packets_may_have_are_checked_whole_or_in_pieces():
    for made_up in ("x" * ID_MAX_CHARS, "x" * 141):
        for spaces in ("", " ", "  "):
            whole = f"So [Packet:{spaces}{made_up}{spaces}] it is [Packet: tp-1]."
            for pieces in ([whole], list(whole)):
                text, gate = through(pieces)
                assert text == "So it is [Packet: tp-1]."
                assert gate.removed == [made_up]
    known = "y" * ID_MAX_CHARS
    assert through(list(f"See [Packet: {known}]."), (known,))[0] == f"See [Packet: {known}]."


def test_a_bracket_that_is_no_citation_does_not_wait_for_its_end():
    gate = ReplyGate("RESPONSE", ())
    assert gate.feed("a list [1, 2") == "a list [1, 2"
    assert gate.feed(" and [Pa") == " and"
    assert gate.feed("rts of the") == " [Parts of the"
    assert gate.feed(" ") == ""
    assert gate.finish() == " "


def test_an_opening_that_is_never_closed_is_shown_in_the_end():
    assert through(["see [Packet: tp-1"])[0] == "see (Packet: tp-1"
    assert through(["see [Packet: " + "x" * 500])[0] == "see (Packet: " + "x" * 500


@given(
    st.lists(st.sampled_from(["[", "]", "[Packet: tp-1]", "[Packet: no]", "RESPONSE:", "RES", " ", "a\n", "Packet"]))
)
def test_any_split_gives_the_same_text(parts):
    whole = "".join(parts)
    expected, gate = through([whole])
    split, other = through(list(whole))
    assert (split, other.removed, other.cited) == (expected, gate.removed, gate.cited)
    assert "[Packet: no]" not in split
