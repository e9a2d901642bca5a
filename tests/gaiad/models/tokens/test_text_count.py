"""Keys of texts, the bounded memory of answers, and requests of a fair size."""

from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.tokens.word_tokenizer import (
    REQUEST_CHARS,
    REQUEST_TEXTS,
    Remembered,
    chunk_texts,
    clean_segments,
    content_key,
    encodable,
)
from gaiad.wire.generation import Segment

SEGMENTS = st.lists(st.builds(Segment, st.text(max_size=5), st.booleans()), max_size=4)


def key(*segments, of="file"):
    return content_key(of, [Segment(*segment) for segment in segments])


def test_a_key_knows_vocabulary_trust_and_where_a_segment_ends():
    keys = [
        key(("ab",)),
        key(("ab",), of="other"),
        key(("ab", True)),
        key(("a",), ("b",)),
        key(("ab",), ("",)),
        key(("1:0:a",)),
        key(),
    ]
    assert len({*keys}) == len(keys)
    assert key(("ab", False, "p1")) == key(("ab", False, "p2")), "where a text came from changes no token of it"


@given(SEGMENTS, SEGMENTS)
def test_only_the_same_segments_have_the_same_key(left, right):
    assert (content_key("f", left) == content_key("f", right)) == (left == right)


def test_the_least_recently_used_answer_goes_first():
    kept = Remembered(2)
    kept.put(b"a", 0)
    kept.put(b"b", 2)
    assert kept.get(b"a") == 0
    kept.put(b"c", 3)
    assert (kept.get(b"a"), kept.get(b"b"), kept.get(b"c"), len(kept)) == (0, None, 3, 2)


def test_what_has_no_utf_8_becomes_a_question_mark():
    assert encodable("a\ud800é") == "a?é"
    assert clean_segments([Segment("\udcff", True, "p")]) == [Segment("?", True, "p")]


def test_requests_are_cut_by_texts_and_by_characters_and_none_is_lost():
    small = [(bytes([number % 256, number // 256]), [Segment("x")]) for number in range(REQUEST_TEXTS + 5)]
    huge = [(b"huge", [Segment("y" * (REQUEST_CHARS * 2))])]
    chunks = chunk_texts([*small, *huge, *small[:3]])
    assert [len(chunk) for chunk in chunks] == [REQUEST_TEXTS, 5, 1, 3]
    assert [item for chunk in chunks for item in chunk] == [*small, *huge, *small[:3]]
    assert chunk_texts([]) == []
