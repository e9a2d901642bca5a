"""`/v1` driven by OpenAI's own client against a real daemon whose three roles say what a script tells them."""

import asyncio
import contextlib
import http.client
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

import gaiad
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from tests.makers.gguf_files import write_tiny_bert
from tests.makers.scripted_home import scripted_home

SAMPLES = Path(gaiad.__file__).parent / "samples"
SCRIPT = """
[[reply]]
match = 'cite something[^\\n]*\\nassistant: $'
text = "RESPONSE: Noun bias is overcome [Packet: tp-20251127-033715]."

[[reply]]
match = 'heron called again[^\\n]*\\nassistant: $'
text = "RESPONSE: You called it Mirabell before."

[[reply]]
match = 'heron is called[^\\n]*\\nassistant: $'
text = "RESPONSE: Mirabell is a fine name for a heron by the harbour."

[[reply]]
match = 'break off[^\\n]*\\nassistant: $'
text = "It began well"
error = "worker_died"

[[reply]]
match = '"lit"'
text = '{"lit": true}'

[[reply]]
text = "One two three. Four five six."
chunk_characters = 5
"""
CITING = "cite something about the enumeration protocol and noun bias"
NAMED = "My grey heron is called Mirabell and lives by the harbour."


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    folder = tmp_path_factory.mktemp("v1")
    write_tiny_bert(folder / "words.gguf")
    embedder = f'[embedder]\nkind = "gguf"\npath = "{folder / "words.gguf"}"\nthreads = 1\n'
    home = scripted_home(folder, SCRIPT, embedder)
    (home / "token").write_text("owner-owner-owner-owner\nteam-team-team-team team\n")
    (home / "token").chmod(0o600)
    with running_daemon(home=home) as daemon:
        daemon.client.post("/ingest", {"paths": [str(SAMPLES)], "wait": True})
        yield daemon


def token(daemon: BenchDaemon) -> str:
    return (daemon.home / "token").read_text().splitlines()[0]


def url(daemon: BenchDaemon) -> str:
    return str(daemon.client.get("/status")["url"]).rstrip("/")


@pytest.fixture
def client(daemon: BenchDaemon) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url(daemon)}/v1", api_key=token(daemon), max_retries=0) as client:
        yield client


def said(*texts: str) -> list[Any]:
    """A conversation in which user and assistant take turns."""
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


def session_of(raw: Any) -> str:
    return str(raw.headers["x-gaiad-session"])


def remembered(daemon: BenchDaemon, session: str) -> list[str]:
    """Everything said in the session, in order."""
    turns = daemon.client.post("/sessions/show", {"session_id": session})["turns"]
    return [message["content"] for turn in turns for message in turn["messages"]]


def sessions(daemon: BenchDaemon) -> int:
    return len(daemon.client.post("/sessions/list", {"limit": 1000})["sessions"])


# ------------------------------------------------------------------------------------------------------------ models


def test_the_models_are_those_that_chat_and_the_embedder_is_known_by_its_id(client: openai.OpenAI) -> None:
    ids = [model.id for model in client.models.list()]
    assert ids == ["gaiad", "gaiad-fast", "prime", "lite", "codemind"]
    assert [client.models.retrieve(name).owned_by for name in ("gaiad-fast", "embedder")] == ["gaiad", "gaiad"]
    with pytest.raises(openai.NotFoundError, match="embedder"):
        client.chat.completions.create(model="embedder", messages=said("Say it."))
    with pytest.raises(openai.NotFoundError) as refusal:
        client.models.retrieve("gpt-9")
    assert refusal.value.code == "model_not_found"


# -------------------------------------------------------------------------------------------------- chat/completions


def test_the_council_answers_with_its_sources(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="gaiad-fast", messages=said(CITING))
    choice = completion.choices[0]
    assert choice.finish_reason == "stop"
    text = choice.message.content or ""
    assert "[Packet: tp-20251127-033715]" in text
    (note,) = choice.message.annotations or []
    cited = note.url_citation
    assert text[cited.start_index : cited.end_index] == "[Packet: tp-20251127-033715]"
    assert cited.url.endswith("/#/packet/tp-20251127-033715")
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


def test_open_webui_is_told_the_title_of_a_source(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "gaiad-fast", "messages": said(CITING), "stream": True}
    plain = [chunk.to_dict() for chunk in client.chat.completions.create(**asked)]
    assert [chunk for chunk in plain if "event" in chunk] == []
    (noted,) = [found for chunk in plain for found in chunk["choices"][0]["delta"].get("annotations", [])]  # type: ignore[index]
    headers = {"X-OpenWebUI-Chat-Id": "of its own"}
    chunks = [chunk.to_dict() for chunk in client.chat.completions.create(**asked, extra_headers=headers)]
    (event,) = [chunk["event"] for chunk in chunks if "event" in chunk]
    source, metadata = event["data"]["source"], event["data"]["metadata"][0]  # type: ignore[index]
    title = noted["url_citation"]["title"]
    assert (event["type"], source["name"], metadata["name"]) == ("source", title, title)  # type: ignore[index]
    assert source["url"] == metadata["source_url"] == noted["url_citation"]["url"]
    assert title != metadata["source"] == "tp-20251127-033715"
    assert all("annotations" not in chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"])  # type: ignore[index]


@pytest.mark.parametrize("model", ["gaiad-fast", "prime"])
def test_a_stream_says_what_the_whole_says_and_ends_with_its_usage(client: openai.OpenAI, model: str) -> None:
    chunks = list(
        client.chat.completions.create(
            model=model, messages=said("Say it."), stream=True, stream_options={"include_usage": True}
        )
    )
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == "One two three. Four five six."
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_without_asking_for_it_no_usage_is_streamed(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="lite", messages=said("Say it."), stream=True))
    assert all(chunk.choices for chunk in chunks)


@pytest.mark.parametrize("model", ["gaiad-fast", "prime"])
@pytest.mark.parametrize("stream", [False, True])
def test_stop_ends_the_text(client: openai.OpenAI, model: str, stream: bool) -> None:
    asked: dict[str, Any] = {"model": model, "messages": said("Say it."), "stop": [" Four"]}
    if stream:
        chunks = client.chat.completions.create(**asked, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    else:
        text = client.chat.completions.create(**asked).choices[0].message.content
    assert text == "One two three."


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens_ends_it_with_length(client: openai.OpenAI, name: str) -> None:
    limit: dict[str, Any] = {name: 3}
    completion = client.chat.completions.create(model="prime", messages=said("Say it."), **limit)
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 3


def test_tools_are_accepted_and_a_required_call_is_refused(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked: dict[str, Any] = {"model": "gaiad-fast", "messages": said("Say it."), "tools": tools}
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert len([chunk for chunk in chunks if chunk.choices[0].delta.content]) >= 1
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        client.chat.completions.create(**asked, tool_choice="required")


def test_a_json_schema_is_handed_to_the_role(client: openai.OpenAI, daemon: BenchDaemon) -> None:
    form: Any = {
        "type": "json_schema",
        "json_schema": {"name": "lamp", "schema": {"type": "object", "properties": {"lit": {"type": "boolean"}}}},
    }
    messages = said('Is it "lit"?')
    completion = client.chat.completions.create(model="lite", messages=messages, response_format=form)
    assert json.loads(completion.choices[0].message.content or "") == {"lit": True}
    with pytest.raises(openai.BadRequestError, match="ask prime, lite, codemind"):
        client.chat.completions.create(model="gaiad", messages=messages, response_format=form)


def test_parts_of_text_and_of_tools_are_read_and_an_image_is_refused(client: openai.OpenAI) -> None:
    called = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    messages: Any = [
        {"role": "user", "content": [{"type": "text", "text": "Please look"}]},
        {"role": "assistant", "content": None, "tool_calls": called},
        {"role": "tool", "tool_call_id": "c", "content": "A lamp."},
    ]
    assert client.chat.completions.create(model="prime", messages=messages).choices[0].message.content
    image: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    with pytest.raises(openai.BadRequestError, match="image_url"):
        client.chat.completions.create(model="prime", messages=image)


# ---------------------------------------------------------------------------------------------------------- sessions


def test_history_continues_its_session_also_when_the_window_slid(client: openai.OpenAI, daemon: BenchDaemon) -> None:
    raw = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=said(NAMED))
    first = session_of(raw)
    answer = raw.parse().choices[0].message.content or ""
    again = said(NAMED, f" {answer}\n", "What was my heron called again?")
    raw = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=again)
    assert session_of(raw) == first
    second = raw.parse().choices[0].message.content or ""
    slid = said("What was my heron called again?", second, "And where does it live, by which harbour?")
    raw = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=slid)
    assert session_of(raw) == first
    told = remembered(daemon, first)
    assert [told.count(message) for message in (NAMED, "What was my heron called again?")] == [1, 1]


def test_a_history_nobody_knows_is_kept_in_its_new_session_once(client: openai.OpenAI, daemon: BenchDaemon) -> None:
    history = ("I planted eleven quince trees behind the mill in April.", "Quinces like the sun there.")
    raw = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=said(*history, "How many?"))
    told = remembered(daemon, session_of(raw))
    assert told[:3] == [*history, "How many?"]
    answer = raw.parse().choices[0].message.content or ""
    more = said(*history, "How many?", answer, "Thank you.")
    again = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=more)
    assert session_of(again) == session_of(raw)
    assert remembered(daemon, session_of(raw)).count(history[0]) == 1


@pytest.mark.parametrize(
    "named", [{"extra_headers": {"X-Gaiad-Session": "a walk"}}, {"user": "a walk"}, {"extra_headers": {
        "X-OpenWebUI-Chat-Id": "a walk"}}],
)  # fmt: skip
def test_a_header_or_the_user_names_the_session(client: openai.OpenAI, named: dict[str, Any]) -> None:
    raw = client.chat.completions.with_raw_response.create(model="gaiad-fast", messages=said("Say it."), **named)
    assert session_of(raw) == "a walk"


def test_a_front_ends_request_for_a_title_is_not_remembered(client: openai.OpenAI, daemon: BenchDaemon) -> None:
    before = sessions(daemon)
    task = "### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\nUSER: the zanzibar letter\n</chat_history>"
    completion = client.chat.completions.create(model="gaiad", messages=said(task))
    assert completion.choices[0].message.content == "One two three. Four five six."
    assert sessions(daemon) == before
    found = daemon.client.post("/search", {"query": "zanzibar", "mode": "bm25", "include_chats": True})
    assert found["hits"] == []


def test_what_must_not_be_stored_is_refused_by_who_remembers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="store"):
        client.chat.completions.create(model="gaiad", messages=said("Say it."), store=False)
    assert client.chat.completions.create(model="lite", messages=said("Say it."), store=False).choices


# --------------------------------------------------------------------------------------------------------- responses


def test_a_response_has_its_whole_sequence_of_events(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="gaiad-fast", input=CITING, stream=True))
    kinds = [event.type for event in events if event.type != "response.output_text.delta"]
    assert kinds == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.annotation.added", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done: Any = events[-1]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert done.response.output_text == text
    assert done.response.output[0].content[0].annotations[0].title
    assert done.response.usage.total_tokens > 0


def test_a_response_goes_on_from_an_earlier_one(client: openai.OpenAI, daemon: BenchDaemon) -> None:
    raw = client.responses.with_raw_response.create(model="gaiad-fast", input=[{"role": "user", "content": NAMED}])
    first = raw.parse()
    again = client.responses.with_raw_response.create(
        model="gaiad-fast", input="What was my heron called again?", previous_response_id=first.id
    )
    assert session_of(again) == session_of(raw)
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(model="gaiad-fast", input="Hi", previous_response_id="resp_none")
    with pytest.raises(openai.BadRequestError, match="prime remembers nothing here"):
        client.responses.create(model="prime", input="Hi", previous_response_id=first.id)


def test_a_response_says_whether_it_is_stored(client: openai.OpenAI) -> None:
    def created(model: str, **more: Any) -> bool:
        return client.responses.create(model=model, input="Count the boats.", **more).model_dump()["store"]

    assert (created("gaiad-fast"), created("prime"), created("prime", store=False)) == (True, False, False)
    with pytest.raises(openai.BadRequestError, match="store"):
        created("gaiad-fast", store=False)


@pytest.mark.parametrize("role", [None, "", "x", [], {}, [[]], {"a": 1}])
def test_a_role_that_is_none_is_refused(client: openai.OpenAI, role: Any) -> None:
    with pytest.raises(openai.BadRequestError, match=r"input\[0\]: give a message with role"):
        client.responses.create(model="lite", input=[{"role": role, "content": "Hi"}])  # type: ignore[typeddict-item]


def test_a_short_response_is_incomplete_and_instructions_reach_the_role(client: openai.OpenAI) -> None:
    response = client.responses.create(model="prime", input="Say it.", instructions="Be brief.", max_output_tokens=2)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_model_that_dies_under_a_stream_fails_the_response_and_the_completion(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="prime", input="Now break off", stream=True))
    assert events[-1].type == "response.failed"
    stream = client.chat.completions.create(model="prime", messages=said("Now break off"), stream=True)
    with pytest.raises(openai.APIError):
        list(stream)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="prime", messages=said("Now break off"))


# -------------------------------------------------------------------------------------------------------- embeddings


def test_embeddings_as_numbers_and_as_base64_are_the_same_unit_vectors(client: openai.OpenAI) -> None:
    texts = ["a grey heron", "the harbour"]
    plain = client.embeddings.create(model="embedder", input=texts, encoding_format="float")
    packed = client.embeddings.create(model="gaiad", input=texts)  # base64, unpacked by the client
    for one, other in zip(plain.data, packed.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding)
        assert math.hypot(*one.embedding) == pytest.approx(1.0, abs=1e-3)
    assert [row.index for row in plain.data] == [0, 1]
    assert plain.usage.prompt_tokens > 0
    with pytest.raises(openai.BadRequestError, match="input"):
        client.embeddings.create(model="embedder", input=[[1, 2]])
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="embedder", input="x", dimensions=7)


# ---------------------------------------------------------------------------------------------- tokens and refusals


def test_a_wrong_token_and_a_strangers_tenant_are_refused_in_openais_shape(
    daemon: BenchDaemon, client: openai.OpenAI
) -> None:
    with pytest.raises(openai.AuthenticationError) as refusal:
        client.with_options(api_key="wrong-wrong-wrong-wrong").models.list()
    assert refusal.value.type == "authentication_error"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.post("/completions/other", cast_to=object, body={})
    assert unknown.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"api-key": "TOKEN"}, 200),
        ({"x-api-key": "TOKEN"}, 200),
        ({"Authorization": "Bearer TOKEN", "api-key": "TOKEN"}, 200),
        ({"Authorization": "Bearer TOKEN", "api-key": "another-another-another"}, 401),
        ({"Authorization": "Basic TOKEN"}, 401),
        ({"api-key": "Bearer TOKEN"}, 401),
        ({}, 401),
    ],
)
def test_one_token_path_for_all_headers(daemon: BenchDaemon, headers: dict[str, str], status: int) -> None:
    given = {name: value.replace("TOKEN", token(daemon)) for name, value in headers.items()}
    connection = http.client.HTTPConnection(urlsplit(url(daemon)).netloc)
    connection.request("GET", "/v1/models", headers=given)
    with contextlib.closing(connection), connection.getresponse() as response:
        assert response.status == status
        if status != 200:
            assert json.load(response)["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, None),
        ({"messages": [{"role": "assistant", "content": "x"}]}, None),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    client: openai.OpenAI, body: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.post("/chat/completions", cast_to=object, body={"model": "gaiad", **body})
    assert refusal.value.param == param
    assert refusal.value.type == "invalid_request_error"


async def test_fifty_streams_at_once_all_end(daemon: BenchDaemon) -> None:
    base = f"{url(daemon)}/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key=token(daemon), max_retries=0) as client:

        async def one(number: int) -> str:
            messages = said(f"Say it, number {number}.")
            stream = await client.chat.completions.create(model="prime", messages=messages, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        texts = await asyncio.gather(*(one(number) for number in range(50)))
    assert set(texts) == {"One two three. Four five six."}


def test_a_token_with_one_tenant_talks_in_it(daemon: BenchDaemon) -> None:
    with openai.OpenAI(base_url=f"{url(daemon)}/v1", api_key="team-team-team-team", max_retries=0) as team:
        raw = team.chat.completions.with_raw_response.create(model="gaiad-fast", messages=said("Say it."))
        shown = daemon.client.post("/sessions/show", {"session_id": session_of(raw), "tenant": "team"})
        assert shown["turns"]
        with pytest.raises(openai.PermissionDeniedError) as refusal:
            team.chat.completions.create(model="gaiad", messages=said("Hi"), extra_headers={"X-Gaiad-Tenant": "local"})
        assert refusal.value.type == "permission_error"
        assert re.search("tenant", refusal.value.message)


def test_llm_talks_to_gaiad_by_its_extra_models_file(daemon: BenchDaemon, tmp_path: Path) -> None:
    pytest.importorskip("llm", reason="llm is not in the lock: it brings pip and setuptools")
    models = f"- model_id: council\n  model_name: gaiad-fast\n  api_base: {url(daemon)}/v1\n  api_key_name: gaiad\n"
    (tmp_path / "extra-openai-models.yaml").write_text(models)
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    command = [sys.executable, "-m", "llm", "prompt", "-m", "council", "--key", token(daemon), CITING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "[Packet: tp-20251127-033715]" in done.stdout, done.stderr
