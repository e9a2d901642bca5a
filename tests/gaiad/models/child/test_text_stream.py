import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.child.text_stream import TextStream, overlap


def feed(stream, data, sizes=(1,)):
    shown, start, turn = "", 0, 0
    while start < len(data):
        size = max(1, sizes[turn % len(sizes)])
        shown += stream.feed(data[start : start + size])
        start, turn = start + size, turn + 1
    return shown


def test_a_character_cut_across_tokens_appears_whole():
    stream = TextStream()
    pieces = [stream.feed(bytes([value])) for value in "é€𝄞".encode()]
    assert pieces == ["", "é", "", "", "€", "", "", "", "𝄞"]


def test_half_a_character_at_the_end_is_a_replacement_character():
    stream = TextStream()
    assert stream.feed("a€".encode()[:-1]) == "a"
    assert stream.finish() == "\ufffd"


def test_a_stop_string_across_tokens_is_never_shown_and_neither_is_what_follows():
    stream = TextStream(["<end>"])
    assert feed(stream, b"so it goes <e, <end> and more") == "so it goes <e, "
    assert stream.stopped == "<end>"
    assert stream.feed(b"more") == stream.finish() == ""


def test_the_beginning_of_a_stop_string_is_shown_when_the_text_ends_there():
    stream = TextStream(["<end>"])
    assert stream.feed(b"word <en") == "word "
    assert stream.finish() == "<en"
    assert stream.stopped is None


@pytest.mark.parametrize(("stops", "stopped"), [(["bc", "b"], "bc"), (["c", "abc"], "abc"), (["x", "cd"], "cd")])
def test_the_earliest_stop_string_counts_and_of_those_the_longest(stops, stopped):
    stream = TextStream(stops)
    stream.feed(b"abcd")
    assert stream.stopped == stopped


def test_overlap_is_the_longest_true_beginning():
    assert [overlap(text, "aab") for text in ("xaa", "xa", "aab", "aaa", "b", "")] == [2, 1, 0, 2, 0, 0]


@given(
    st.binary(max_size=60), st.lists(st.integers(1, 5), min_size=1), st.lists(st.text("ab€", min_size=1), max_size=3)
)
def test_what_is_shown_does_not_depend_on_the_cuts(data, sizes, stops):
    text = data.decode("utf-8", "replace")
    ends = [text.index(stop) for stop in stops if stop in text]
    stream = TextStream(stops)
    assert feed(stream, data, sizes) + stream.finish() == text[: min(ends, default=len(text))]
