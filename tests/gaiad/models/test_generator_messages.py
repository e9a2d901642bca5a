"""Messages and forms of a reply on their way through the tokenizer child to the generating worker."""

import os
import signal

import pytest

from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment
from tests.makers.chat_templates import GEMMA

TALK = [
    ChatMessage(role="system", content=[Segment("Be brief.", trusted=True)]),
    ChatMessage(role="user", content=[Segment("Say yes<|im_end|> or no."), Segment("packet text", source="p1")]),
]


async def whole(generator, **asked):
    asked = {"max_tokens": 12, "seed": 3, **asked}
    events = [event async for event in generator.generate(GenerateRequest(**asked), RequestContext())]
    assert isinstance(events[-1], Generated)
    return events[-1]


async def test_messages_become_the_prompt_that_the_tokenizer_says(open_generator, tokens, tiny_llama):
    generator = await open_generator(tiny_llama, tokens=tokens)
    segments = await generator.tokenizer.render(TALK, RequestContext())
    prompt = await generator.tokenizer.encode(segments, RequestContext())
    greedy = Sampling(temperature=0.0)
    by_messages = await whole(generator, messages=TALK, sampling=greedy)
    by_segments = await whole(generator, segments=segments, sampling=greedy)
    assert by_messages.prompt_tokens == by_segments.prompt_tokens == len(prompt)
    assert by_messages.text == by_segments.text


async def test_a_given_template_is_used(open_generator, tokens, tiny_llama):
    generator = await open_generator(tiny_llama, tokens=tokens, template=GEMMA)
    segments = await generator.tokenizer.render(TALK, RequestContext())
    assert segments[0].text == "<s><start_of_turn>user\n"
    expected = len(await generator.tokenizer.encode(segments, RequestContext()))
    assert (await whole(generator, messages=TALK)).prompt_tokens == expected


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "either messages or a prompt"),
        ({"messages": TALK, "segments": [Segment("x")]}, "not both"),
        ({"messages": TALK, "regex": "a", "schema": {"type": "string"}}, "keep one of them"),
        ({"messages": TALK, "regex": "(a"}, "unclosed group"),
        ({"segments": [Segment("x")], "regex": "a++(?=b)"}, "look-around"),
    ],
)
async def test_a_request_that_cannot_be_is_refused_in_words(open_generator, tokens, tiny_llama, more, words):
    generator = await open_generator(tiny_llama, tokens=tokens)
    with pytest.raises(BadInput, match=words):
        await whole(generator, **more)
    assert (await whole(generator, messages=TALK)).tokens == 12


async def test_a_reply_has_the_form_that_was_asked_for(open_generator, tokens, tiny_llama):
    generator = await open_generator(tiny_llama, tokens=tokens)
    for seed in range(4):
        last = await whole(generator, messages=TALK, seed=seed, regex="yes|no, never")
        assert last.text in ("yes", "no, never")
        assert last.reason == "end"
    schema = {"type": "object", "properties": {"vote": {"enum": ["yes", "no"]}}, "required": ["vote"]}
    last = await whole(generator, messages=TALK, max_tokens=60, schema=schema)
    assert "".join(last.text.split()) in ('{"vote":"yes"}', '{"vote":"no"}')


async def test_counts_need_no_generating_worker_and_plain_prompts_no_tokenizer(open_generator, tokens, tiny_llama):
    generator = await open_generator(tiny_llama, wait=False, tokens=tokens)
    await generator.close()
    assert await generator.tokenizer.count([[Segment("word")]], RequestContext()) == [4]
    alone = await open_generator(tiny_llama)
    assert (await whole(alone, segments=[Segment("x")])).tokens == 12
    with pytest.raises(Unavailable, match="tokenizer: not started"):
        await whole(alone, messages=TALK)


async def test_a_lone_surrogate_in_a_prompt_is_a_question_mark(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama)
    assert (await whole(generator, segments=[Segment("a\ud800b")], stop=["\udc00"])).prompt_tokens == 4


async def test_a_kill_9_of_the_tokenizer_child_costs_a_chat_nothing_but_time(open_generator, tokens, tiny_llama):
    generator = await open_generator(tiny_llama, tokens=tokens)
    await whole(generator, messages=TALK)
    os.kill(tokens.status().pid, signal.SIGKILL)
    assert (await whole(generator, messages=TALK, regex="yes")).text == "yes"
