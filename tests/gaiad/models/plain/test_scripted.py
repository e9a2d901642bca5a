import asyncio
import time

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Segment

CLOCK = SystemClock("UTC")


def ask(text="Hello", tokens=100, **more):
    return GenerateRequest(messages=[ChatMessage(role="user", content=[Segment(text)])], max_tokens=tokens, **more)


async def pieces(model, request=None, call=None):
    return [event async for event in model.generate(request or ask(), call or RequestContext())]


async def whole(model, request=None, call=None):
    events = await pieces(model, request, call)
    assert isinstance(events[-1], Generated)
    assert "".join(event.text for event in events[:-1]) == events[-1].text
    return events[-1]


def model(*replies):
    return ScriptedModel("prime", [ScriptedReply(**reply) for reply in replies], CLOCK)


async def test_a_file_says_what_is_said(tmp_path):
    file = tmp_path / "script.toml"
    file.write_text(
        '[[reply]]\ntext = "yes"\nmatch = "(?i)should we"\n[[reply]]\ntext = "a longer reply"\nchunk_characters = 4\n'
    )
    scripted = ScriptedModel.from_file("prime", file, CLOCK)
    assert (await whole(scripted, ask("Should we?"))).text == "yes"
    events = await pieces(scripted, ask("Tell me"))
    assert [event.text for event in events[:-1]] == ["a lo", "nger", " rep", "ly"]
    assert [request.messages[0].content[0].text for request in scripted.seen] == ["Should we?", "Tell me"]
    last = events[-1]
    assert (last.tokens, last.reason, last.fingerprint) == (3, "end", scripted.fingerprint)
    assert scripted.fingerprint == ScriptedModel.from_file("lite", file, CLOCK).fingerprint != model().fingerprint
    assert last.prompt_tokens == 6, "user : Tell me assistant :"
    status = scripted.status()
    assert (status.kind, status.state, status.path_or_url) == ("scripted", "ready", str(file))


async def test_replies_are_used_in_order_and_as_often_as_they_say():
    scripted = model({"text": "first", "times": 1}, {"text": "then", "times": 2})
    assert [(await whole(scripted)).text for _ in range(3)] == ["first", "then", "then"]
    with pytest.raises(BadInput, match=r"no reply is left.*add one without match"):
        await whole(scripted)
    assert len(scripted.seen) == 4


async def test_stop_strings_and_max_tokens_are_honoured():
    scripted = model({"text": "one two END three", "chunk_characters": 3})
    last = await whole(scripted, ask(stop=["END"]))
    assert (last.text, last.reason, last.stop) == ("one two ", "stop", "END")
    last = await whole(scripted, ask(tokens=2))
    assert (last.text, last.reason, last.tokens) == ("one two", "length", 2)


@pytest.mark.parametrize(
    ("name", "kind"), [("unavailable", Unavailable), ("worker_died", WorkerDied), ("bad_input", BadInput)]
)
async def test_an_error_comes_after_the_text_before_it(name, kind):
    scripted, seen = model({"text": "half a", "error": name}), []

    async def follow():
        async for event in scripted.generate(ask(), RequestContext()):
            seen.append(event.text)

    with pytest.raises(kind, match=f"the script says {name}"):
        await follow()
    assert seen == ["half a"]


async def test_delays_are_kept_and_cancel_and_deadline_end_them():
    scripted = model({"text": "abcd", "chunk_characters": 2, "delay_ms": 60.0})
    last = await whole(scripted)
    assert last.prefill_ms >= 60
    assert last.decode_ms >= 60
    slow = model({"text": "x", "delay_ms": 60_000.0})
    call = RequestContext()
    asyncio.get_running_loop().call_later(0.05, call.cancel)
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        await whole(slow, None, call)
    with pytest.raises(DeadlineExceeded):
        await whole(slow, None, RequestContext(deadline=CLOCK.monotonic() + 0.05))
    assert time.monotonic() - begun < 30.0


async def test_a_beat_uses_up_nothing_and_is_not_seen():
    scripted = model({"text": "once", "times": 1})
    await scripted.start()
    await scripted.wait_ready(0.0)
    assert await scripted.beat(RequestContext()) == 0.0
    assert scripted.seen == []
    assert (await whole(scripted)).text == "once"
    await scripted.close()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[reply]]\ntxt = 'x'", "txt"),
        ("[[reply]]\ntext = 3", r"text"),
        ("reply = 3", "reply"),
        ("", "reply"),
        ("[[reply", "TOML"),
        ("[[reply]]\nmatch = '('", r"reply\[0\]\.match"),
        ("[[reply]]\nchunk_characters = 0", r"reply\[0\]\.chunk_characters = 0"),
        ("[[reply]]\ndelay_ms = -1.0", r"reply\[0\]\.delay_ms"),
        ("[[reply]]\ndelay_ms = nan", r"reply\[0\]\.delay_ms"),
        ("[[reply]]\ntimes = -1", r"reply\[0\]\.times"),
        ("[[reply]]\nerror = 'boom'", r"error"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path, content, words):
    file = tmp_path / "script.toml"
    file.write_text(content)
    with pytest.raises(BadInput, match=words) as caught:
        ScriptedModel.from_file("prime", file, CLOCK)
    assert str(file) in str(caught.value)


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        ScriptedModel.from_file("prime", tmp_path / "none.toml", CLOCK)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read as TOML"):
        ScriptedModel.from_file("prime", tmp_path / "binary", CLOCK)
