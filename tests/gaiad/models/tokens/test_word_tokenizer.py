import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaiad
from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Cancelled
from gaiad.base.ports import RequestContext
from gaiad.models.tokens.word_tokenizer import ByteEstimate, WordCount, WordTokenizer, count_words, cut_words
from gaiad.wire.generation import ChatMessage, Segment

CLOCK = SystemClock("UTC")
SAMPLES = sorted((Path(gaiad.__file__).parent / "samples").glob("*.xml"))


async def test_the_estimate_is_cautious_for_prose_and_not_wasteful(minilm, tokens):
    """Against a real vocabulary of 30,000 words, over the sample packets."""
    prose = [" ".join(re.sub(r"<[^>]+>", " ", path.read_text("utf-8")).split()) for path in SAMPLES]
    texts = [[Segment(text)] for text in prose if len(text) > 500]
    assert len(texts) >= 10
    real = await tokens.tokenizer(minilm).count(texts, RequestContext())
    for estimate, counted in zip(await ByteEstimate(CLOCK).count(texts, RequestContext()), real, strict=True):
        assert counted <= estimate <= 2 * counted


async def test_the_estimate_is_a_third_of_the_bytes_rounded_up_and_nothing_for_nothing():
    counts = await ByteEstimate(CLOCK).count(
        [[Segment(text)] for text in ("", "a", "abc", "abcd", "漢字")], RequestContext()
    )
    assert counts == [0, 2, 2, 3, 3]


async def test_an_estimate_says_so_and_has_no_tokens():
    estimate = ByteEstimate(CLOCK)
    assert estimate.exact is False
    assert WordTokenizer(CLOCK).exact is True
    assert estimate.fingerprint != WordTokenizer(CLOCK).fingerprint
    with pytest.raises(BadInput, match=r"tokenizer to its tokenizer\.json"):
        await estimate.encode([Segment("x")], RequestContext())


async def test_words_and_marks_are_counted_across_segments():
    words = WordTokenizer(CLOCK)
    assert await words.count([[Segment("Hel"), Segment("lo, world!")], [], [Segment("漢字 ok")]], RequestContext()) == [
        4,
        0,
        2,
    ]
    ids = await words.encode([Segment("the cat and the dog")], RequestContext())
    assert len(ids) == 5
    assert ids[0] == ids[3] != ids[1]


async def test_a_conversation_is_rendered_as_lines_whose_frame_is_trusted():
    messages = [
        ChatMessage(role="system", content=[Segment("Be brief.", trusted=True)]),
        ChatMessage(role="user", content=[Segment("Quote: ", source="TP-1"), Segment("why?")]),
    ]
    for tokenizer in (WordTokenizer(CLOCK), ByteEstimate(CLOCK)):
        parts = await tokenizer.render(messages, RequestContext())
        assert "".join(part.text for part in parts) == "system: Be brief.\nuser: Quote: why?\nassistant: "
        assert [part.text for part in parts if not part.trusted] == ["Quote: ", "why?"]
        assert Segment("Quote: ", source="TP-1") in parts


async def test_a_cancelled_call_is_not_counted_for():
    call = RequestContext()
    call.cancel()
    for tokenizer in (WordTokenizer(CLOCK), ByteEstimate(CLOCK)):
        with pytest.raises(Cancelled):
            await tokenizer.count([[Segment("x")]], call)


def test_cutting_keeps_the_white_space_between_and_counts_as_counting_does():
    text = "One,  two\nthree."
    assert [cut_words(text, limit) for limit in range(6)] == ["", "One", "One,", "One,  two", "One,  two\nthree", text]
    assert all(count_words(cut_words(text, limit)) == min(limit, 5) for limit in range(7))


@given(st.lists(st.text(alphabet="ab ,.-\n\tü", max_size=6), max_size=12))
def test_counted_in_pieces_it_is_the_same_as_counted_whole(pieces: list[str]) -> None:
    count = WordCount()
    found = [count.feed(piece) for piece in pieces]
    assert found == [count_words("".join(pieces[: number + 1])) for number in range(len(pieces))]
