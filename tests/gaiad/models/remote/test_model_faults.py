"""Against a server that misbehaves on purpose: a small one of our own, on a real socket."""

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.errors import BadInput, Cancelled, ConfigError, DeadlineExceeded, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.remote.access import RetryRule
from gaiad.models.remote.model import RemoteModel
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Segment
from tests.makers.waiting import until

CLOCK = SystemClock("UTC")
KEY = "sk-secret-0123456789"
QUICK = RetryRule(tries=4, first_s=0.01, longest_s=0.02)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
FORM = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

CLOSED = {**FORM, "additionalProperties": False}


class Stand:
    """Answers with each of `answers` in turn, the last one again and again. `asked` holds the bodies."""

    def __init__(self) -> None:
        self.answers: list[Handler] = [says("fine")]
        self.asked: list[dict] = []
        self.headers: list[dict] = []
        self.open = self.listed = 0
        self.models: Handler = listing("m")
        self.url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.open += 1
        try:
            return await answer(request)
        finally:
            self.open -= 1

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        self.listed += 1
        return await self.models(request)


def listing(*names: str) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": name} for name in names]})

    return answer


def status(code: int, body: object = "no", **headers: str) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if text.startswith("<") else "application/json"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, text=text, content_type=kind, headers=named)

    return answer


def refuses(message: str, code: int = 400) -> Handler:
    return status(code, {"error": {"message": message, "type": "invalid_request_error"}})


@asynccontextmanager
async def streaming(request: web.Request) -> AsyncIterator[web.StreamResponse]:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    yield response


def delta(text: str, finish: str | None = None, **more: object) -> dict:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish, **more}]}


def streams(*events: object, pause_s: float = 0.0, hang: bool = False) -> Handler:
    """Sends each event (raw text as it is), then ends the stream or hangs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        async with streaming(request) as response:
            for event in events:
                data = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
                await response.write(data.encode())
                await asyncio.sleep(pause_s)
            if hang:
                await asyncio.sleep(30)
            return response

    return answer


def held(told: asyncio.Event, *events: object) -> Handler:
    """Sends the first event, and the others once it is told to."""

    async def answer(request: web.Request) -> web.StreamResponse:
        async with streaming(request) as response:
            for number, event in enumerate(events):
                data = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
                await response.write(data.encode())
                if number == 0:
                    await told.wait()
            return response

    return answer


DONE = "data: [DONE]\n\n"


def says(*pieces: str, finish: str = "stop", usage: dict | None = None) -> Handler:
    last = {"choices": [], "usage": usage, "system_fingerprint": "fp_1"} if usage else {"choices": []}
    return streams({"choices": [{"delta": {"role": "assistant"}}]}, *map(delta, pieces), delta("", finish), last, DONE)


@pytest.fixture
async def stand():
    stand = Stand()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", stand.chat)
    app.router.add_post("/v1/completions", stand.chat)
    app.router.add_get("/v1/models", stand.list_models)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stand.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"
    yield stand
    await runner.cleanup()


@pytest.fixture
async def open_remote(stand):
    opened = []

    async def open_one(*, wait=True, retry=QUICK, tokenizer=None, config=None, **changes):
        settings = msgspec.structs.replace(load_config(environment={}).models, **changes)
        chosen = ModelConfig(
            **{"kind": "openai", "base_url": stand.url, "model": "m", "key_env": "KEY", **(config or {})}
        )
        remote = RemoteModel("big", chosen, settings, CLOCK, tokenizer, {"KEY": KEY}, retry=retry)
        opened.append(remote)
        await remote.start()
        if wait:
            await remote.wait_ready(60.0)
        return remote

    yield open_one
    for remote in opened:
        await remote.close()


def ask(text="Hi", tokens=50, **more):
    return GenerateRequest(messages=[ChatMessage(role="user", content=[Segment(text)])], max_tokens=tokens, **more)


async def whole(remote, request=None, call=None):
    events = [event async for event in remote.generate(request or ask(), call or RequestContext())]
    assert isinstance(events[-1], Generated)
    assert "".join(event.text for event in events[:-1]) == events[-1].text
    return events[-1]


async def follow(events, act):
    async for event in events:
        act(event)


async def test_counts_and_build_are_the_servers_where_it_gives_them(stand, open_remote):
    remote = await open_remote()
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    stand.answers = [says("Hel", "lo", usage=usage)]
    last = await whole(remote, ask(seed=7))
    assert (last.text, last.prompt_tokens, last.tokens, last.cached_tokens) == ("Hello", 9, 3, 4)
    assert last.fingerprint == f"openai:{stand.url}#m@fp_1"
    assert (last.seed, last.reason) == (7, "end")
    sent = stand.asked[-1]
    assert sent["messages"] == [{"role": "user", "content": "Hi"}]
    assert (sent["model"], sent["stream"], sent["seed"], sent["max_tokens"]) == ("m", True, 7, 50)
    assert sent["stream_options"] == {"include_usage": True}
    assert stand.headers[-1]["Authorization"] == f"Bearer {KEY}"


async def test_without_counts_from_the_server_the_tokenizer_counts(stand, open_remote):
    remote = await open_remote(tokenizer=WordTokenizer(CLOCK))
    stand.answers = [says("one two ", "three", finish="length")]
    last = await whole(remote, ask("a b c"))
    assert (last.tokens, last.prompt_tokens, last.reason) == (3, 7, "length"), "user : a b c assistant :"


async def test_a_server_that_does_not_stream_is_understood_and_thoughts_are_no_text(stand, open_remote):
    remote = await open_remote()
    stand.answers = [
        status(200, {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}),
        streams({"choices": [{"delta": {"reasoning_content": "hmm"}}]}, delta("so", "stop"), DONE),
    ]
    assert (await whole(remote)).text == "whole"
    assert (await whole(remote)).text == "so"


async def test_429_waits_as_long_as_it_is_told(stand, open_remote):
    remote = await open_remote()
    stand.answers = [status(429, "slow down", Retry_After="1.5"), says("late")]
    begun = time.monotonic()
    last = await whole(remote)
    assert time.monotonic() - begun >= 1.5
    assert last.text == "late"
    assert last.queue_ms >= 1500 > last.prefill_ms, "the wait is no reading of the prompt"


async def test_429_with_a_long_wait_is_handed_on(stand, open_remote):
    remote = await open_remote()
    stand.answers = [status(429, "come tomorrow", Retry_After="4000")]
    with pytest.raises(Unavailable, match="429: come tomorrow") as caught:
        await whole(remote)
    assert caught.value.retry_after_s == 4000
    assert len(stand.asked) == 1
    assert remote.status().state == "ready", "a busy server is there"


async def test_a_wait_that_would_pass_the_deadline_is_not_begun(stand, open_remote):
    remote = await open_remote()
    stand.answers = [status(503, "soon", Retry_After="20")]
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="503: soon"):
        await whole(remote, None, RequestContext(deadline=CLOCK.monotonic() + 19))
    assert time.monotonic() - begun < 15, "it neither waited nor slept until the deadline"


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_failure_that_passes_is_tried_again(stand, open_remote, code):
    remote = await open_remote()
    stand.answers = [status(code), status(code), says("fine")]
    assert (await whole(remote)).text == "fine"
    assert len(stand.asked) == 3


async def test_one_that_stays_is_an_error_after_so_many_tries(stand, open_remote):
    remote = await open_remote()
    stand.answers = [status(500, {"error": {"message": "out of memory"}})]
    with pytest.raises(Unavailable, match=r"^big \(http://127.*: it answered 500: out of memory$"):
        await whole(remote)
    assert len(stand.asked) == QUICK.tries


async def test_nothing_is_asked_again_once_text_was_given_out(stand, open_remote):
    remote = await open_remote()
    stand.answers = [streams(delta("Hal"), "data: {nonsense\n\n")]
    seen = []
    with pytest.raises(Unavailable, match=r"not part of a reply.*\{nonsense"):
        await follow(remote.generate(ask(), RequestContext()), lambda event: seen.append(event.text))
    assert seen == ["Hal"]
    assert len(stand.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (status(502, "<html>" + "<b>Bad gateway</b>" * 50), Unavailable, "answered 502: <html><b>Bad gateway"),
        (status(200, "<html>Welcome to the portal"), ConfigError, "answered 200: <html>Welcome.*base_url"),
        (
            status(401, {"error": {"message": f"bad key {KEY}"}}),
            ConfigError,
            r"bad key \[key\]; check the key in .*key_env",
        ),
        (status(404, {"error": {"message": "no model m"}}), ConfigError, "404: no model m; check base_url.*model"),
        (status(400, {"error": {"message": "prompt too long"}}), BadInput, "400: prompt too long"),
        (status(400, {"detail": [{"msg": "odd"}]}), BadInput, "400: .*odd"),
        (
            status(307, "", Location="http://elsewhere.example/v1"),
            ConfigError,
            "307, go to http://elsewhere.example/v1",
        ),
        (streams(delta("a")), Unavailable, "ended early"),
        (streams(DONE), Unavailable, "ended early"),
        (streams({"error": {"message": "kv cache full", "code": 500}}), Unavailable, "kv cache full"),
        (says("x", finish="content_filter"), BadInput, "content filter"),
        (says("x", finish="abort"), Unavailable, "gave up"),
        (streams('data: "not an object"\n\n'), Unavailable, "not part of a reply"),
        (streams("data: " + "x" * 5_000_000), Unavailable, "more than"),
        (streams("", hang=True), Unavailable, "silent for 0.3 s"),
        (streams(delta("a"), hang=True), Unavailable, "silent for 0.3 s"),
    ],
)
async def test_each_bad_answer_is_one_clear_error(stand, open_remote, answer, error, words):
    remote = await open_remote(remote_timeout_s=0.3 if "silent" in words else 60.0)
    stand.answers = [answer]
    with pytest.raises(error, match=words) as caught:
        await whole(remote)
    assert type(caught.value) is error
    assert "Traceback" not in str(caught.value)
    assert KEY not in str(caught.value) + repr(remote.status())
    assert len(str(caught.value)) < 700


async def test_slow_headers_are_silence_too_and_a_slow_but_steady_reply_is_not(stand, open_remote):
    remote = await open_remote(remote_timeout_s=0.3)

    async def slow(_request):
        await asyncio.sleep(30)

    stand.answers = [slow]
    with pytest.raises(Unavailable, match="silent"):
        await whole(remote)
    patient = await open_remote(remote_timeout_s=3.0)
    stand.answers = [streams(*map(delta, "abcdef"), ": still here\n\n", delta("", "stop"), DONE, pause_s=0.5)]
    assert (await whole(patient)).text == "abcdef"


async def test_cancel_closes_the_connection_at_once(stand, open_remote):
    remote = await open_remote()
    stand.answers = [streams(delta("a"), hang=True)]
    call = RequestContext()
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        await follow(remote.generate(ask(), call), lambda _: asyncio.get_running_loop().call_later(0.05, call.cancel))
    assert time.monotonic() - begun < 20, "the server would have held it for half a minute"
    for _ in range(6000):
        if not stand.open:
            break
        await asyncio.sleep(0.01)
    assert stand.open == 0, "the server still holds the connection"


async def test_cancel_and_deadline_end_a_wait_between_tries(stand, open_remote):
    remote = await open_remote(retry=RetryRule(tries=3, first_s=60.0, longest_s=60.0))
    stand.answers = [status(503)]
    call = RequestContext()
    asyncio.get_running_loop().call_later(0.1, call.cancel)
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        await whole(remote, None, call)
    assert time.monotonic() - begun < 20
    stand.answers = [streams(delta("a"), hang=True)]
    with pytest.raises(DeadlineExceeded):
        await whole(remote, None, RequestContext(deadline=CLOCK.monotonic() + 0.1))


async def test_what_a_server_refuses_by_name_is_left_out_from_then_on(stand, open_remote):
    remote = await open_remote()
    stand.answers = [
        refuses("Unrecognized request argument supplied: top_k"),
        refuses("Unrecognized request argument supplied: min_p"),
        refuses("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        says("fine"),
    ]
    assert (await whole(remote)).text == "fine"
    await whole(remote)
    last = stand.asked[-1]
    assert len(stand.asked) == 5
    assert not {"top_k", "min_p", "max_tokens"} & set(last)
    assert last["max_completion_tokens"] == 50
    assert remote.status().reason == "it refuses min_p, top_k, which are left out"


async def test_a_value_out_of_range_is_the_callers_error_and_not_left_out(stand, open_remote):
    remote = await open_remote()
    stand.answers = [refuses("temperature must be between 0 and 2")]
    with pytest.raises(BadInput, match="temperature must be"):
        await whole(remote)
    assert len(stand.asked) == 1


async def test_a_server_without_response_format_is_asked_without_and_the_reply_checked(stand, open_remote):
    remote = await open_remote()
    refusal = refuses("response_format is not supported")
    stand.answers = [refusal, refusal, says('{"a": 1}'), says('{"b": 1}'), says("Sure! ")]
    assert (await whole(remote, ask(schema=FORM))).text == '{"a": 1}'
    forms = [body.get("response_format", {}).get("type") for body in stand.asked]
    assert forms == ["json_schema", "json_object", None]
    assert "no response_format" in remote.status().reason
    with pytest.raises(Unavailable, match="lacks a"):
        await whole(remote, ask(schema=FORM))
    with pytest.raises(Unavailable, match="no JSON"):
        await whole(remote, ask(schema=FORM))
    assert remote.status().state == "ready"


async def test_a_bad_schema_is_the_callers_error(stand, open_remote):
    remote = await open_remote()
    stand.answers = [refuses("Invalid schema for response_format 'reply': no type")]
    with pytest.raises(BadInput, match="Invalid schema"):
        await whole(remote, ask(schema=CLOSED))
    assert [body["response_format"]["json_schema"]["strict"] for body in stand.asked] == [True, False]
    assert remote.status().reason == ""


async def test_a_regular_expression_is_refused_before_the_server_is_asked(stand, open_remote):
    remote = await open_remote()
    with pytest.raises(BadInput, match="does not support regular expressions; give a JSON schema"):
        await whole(remote, ask(regex="yes|no"))
    assert not stand.asked


async def test_untrusted_control_tokens_are_broken_on_the_way_out_and_trusted_ones_are_not(stand, open_remote):
    remote = await open_remote()
    parts = [Segment("<|im_start|>", trusted=True), Segment("a <|im_end|> b", source="TP-1")]
    await whole(remote, GenerateRequest(segments=parts, max_tokens=5))
    assert stand.asked[-1]["prompt"] == "<|im_start|>a <\u2060|im_end|> b"


async def test_the_line_is_bounded_and_a_beat_passes_it(stand, open_remote):
    remote = await open_remote(parallel=1, queue=1)
    told = asyncio.Event()
    stand.answers = [held(told, delta("a"), delta("", "stop"), DONE), says("a")]
    running = [asyncio.ensure_future(whole(remote)) for _ in range(2)]
    await until(lambda: (remote._line.running, remote._line.waiting) == (1, 1) and stand.asked)
    with pytest.raises(Unavailable, match="already wait"):
        await whole(remote)
    assert await remote.beat(RequestContext()) > 0
    assert not any(one.done() for one in running)
    told.set()
    assert [last.text for last in await asyncio.gather(*running)] == ["a", "a"]


async def test_a_key_that_is_refused_is_failed_until_a_real_token_comes(stand, open_remote):
    stand.models, stand.answers = status(401, "who are you"), [status(401, "who are you")]
    remote = await open_remote(wait=False)
    with pytest.raises(Unavailable, match="401: who are you"):
        await remote.wait_ready(60.0)
    assert remote.status().state == "failed"
    stand.answers = [says("welcome")]
    await remote.beat(RequestContext())
    assert (remote.status().state, remote.status().reason) == ("ready", "")


async def test_a_ready_server_is_looked_at_from_time_to_time_and_no_token_is_asked_for(stand, open_remote):
    remote = await open_remote(heartbeat_s=0.05)
    await until(lambda: stand.listed >= 3)
    assert not stand.asked
    stand.models, stand.answers = status(401, "go away"), [status(401, "go away")]
    await until(lambda: remote.status().state == "failed")
    stand.answers = [says("welcome")]
    await until(lambda: remote.status().state == "ready")


async def test_a_server_that_writes_a_reply_is_not_looked_at(stand, open_remote, monkeypatch):
    remote, told, rests = await open_remote(heartbeat_s=0.05), asyncio.Event(), []
    lost = remote._health.lost

    async def rest(timeout_s):
        rests.append(stand.listed)
        return await lost(timeout_s)

    monkeypatch.setattr(remote._health, "lost", rest)  # what the watch does between two looks
    stand.answers = [held(told, delta("a"), delta("", "stop"), DONE)]
    running = asyncio.ensure_future(whole(remote))
    await until(lambda: stand.asked)
    begun = len(rests)
    await until(lambda: len(rests) > begun + 6)
    assert not running.done()
    assert len(set(rests[begun + 1 :])) == 1, "a look that was on its way has arrived by the next rest"
    told.set()
    assert (await running).text == "a"


async def test_a_model_the_server_does_not_list_is_shown(stand, open_remote):
    stand.models = listing("other", "third")
    remote = await open_remote()
    assert remote.status().state == "ready"
    assert remote.status().reason == "it does not list m; it lists: other, third"


async def test_a_server_without_a_list_of_models_is_ready_and_one_with_a_page_instead_is_not(stand, open_remote):
    stand.models = status(404)
    assert (await open_remote()).status().state == "ready"
    stand.models = status(200, "<html>log in")
    stand.answers = [status(200, "<html>log in")]
    remote = await open_remote(wait=False)
    with pytest.raises(Unavailable, match="log in"):
        await remote.wait_ready(60.0)
    assert remote.status().state == "failed"


async def test_a_connection_that_is_never_accepted_is_given_up(open_remote):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as others:
        for _ in range(4):  # the kernel accepts no more on behalf of a server that does not
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        remote = await open_remote(
            wait=False, config={"base_url": url}, retry=RetryRule(tries=2, first_s=0.01), remote_timeout_s=0.3
        )
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="no connection in time"):
            await whole(remote)
        assert time.monotonic() - begun < 30.0
        await remote.close()


async def test_names_and_ports_nobody_answers_at_are_said_so(open_remote):
    for url, words in (
        ("http://127.0.0.1:9/v1", "no connection"),
        ("http://no-such-host.invalid/v1", "cannot be resolved"),
    ):
        remote = await open_remote(wait=False, config={"base_url": url}, retry=RetryRule(tries=1))
        with pytest.raises(Unavailable, match=words):
            await whole(remote)
        assert remote.status().state == "inactive"


async def test_tls_where_there_is_none_is_said_so(stand, open_remote):
    url = stand.url.replace("http://", "https://")
    remote = await open_remote(wait=False, config={"base_url": url})
    with pytest.raises(Unavailable, match="TLS"):
        await whole(remote)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
async def test_a_certificate_nobody_vouches_for_is_refused_at_once(open_remote, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    await asyncio.to_thread(
        subprocess.run, [*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        remote = await open_remote(wait=False, config={"base_url": url}, retry=RetryRule(first_s=60.0))
        with pytest.raises(Unavailable, match="TLS certificate is not trusted"):
            await whole(remote)
        await remote.close()


async def test_after_close_a_call_is_refused_and_start_brings_it_back(stand, open_remote):
    remote = await open_remote()
    await remote.close()
    assert remote.status().state == "inactive"
    with pytest.raises(Unavailable, match="closed"):
        await whole(remote)
    await remote.start()
    await remote.wait_ready(60.0)
    assert (await whole(remote)).text == "fine"


async def test_a_call_in_flight_when_it_closes_gets_an_error(stand, open_remote):
    remote = await open_remote()
    stand.answers = [streams(delta("a"), hang=True)]
    closing = []
    with pytest.raises(Unavailable, match="closed"):
        await follow(
            remote.generate(ask(), RequestContext()), lambda _: closing.append(asyncio.ensure_future(remote.close()))
        )
    await asyncio.gather(*closing)


async def test_a_prompt_over_the_context_is_refused_with_numbers_when_counts_are_exact(stand, open_remote):
    remote = await open_remote(tokenizer=WordTokenizer(CLOCK), config={"context": 20})
    with pytest.raises(BadInput, match=r"has 15 tokens or more and 10 more.* room for 20"):
        await whole(remote, ask("word " * 15, 10))
    assert (await whole(remote, ask("word " * 10, 10))).text == "fine"
    assert len(stand.asked) == 1
