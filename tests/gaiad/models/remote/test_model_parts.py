"""What a remote model is made of, without a connection: waits, dialects, events, replies, addresses and keys."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.config import ModelConfig
from gaiad.base.errors import BadInput, ConfigError
from gaiad.models.plain.call_watch import check_request
from gaiad.models.remote.access import Access, Fault, RetryRule, checked_url, retry_after_s, wait_s
from gaiad.models.remote.reply import MarkerFront, RemoteReply, ServerEvents, form_problem
from gaiad.models.remote.wire import ServerDialect, error_words, fits_strict, learn, read_chunk, request_body
from gaiad.wire.generation import Block, ChatMessage, Contract, GenerateRequest, Sampling, Segment

NOW = datetime(2025, 12, 1, 12, 0, tzinfo=UTC)
RULE = RetryRule(tries=4, first_s=1.0, longest_s=3.0, asked_s=30.0)
VOTE = {"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"]}


def prompt(**more):
    return GenerateRequest(segments=[Segment("Once")], max_tokens=8, **more)


# ---------------------------------------------------------------------------------------------------------- waits


def test_waits_double_up_to_the_longest_and_half_of_each_is_drawn():
    assert [wait_s(RULE, failures, None, lambda: 1.0) for failures in (1, 2, 3)] == [1.0, 2.0, 3.0]
    assert [wait_s(RULE, failures, None, lambda: 0.0) for failures in (1, 2, 3)] == [0.5, 1.0, 1.5]
    assert wait_s(RULE, 4, None, lambda: 0.5) is None


def test_a_server_that_asks_for_a_wait_gets_no_less_and_no_more_than_is_bearable():
    assert wait_s(RULE, 1, 7.0, lambda: 0.0) == 7.0
    assert wait_s(RULE, 1, 7.0, lambda: 1.0) == pytest.approx(7.7)
    assert wait_s(RULE, 1, 31.0, lambda: 0.0) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("Mon, 01 Dec 2025 12:00:20 GMT", 20.0),
        ("Mon, 01 Dec 2025 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("٣", None),
        ("inf", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header, seconds):
    assert retry_after_s(header, NOW) == seconds


# -------------------------------------------------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        (400, "Unrecognized request argument supplied: top_k", ServerDialect(refused=frozenset({"top_k"}))),
        (422, "Extra inputs are not permitted: stream_options", ServerDialect(refused=frozenset({"stream_options"}))),
        (400, "temperature: only the default (1) value", ServerDialect(refused=frozenset({"temperature"}))),
        (400, "Use 'max_completion_tokens' instead", ServerDialect(limit_field="max_completion_tokens")),
        (500, "('body', 'response_format', 'type')", ServerDialect(form="json_object")),
        (400, "Invalid schema for response_format 'reply'", ServerDialect(strict=False)),
        (400, "top_k must be below 1000", None),
        (400, "this model's context is 4096 tokens", None),
        (503, "top_k is not supported while loading", None),
        (401, "unknown key", None),
    ],
)
def test_a_refusal_teaches_only_what_it_names(status, words, expected):
    assert learn(ServerDialect(), status, words, True) == expected


def test_a_schema_that_is_bad_even_when_not_strict_is_the_callers():
    assert learn(ServerDialect(strict=False), 400, "Invalid schema for response_format 'reply'", True) is None


def test_learning_ends():
    dialect, rounds = ServerDialect(), 0
    words = "unsupported: response_format max_completion_tokens " + " ".join(msgspec.structs.asdict(dialect))
    everything = words + " top_k min_p seed temperature top_p stop stream_options repeat_penalty repetition_penalty"
    while (learned := learn(dialect, 400, everything, True)) is not None:
        assert learned != dialect
        dialect, rounds = learned, rounds + 1
        assert rounds < 30
    assert dialect.form == "none"
    assert "only checked" in dialect.describe()


def test_only_a_closed_schema_is_called_strict():
    closed = {**VOTE, "additionalProperties": False}
    assert fits_strict(closed)
    assert not fits_strict(VOTE)
    assert not fits_strict({**closed, "required": []})
    assert not fits_strict({"type": "array", "items": [VOTE]})


def test_a_body_holds_what_is_asked_for_and_nothing_a_dialect_refuses():
    request = prompt(sampling=Sampling(repeat_penalty=1.2, repeat_window=32), stop=["a", "", "b", "c", "d", "e"])
    body = json.loads(request_body("m", request, 3, ServerDialect(refused=frozenset({"min_p"}))))
    assert body["prompt"] == "Once"
    assert (body["repeat_penalty"], body["repetition_penalty"], body["repeat_last_n"]) == (1.2, 1.2, 32)
    assert body["stop"] == ["a", "b", "c", "d"], "some servers refuse a fifth"
    assert "min_p" not in body
    assert "messages" not in body
    assert "repeat_penalty" not in json.loads(request_body("m", prompt(), 3, ServerDialect()))


def test_text_that_is_no_json_is_the_callers_error():
    broken = GenerateRequest(messages=[ChatMessage(role="user", content=[Segment("\ud800")])], max_tokens=1)
    with pytest.raises(BadInput, match="plain text"):
        request_body("m", broken, 1, ServerDialect())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no such  model"}}', "no such model"),
        (b'{"error": "plain"}', "plain"),
        (b'{"message": "top", "object": "error"}', "top"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"odd": 1}', '{"odd":1}'),
        (b"<html>\n  oops", "<html> oops"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_what_a_server_says_is_found_where_servers_put_it(body, words):
    assert error_words(body) == words


# ---------------------------------------------------------------------------------------------------------- events


@given(st.lists(st.integers(min_value=1, max_value=9)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_the_same_however_the_bytes_are_cut(cuts, end):
    wire = end.join([b": hello", b"data: one", b"", b"event: x", b"data:two", b"data: three", b"", b"id: 4", b"", b""])
    events, found, at = ServerEvents(), [], 0
    for size in [*cuts, len(wire)]:
        found += events.feed(wire[at : at + size])
        at += size
    found += events.finish()
    assert found == [b"one", b"two\nthree"]


def test_a_last_event_without_its_empty_line_counts_and_half_a_line_does_not():
    events = ServerEvents()
    assert events.feed(b"data: whole\n") == []
    assert events.finish() == [b"whole"]
    events = ServerEvents()
    assert events.feed(b'data: {"ha') + events.finish() == []


def test_an_event_without_an_end_is_given_up():
    events = ServerEvents(longest=100)
    with pytest.raises(Fault, match="more than 100 bytes"):
        events.feed(b"data: " + b"x" * 200)
    many = ServerEvents(longest=100)
    for _ in range(33):
        many.feed(b"data: abc\n")
    with pytest.raises(Fault, match="more than 100 bytes"):
        many.feed(b"data: abc\n")


# ---------------------------------------------------------------------------------------------------------- replies


def chunk(text="", finish=None, **more):
    return read_chunk(json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": finish, **more}]}).encode())


def feed(reply, *chunks):
    given = [delta for number, one in enumerate(chunks) for delta in reply.take(one, float(number))]
    return "".join(delta.text for delta in [*given, *reply.finish()])


def test_a_stop_string_across_chunks_is_met_on_our_side():
    reply = RemoteReply(prompt(stop=["END"]))
    assert feed(reply, chunk("one E"), chunk("ND two")) == "one "
    assert (reply.reason, reply.stop, reply.ended) == ("stop", "END", True)


def test_a_stop_string_the_server_met_is_named_when_it_tells():
    reply = RemoteReply(prompt(stop=["END"]))
    assert feed(reply, chunk("one "), chunk("", "stop", stop_reason="END")) == "one "
    assert (reply.reason, reply.stop) == ("stop", "END")


def test_thoughts_count_as_tokens_and_start_the_clock_but_are_not_the_reply():
    thought = read_chunk(b'{"choices": [{"delta": {"reasoning_content": "hm"}}]}')
    reply = RemoteReply(prompt())
    assert feed(reply, chunk(), thought, chunk("yes"), chunk("", "stop")) == "yes"
    assert (reply.first_at, reply.pieces) == (1.0, 2)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (['{"vote":', ' "yes"}'], 'VOTE: {"vote": "yes"}'),
        (["VO", "TE:", ' {"vote": "yes"}'], 'VOTE: {"vote": "yes"}'),
        (["\n ", '{"vote": "yes"}'], 'VOTE: {"vote": "yes"}'),
    ],
)
def test_a_marker_stands_before_the_json_once(pieces, text):
    contract = Contract(blocks=[Block(marker="VOTE", schema=VOTE)])
    assert feed(RemoteReply(prompt(contract=contract)), *map(chunk, pieces), chunk("", "stop")) == text


@given(st.text(max_size=12), st.lists(st.integers(min_value=1, max_value=4), max_size=12))
def test_a_marker_changes_nothing_of_what_follows_it(text, cuts):
    front, shown, at = MarkerFront("VOTE: "), "", 0
    for size in [*cuts, len(text)]:
        shown += front.feed(text[at : at + size])
        at += size
    shown += front.finish()
    body = text.lstrip()
    assert shown == ("" if not body else body if body.startswith("VOTE:") else f"VOTE: {body}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"vote": "yes"}', ""),
        (' {"vote": "yes"} \n', ""),
        ('{"vote": ', "no JSON"),
        ("```json\n{}\n```", "no JSON"),
        ("[]", "object expected"),
        ("{}", "it lacks vote"),
    ],
)
def test_a_form_is_checked_at_its_top(text, problem):
    found = form_problem(text, VOTE)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_a_reply_cut_by_its_length_is_not_blamed_for_its_form():
    reply = RemoteReply(prompt(schema=VOTE))
    assert feed(reply, chunk('{"vote'), chunk("", "length")) == '{"vote'
    assert reply.reason == "length"


# ------------------------------------------------------------------------------------------------ address and key


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/v1", "must begin with http"),
        ("host:8080", "must begin with http"),
        ("", "must begin with http"),
        ("http://", "name a host"),
        ("http://user:secret@host/v1", "key_env or key_file"),
        ("http://secret@host/v1", "key_env or key_file"),
        ("http://host:99999/v1", "not a valid address"),
        ("http://host/v1?key=secret", "must end with the path"),
        ("http://host/v1#x", "must end with the path"),
        ("http://ho st/v1", "must end with the path"),
        ("http://[::1/v1", "not a valid address"),
    ],
)
def test_an_address_that_is_none_is_refused(url, words):
    with pytest.raises(ConfigError, match=words) as caught:
        checked_url(url, "models.known.big.base_url")
    assert "models.known.big.base_url" in str(caught.value)
    assert "user" not in str(caught.value).replace("user name", "")


def test_an_address_loses_only_its_last_slash():
    assert checked_url(" http://[::1]:8080/v1/ ", "x") == "http://[::1]:8080/v1"


def access(environment=None, **config):
    settings = {"kind": "openai", "base_url": "http://host/v1", "model": "m", **config}
    return Access("big", ModelConfig(**settings), environment or {})


def test_a_key_comes_from_the_environment_or_a_file_of_ones_own(tmp_path):
    assert access().headers() == {}
    assert access({"KEY": " abc "}, key_env="KEY").headers() == {"Authorization": "Bearer abc"}
    file = tmp_path / "key"
    file.write_text("from-file\n")
    file.chmod(0o600)
    assert access(key_file=str(file)).headers() == {"Authorization": "Bearer from-file"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_others_may_read_is_refused_with_the_remedy(tmp_path, mode):
    file = tmp_path / "key"
    file.write_text("topsecret")
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}.*chmod 600") as caught:
        access(key_file=str(file))
    assert "topsecret" not in str(caught.value)


def test_a_key_that_is_missing_or_no_key_is_refused_without_showing_it(tmp_path):
    with pytest.raises(ConfigError, match="variable KEY is not set"):
        access(key_env="KEY")
    with pytest.raises(ConfigError, match="cannot be read"):
        access(key_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="printable") as caught:
        access({"KEY": "two lines\r\nX-Evil: 1"}, key_env="KEY")
    assert "Evil" not in str(caught.value)
    with pytest.raises(ConfigError, match="model is empty"):
        access(model="")


def test_what_a_server_says_is_shown_short_in_one_line_and_without_the_key():
    shown = access({"KEY": "abc123"}, key_env="KEY").excerpt("no\n\x1b[31m abc123 \u202e" + "x" * 500)
    assert shown.startswith("no [31m [key]")
    assert len(shown) == 200
    assert shown.isprintable()


# -------------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**32}, "seed is 4294967296"),
        ({"segments": []}, "either messages or a prompt"),
        ({"regex": "x", "schema": {}}, "regex and schema"),
        ({"sampling": Sampling(temperature=float("nan"))}, "temperature is nan"),
        ({"sampling": Sampling(top_p=float("inf"))}, "top_p is inf"),
        ({"sampling": Sampling(top_k=-1)}, "top_k is -1"),
    ],
)
def test_a_request_that_no_model_can_serve_is_named(change, words):
    with pytest.raises(BadInput, match=words):
        check_request(msgspec.structs.replace(prompt(), **change))
