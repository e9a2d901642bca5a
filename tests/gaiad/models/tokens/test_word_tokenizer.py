import random

import pytest

from gaiad.clock import SystemClock
from gaiad.errors import BadInput, Cancelled
from gaiad.generation import ChatMessage, Segment
from gaiad.models.child.bindings import library
from gaiad.models.tokens.word_tokenizer import ByteEstimate, WordTokenizer, count_words, cut_words
from gaiad.ports import Call

CLOCK = SystemClock("UTC")
TEXTS = [
    "",
    " ",
    "a",
    "Once upon a time",
    "naïve café — 漢字かな交じり文",
    "🦙" * 7,
    "\x00\x01\n\t",
    "word " * 200,
    "<|im_start|>",
]


@pytest.fixture(scope="module")
def real_count(tiny_llama):
    """Tokens that llama.cpp itself finds in a text, read as plain text."""
    library.llama_backend_init()
    settings = library.llama_model_default_params()
    settings.vocab_only = True
    model = library.llama_model_load_from_file(str(tiny_llama).encode(), settings)
    vocabulary = library.llama_model_get_vocab(model)

    def count(text):
        data = text.encode()
        return -library.llama_tokenize(vocabulary, data, len(data), None, 0, False, False)

    yield count
    library.llama_model_free(model)


async def test_the_estimate_is_never_below_what_a_real_vocabulary_counts(real_count):
    texts = [*TEXTS, *("".join(map(chr, random.Random(seed).choices(range(32, 0x2000), k=99))) for seed in range(30))]
    estimates = await ByteEstimate(CLOCK).count([[Segment(text)] for text in texts], Call())
    for text, estimate in zip(texts, estimates, strict=True):
        assert real_count(text) <= estimate <= len(text.encode()) + 1, text


async def test_an_estimate_says_so_and_has_no_tokens():
    estimate = ByteEstimate(CLOCK)
    assert estimate.exact is False
    assert WordTokenizer(CLOCK).exact is True
    assert estimate.fingerprint != WordTokenizer(CLOCK).fingerprint
    with pytest.raises(BadInput, match=r"tokenizer to its tokenizer\.json"):
        await estimate.encode([Segment("x")], Call())


async def test_words_and_marks_are_counted_across_segments():
    words = WordTokenizer(CLOCK)
    assert await words.count([[Segment("Hel"), Segment("lo, world!")], [], [Segment("漢字 ok")]], Call()) == [4, 0, 2]
    ids = await words.encode([Segment("the cat and the dog")], Call())
    assert len(ids) == 5
    assert ids[0] == ids[3] != ids[1]


async def test_a_conversation_is_rendered_as_lines_whose_frame_is_trusted():
    messages = [
        ChatMessage(role="system", content=[Segment("Be brief.", trusted=True)]),
        ChatMessage(role="user", content=[Segment("Quote: ", source="TP-1"), Segment("why?")]),
    ]
    for tokenizer in (WordTokenizer(CLOCK), ByteEstimate(CLOCK)):
        parts = await tokenizer.render(messages, Call())
        assert "".join(part.text for part in parts) == "system: Be brief.\nuser: Quote: why?\nassistant: "
        assert [part.text for part in parts if not part.trusted] == ["Quote: ", "why?"]
        assert Segment("Quote: ", source="TP-1") in parts


async def test_a_cancelled_call_is_not_counted_for():
    call = Call()
    call.cancel()
    for tokenizer in (WordTokenizer(CLOCK), ByteEstimate(CLOCK)):
        with pytest.raises(Cancelled):
            await tokenizer.count([[Segment("x")]], call)


def test_cutting_keeps_the_white_space_between_and_counts_as_counting_does():
    text = "One,  two\nthree."
    assert [cut_words(text, limit) for limit in range(6)] == ["", "One", "One,", "One,  two", "One,  two\nthree", text]
    assert all(count_words(cut_words(text, limit)) == min(limit, 5) for limit in range(7))
