"""Against a real server: llama-cpp-python's own, on loopback."""

import asyncio
import json
import os
import signal
import time

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.remote.access import RetryRule
from gaiad.models.remote.model import RemoteModel
from gaiad.wire.generation import Block, ChatMessage, Contract, Generated, GenerateRequest, Segment, TextDelta
from tests.makers.model_server import LlamaServer
from tests.makers.waiting import until

CLOCK = SystemClock("UTC")
FEW = RetryRule(tries=2, first_s=0.01)
# The server holds back noise that is not UTF-8, and notices a cancel only when it sends.
LETTERS = {"type": "string", "pattern": "^[a-z ]+$"}
VOTE = {
    "type": "object",
    "properties": {"vote": {"enum": ["yes", "no"]}},
    "required": ["vote"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def llama_server(slow_llama, tmp_path_factory):
    server = LlamaServer(slow_llama, tmp_path_factory.mktemp("server") / "log")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def open_remote(llama_server):
    opened = []

    async def open_one(*, wait=True, retry=FEW, **changes):
        settings = msgspec.structs.replace(load_config(environment={}).models, **changes)
        config = ModelConfig(kind="openai", base_url=llama_server.base_url, model="tiny")
        remote = RemoteModel("big", config, settings, CLOCK, None, {}, retry=retry)
        opened.append(remote)
        await remote.start()
        if wait:
            await remote.wait_ready(20.0)
        return remote

    yield open_one
    for remote in opened:
        await remote.close()


def chat(tokens=16, seed=5, text="Hello", **more):
    message = ChatMessage(role="user", content=[Segment(text)])
    return GenerateRequest(messages=[message], max_tokens=tokens, seed=seed, **more)


async def whole(remote, asked, call=None):
    events = [event async for event in remote.generate(asked, call or RequestContext())]
    last = events.pop()
    assert isinstance(last, Generated)
    assert all(isinstance(event, TextDelta) and event.text for event in events)
    assert "".join(event.text for event in events) == last.text
    assert [event.tokens for event in events] == sorted(event.tokens for event in events)
    return last


async def follow(events, tokens, act):
    """To the end, and `act` once when so many tokens have come."""
    async for event in events:
        if event.tokens == tokens:
            act()


async def test_text_streams_and_the_end_carries_the_times(open_remote):
    remote = await open_remote()
    last = await whole(remote, chat(60))
    assert last.reason == "length"
    assert 0 < last.tokens <= 60
    assert last.seed == 5
    assert last.fingerprint == remote.fingerprint == f"openai:{remote.status().path_or_url}#tiny"
    assert last.prefill_ms > 0 < last.decode_ms
    assert last.queue_ms < 60_000
    assert remote.status().state == "ready"


async def test_the_same_seed_gives_the_same_text_and_a_prompt_as_it_stands_goes_to_completions(open_remote):
    remote = await open_remote()
    assert (await whole(remote, chat())).text == (await whole(remote, chat())).text
    raw = GenerateRequest(segments=[Segment("Once upon a time")], max_tokens=30, seed=5)
    first = await whole(remote, raw)
    assert first.text == (await whole(remote, raw)).text != (await whole(remote, chat(30))).text


async def test_a_reply_with_a_schema_fits_it_and_the_server_is_asked_in_its_own_way(open_remote):
    remote = await open_remote()
    for seed in range(3):
        last = await whole(remote, chat(60, seed, schema=VOTE))
        assert json.loads(last.text)["vote"] in ("yes", "no")
        assert last.reason == "end"


async def test_a_contract_of_one_json_block_gets_its_marker(open_remote):
    remote = await open_remote()
    last = await whole(remote, chat(60, contract=Contract(blocks=[Block(marker="VOTE", schema=VOTE)])))
    marker, _, body = last.text.partition(": ")
    assert marker == "VOTE"
    assert json.loads(body)["vote"] in ("yes", "no")


async def test_a_stop_string_ends_the_text_before_it(open_remote):
    remote = await open_remote()
    lettered = chat(60, schema=LETTERS)
    free = (await whole(remote, lettered)).text
    stop = free[20:23]
    last = await whole(remote, msgspec.structs.replace(lettered, stop=[*"❶❷❸❹", stop]))
    assert (last.reason, last.stop) == ("stop", stop), "the fifth is watched for on our side"
    assert last.text == free[: free.index(stop)]


async def test_a_prompt_the_server_has_no_room_for_is_one_error_and_the_next_is_served(open_remote):
    remote = await open_remote()
    with pytest.raises((BadInput, Unavailable)) as caught:
        await whole(remote, chat(10, text="x" * 5000))
    assert remote.status().path_or_url in str(caught.value)
    assert (await whole(remote, chat(4))).tokens > 0


async def test_cancel_in_the_middle_frees_the_server_at_once(open_remote):
    remote = await open_remote()
    call = RequestContext()
    begun = time.monotonic()
    await whole(remote, chat(40, schema=LETTERS))
    a_token_s = (time.monotonic() - begun) / 40
    with pytest.raises(Cancelled):
        await follow(remote.generate(chat(3000, schema=LETTERS), call), 20, call.cancel)
    cancelled = time.monotonic()
    await remote.beat(RequestContext())  # the server does one thing at a time
    assert time.monotonic() - cancelled < a_token_s * 3000 / 2, "it wrote the reply to its end"


async def test_a_closed_iterator_and_a_deadline_free_the_server_too(open_remote):
    remote = await open_remote()
    begun = time.monotonic()
    await whole(remote, chat(40, schema=LETTERS))
    a_token_s = (time.monotonic() - begun) / 40
    events = remote.generate(chat(3000, schema=LETTERS), RequestContext())
    await anext(events)
    await events.aclose()
    with pytest.raises(DeadlineExceeded):
        await whole(remote, chat(3000, schema=LETTERS), RequestContext(deadline=CLOCK.monotonic() + 0.4))
    begun = time.monotonic()
    assert await remote.beat(RequestContext()) > 0
    assert time.monotonic() - begun < a_token_s * 3000 / 2


async def test_a_server_that_hangs_is_given_up_and_comes_back(open_remote, llama_server):
    remote = await open_remote(remote_timeout_s=0.5)
    os.kill(llama_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match=r"big \(http.*silent for 0.5 s"):
            await whole(remote, chat(8))
        assert remote.status().state == "inactive"
        assert "silent" in remote.status().reason
    finally:
        os.kill(llama_server.pid, signal.SIGCONT)
    await until(lambda: remote.status().state == "ready")
    assert (await whole(remote, chat(4))).tokens > 0


async def test_a_server_killed_in_the_middle_is_one_error_and_the_role_comes_back_with_it(open_remote, llama_server):
    remote = await open_remote()
    try:
        with pytest.raises(Unavailable, match="broke") as caught:
            await follow(remote.generate(chat(3000, schema=LETTERS), RequestContext()), 20, llama_server.kill)
        assert "Traceback" not in str(caught.value)
        assert remote.status().state == "inactive"
        with pytest.raises(Unavailable, match="no connection"):
            await whole(remote, chat(4))
        with pytest.raises(Unavailable):
            await remote.beat(RequestContext())
        late = await open_remote(wait=False)
        with pytest.raises(Unavailable, match="no connection"):
            await late.wait_ready(0.3)
    finally:
        llama_server.kill()
        await asyncio.to_thread(llama_server.start)
    await until(lambda: remote.status().state == "ready" == late.status().state)
    assert (await whole(remote, chat(4))).tokens > 0
    assert remote.status().reason == ""
