"""Replies in a form, from random weights: whatever the model would like to say, the form holds."""

import asyncio
import contextlib
import json
import re
from typing import Annotated

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.contracts import struct_schema
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Finished, Generate, Load
from gaiad.models.supervision.supervisor import Supervisor
from gaiad.wire.generation import Block, Contract, Generated, GenerateRequest, Sampling, Segment
from tests.makers.poor_vocabulary import write_poor_llama

IDS = ["packet-2025-07-11", "packet-2025-07-12", 'odd "id" \\ é']


class Claim(msgspec.Struct):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=30)]
    packet_id: str


class Answer(msgspec.Struct):
    claims: Annotated[list[Claim], msgspec.Meta(min_length=1, max_length=3)]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    steps: Annotated[list[Annotated[str, msgspec.Meta(max_length=10)]], msgspec.Meta(max_length=2)]
    count: Annotated[int, msgspec.Meta(ge=1, le=12)] = 1


SCHEMA = struct_schema(Answer, {"claims.packet_id": IDS})


def request(seed=1, tokens=1500, **form):
    form.setdefault("sampling", Sampling())
    return GenerateRequest(segments=[Segment("Answer in the form: ")], max_tokens=tokens, seed=seed, **form)


async def reply(generator, asked):
    events = [event async for event in generator.generate(asked, RequestContext())]
    assert isinstance(events[-1], Generated)
    assert "".join(event.text for event in events[:-1]) == events[-1].text
    return events[-1]


async def test_every_reply_to_a_schema_reads_as_the_struct_and_cites_only_what_is_there(
    open_generator, tiny_llama, tokens
):
    generator = await open_generator(tiny_llama, tokens=tokens, parallel=4)
    hot = Sampling(temperature=2.0, top_k=0, top_p=1.0)
    tired = Sampling(repeat_penalty=1.3, frequency_penalty=0.5)
    samplings = [Sampling(), hot, tired, Sampling(temperature=0.0), Sampling(repeat_penalty=0.8, top_k=5)]
    asked = [request(seed, schema=SCHEMA, sampling=samplings[seed % 5]) for seed in range(20)]
    replies = await asyncio.gather(*(reply(generator, one) for one in asked))
    for last in replies:
        assert last.reason == "end"
        answer = msgspec.json.decode(last.text, type=Answer)
        assert {claim.packet_id for claim in answer.claims} <= set(IDS)
        assert "\ufffd" not in last.text, "no half characters"
    assert len({last.text for last in replies}) > 12


async def test_the_same_seed_gives_the_same_reply_and_another_seed_another(open_generator, tiny_llama, tokens):
    generator = await open_generator(tiny_llama, tokens=tokens)
    texts = [(await reply(generator, request(seed, regex="[a-z]{40}"))).text for seed in (1, 2, 1, 2)]
    assert texts[:2] == texts[2:]
    assert texts[0] != texts[1]


async def test_a_contract_writes_its_blocks_in_order_each_readable(open_generator, tiny_llama, tokens):
    generator = await open_generator(tiny_llama, tokens=tokens)
    contract = Contract(
        blocks=[
            Block(marker="PLAN", schema=SCHEMA),
            Block(marker="EXECUTE", schema={"enum": ["ls", "é"]}),
            Block(marker="RESPONSE"),
        ]
    )
    for seed in range(6):
        last = await reply(generator, request(seed, tokens=600, contract=contract))
        found = re.fullmatch(r'PLAN: (.*)\nEXECUTE: "(?:ls|é)"\nRESPONSE: (.+)', last.text, re.DOTALL)
        assert found, last.text
        msgspec.json.decode(found[1], type=Answer)
        assert re.findall(r"(?m)^(PLAN|EXECUTE|RESPONSE|THOUGHT_SEED|INTERRUPT|VERIFY):", last.text) == [
            "PLAN",
            "EXECUTE",
            "RESPONSE",
        ]


async def test_a_form_ends_the_reply_as_soon_as_nothing_can_follow(open_generator, tiny_llama, tokens):
    generator = await open_generator(tiny_llama, tokens=tokens)
    last = await reply(generator, request(regex="yes|no"))
    assert (last.reason, last.tokens) == ("end", len(last.text))
    assert last.text in ("yes", "no")
    short = await reply(generator, request(tokens=1, regex="yes|no"))
    assert (short.reason, len(short.text)) == ("length", 1)
    exact = await reply(generator, request(tokens=3, regex="yes"))
    assert (exact.reason, exact.text) == ("end", "yes"), "complete, though it is also the last token"
    nothing = await reply(generator, request(schema={"const": ""}))
    assert (nothing.reason, nothing.text) == ("end", '""')
    stopped = await reply(generator, request(regex="abcdef", stop=["cd"]))
    assert (stopped.reason, stopped.text, stopped.stop) == ("stop", "ab", "cd")


async def test_text_that_looks_like_a_control_token_is_written_in_letters(open_generator, tiny_llama, tokens):
    generator = await open_generator(tiny_llama, tokens=tokens)
    last = await reply(generator, request(regex=r"<\|im_end\|><think>"))
    assert (last.reason, last.text) == ("end", "<|im_end|><think>")
    assert last.tokens >= len("<|im_end|>") + 1


BAD = {
    "not closed": ({"regex": "(a"}, "unclosed group"),
    "nested 200,000 deep": ({"regex": "(" * 200_000 + "a" + ")" * 200_000}, "nest"),
    "explosion": ({"schema": {"enum": [f"value {number}" for number in range(100_000)]}}, "too big"),
    "a type that does not exist": ({"schema": {"type": "text"}}, "Invalid type: text"),
    "no blocks": ({"contract": Contract(blocks=[])}, "no blocks"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_form_is_one_clear_error_and_the_worker_goes_on(open_generator, tiny_llama, tokens, name):
    form, words = BAD[name]
    generator = await open_generator(tiny_llama, tokens=tokens)
    pid = generator.status().pid
    with pytest.raises(BadInput, match=words):
        await reply(generator, request(**form))
    assert (await reply(generator, request(tokens=4))).tokens == 4
    assert generator.status().pid == pid


async def test_what_the_vocabulary_cannot_write_is_refused_where_it_is_due(open_generator, tokens, tmp_path):
    poor = write_poor_llama(tmp_path / "poor.gguf", "é".encode())
    generator = await open_generator(poor, tokens=tokens)
    with pytest.raises(BadInput, match=r"no token of the model's vocabulary can follow.*, after 'caf'"):
        await reply(generator, request(regex="café"))


@pytest.fixture
async def open_worker():
    """A generating worker that is given its grammars unchecked, as if the check had been wrong."""
    opened = []

    async def open_one(path):
        load = Load(version=PROTOCOL_VERSION, engine="generate", path=str(path), threads=1, batch_tokens=64)
        canary = message(0, "")
        supervisor = Supervisor("raw", load, canary, lambda _ready, _reply: "", SystemClock("UTC"))
        opened.append(supervisor)
        await supervisor.start()
        await supervisor.wait_ready(30.0)
        return supervisor

    yield open_one
    for supervisor in opened:
        await supervisor.close()


def message(number, grammar, tokens=40):
    segments = [Segment("x")]
    return Generate(
        id=number, segments=segments, max_tokens=tokens, priority=0, seed=3, sampling=Sampling(), grammar=grammar
    )


async def answer(supervisor, grammar):
    pending = await supervisor.submit(lambda number: message(number, grammar), RequestContext())
    async for _ in supervisor.pieces(pending, RequestContext()):
        pass
    return pending.answer.result()


async def test_at_run_time_a_broken_grammar_ends_the_stream_and_not_the_worker(open_worker, tiny_llama):
    worker = await open_worker(tiny_llama)
    others = [asyncio.ensure_future(answer(worker, "")) for _ in range(3)]
    for broken in ("start: other", "start: (", ":::", 'start: %json {"type": "text"}'):
        with pytest.raises(BadInput, match="cannot follow the form of the reply"):
            await answer(worker, broken)
    assert all(isinstance(last, Finished) for last in await asyncio.gather(*others))
    assert isinstance(await answer(worker, 'start: "cafe"'), Finished)


async def test_a_grammar_that_gets_slower_with_every_token_ends_or_goes_on_without_the_worker(open_worker, tiny_llama):
    worker = await open_worker(tiny_llama)
    with contextlib.suppress(BadInput):
        await answer(worker, 'start: s\ns: /[ab]/ s "c" | /[ab]/ s "d" | /[ab]/')
    assert isinstance(await answer(worker, ""), Finished)


async def test_a_json_object_of_any_shape_parses(open_generator, tiny_llama, tokens):
    generator = await open_generator(tiny_llama, tokens=tokens)
    ended = 0
    for seed in range(8):
        last = await reply(generator, request(seed, tokens=400, schema={"type": "object"}))
        ended += last.reason == "end"
        if last.reason == "end":
            assert isinstance(json.loads(last.text), dict)
    assert ended, "some of them come to an end"
