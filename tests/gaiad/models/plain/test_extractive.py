import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.models.plain.extractive import NOTHING_FITS, ExtractedQuote, ExtractiveModel, choose, sentences, topic_words
from gaiad.models.tokens.word_tokenizer import count_words
from gaiad.wire.generation import Block, ChatMessage, Contract, Generated, GenerateRequest, Segment

CLOCK = SystemClock("UTC")
CONTEXT = [
    Segment("The lantern keeps its light in the harbour. The keeper paints the door green.\n", source="TP-1"),
    Segment("Boats come home late. A harbour master counts the boats every evening.", source="TP-2"),
]


def ask(question, tokens=200, context=CONTEXT, **more):
    messages = [
        ChatMessage(role="system", content=[Segment("You are Lite.", trusted=True)]),
        ChatMessage(role="user", content=[*context, Segment(question)]),
    ]
    return GenerateRequest(messages=messages, max_tokens=tokens, **more)


async def whole(request, call=None):
    events = [event async for event in ExtractiveModel("lite", CLOCK).generate(request, call or RequestContext())]
    assert isinstance(events[-1], Generated)
    assert "".join(event.text for event in events[:-1]) == events[-1].text
    assert events[-1].tokens == count_words(events[-1].text) <= request.max_tokens
    return events[-1]


async def test_the_best_sentence_comes_first_word_for_word_with_its_packet():
    last = await whole(ask("Who counts the boats?"))
    assert last.text.startswith("A harbour master counts the boats every evening. [Packet: TP-2]")
    assert (last.reason, last.fingerprint) == ("end", "extractive:1")
    assert (await whole(ask("What colour was the door painted?"))).text == (
        "The keeper paints the door green. [Packet: TP-1]"
    )


async def test_it_streams_sentence_by_sentence_and_says_the_same_every_time():
    request = ask("harbour boats")
    runs = [
        [event.text async for event in ExtractiveModel("lite", CLOCK).generate(request, RequestContext())]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) >= 3


async def test_only_whole_sentences_that_fit_are_given_and_what_is_left_out_shows():
    everything = await whole(ask("harbour boats"))
    less = await whole(ask("harbour boats", everything.tokens - 1))
    assert less.reason == "length"
    assert less.text.count("[Packet:") < everything.text.count("[Packet:")
    none = await whole(ask("harbour boats", 3))
    assert (none.text, none.reason) == ("", "length")


async def test_nothing_that_fits_is_said_in_plain_words():
    for question, context in (
        ("What is the capital of France?", CONTEXT),
        ("Who counts the boats?", []),
        ("?", CONTEXT),
    ):
        last = await whole(ask(question, context=context))
        assert (last.text, last.reason) == (NOTHING_FITS, "end")


async def test_a_prompt_as_it_stands_works_and_only_sourced_text_is_quoted():
    request = GenerateRequest(segments=[*CONTEXT, Segment("The boats are mine. Who counts the boats?")], max_tokens=99)
    assert "mine" not in (await whole(request)).text


async def test_the_last_user_message_is_the_question_not_an_earlier_one():
    earlier = [
        ChatMessage(role="user", content=[*CONTEXT, Segment("Who counts the boats?")]),
        ChatMessage(role="assistant", content=[Segment("The harbour master.")]),
        ChatMessage(role="user", content=[Segment("And the door?")]),
    ]
    last = await whole(GenerateRequest(messages=earlier, max_tokens=99))
    assert last.text == "The keeper paints the door green. [Packet: TP-1]"


async def test_text_that_poses_as_a_citation_does_not_pass_for_one():
    context = [Segment("The boats [ packet : TP-9] are red.", source="TP-1] [Packet: TP-8")]
    last = await whole(ask("red boats", context=context))
    assert last.text == "The boats ( packet : TP-9] are red. [Packet: TP-1) (Packet: TP-8]"
    assert last.text.count("[Packet:") == 1


async def test_a_stop_string_ends_it_and_forms_are_refused():
    last = await whole(ask("Who counts the boats?", stop=["every"]))
    assert (last.text, last.reason, last.stop) == ("A harbour master counts the boats ", "stop", "every")
    for form in ({"regex": "x"}, {"schema": {}}, {"contract": Contract(blocks=[Block(marker="VOTE")])}):
        with pytest.raises(BadInput, match="cannot write to a form; give the role a model"):
            await whole(ask("Who?", **form))


async def test_cancel_and_deadline_are_heeded():
    cancelled = RequestContext()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        await whole(ask("boats"), cancelled)
    with pytest.raises(DeadlineExceeded):
        await whole(ask("boats"), RequestContext(deadline=CLOCK.monotonic() - 1))


async def test_it_is_always_ready():
    model = ExtractiveModel("lite", CLOCK)
    await model.start()
    await model.wait_ready(0.0)
    assert await model.beat(RequestContext()) >= 0.0
    assert (model.status().kind, model.status().state, model.status().pid) == ("extractive", "ready", 0)
    assert model.stderr_lines() == []
    await model.close()
    assert (await whole(ask("boats"))).text


def test_rare_words_decide_and_equals_stay_in_order():
    texts = [ExtractedQuote("The boat is red. The boat is old. The boat is slow. The oar is old.", "A")]
    assert choose("the old oar", texts)[0].text == "The oar is old."
    same = [ExtractedQuote("Boats sail. Boats sail! Boats drift.", "A"), ExtractedQuote("Boats sail.", "B")]
    assert choose("boats", same) == [
        ExtractedQuote("Boats sail.", "A"),
        ExtractedQuote("Boats sail!", "A"),
        ExtractedQuote("Boats drift.", "A"),
    ]


def test_sentences_are_cut_where_they_end():
    text = 'Dr. Lee came at 3.5 knots. "Stop!" she said. He did (i.e. he stopped). No?\n\n- one item\n- another'
    assert sentences(text) == [
        "Dr. Lee came at 3.5 knots.",
        '"Stop!" she said.',
        "He did (i.e. he stopped).",
        "No?",
        "- one item",
        "- another",
    ]


@given(st.text(alphabet="ab .!?\n-\"'A1", max_size=60))
def test_no_character_of_a_text_gets_lost_between_its_sentences(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_accents_count_alike_composed_or_not():
    text = "Zoë's fräsmaskin in Göteborg"
    assert topic_words(unicodedata.normalize("NFD", text)) == topic_words(text)
