"""Text over the socket of a real daemon with real workers, and everything that can go wrong with one."""

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaiad.base.errors import BadInput, Conflict, DeadlineExceeded, GaiadError, NotFound, Unavailable, WorkerDied
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.wire.generation import ChatTurn, GenerateBody
from tests.makers.llama_files import write_tiny_llama
from tests.makers.waiting import wait_until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    folder = tmp_path_factory.mktemp("generate")
    tiny = write_tiny_llama(folder / "tiny.gguf")
    damaged = folder / "damaged.gguf"
    damaged.write_bytes(tiny.read_bytes()[:5000])
    settings = (
        f"roles.prime={tiny}",
        f"roles.lite={tiny}",
        f"roles.codemind={damaged}",
        "models.threads=1",
        "models.parallel=2",
        "models.queue=1",
        "embedder.kind=none",
    )
    with running_daemon(*settings, home=folder / "home") as running:
        running.client.load_model("prime")
        yield running


@pytest.fixture
def client(daemon: BenchDaemon) -> Iterator[Client]:
    with Client(daemon.home) as one:
        yield one


def body(**more) -> GenerateBody:
    more = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 7, **more}
    return GenerateBody(**more)


def prime(client: Client):
    return next(row for row in client.models() if row.role == "prime")


def worker_of(client: Client) -> int:
    """The pid to send a signal to; while the worker restarts there is none, and 0 would be all of us."""
    return wait_until(lambda: prime(client).pid)


def drain(daemon: BenchDaemon, results: list, **more) -> threading.Thread:
    """A caller of its own in a thread: the last event, or the error it got."""

    def run() -> None:
        with Client(daemon.home) as one:
            try:
                results.append(list(one.generate_events(body(**more)))[-1].data)
            except GaiadError as error:
                results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "Once upon a time"},
        {
            "prompt": "",
            "messages": [
                ChatTurn(role="system", content="Be brief."),
                ChatTurn(role="user", content="Hello."),
                ChatTurn(role="assistant", content="Yes?"),
                ChatTurn(role="user", content="Say more."),
            ],
        },
    ],
    ids=["prompt", "messages"],
)
def test_a_call_is_kept_with_its_packet_and_gives_the_same_prompt_and_reply_again(client: Client, asked) -> None:
    *_, last = client.generate_events(body(**asked))
    kept = client.cognition_packets("local", 1)[0]
    assert (kept.reply["text"], kept.packet["role"], kept.aside) == (last.data["text"], "prime", True)
    assert kept.packet["user_prompt"] == (asked["prompt"] or "Say more.")
    assert kept.packet["identity"] == ""  # a bare role is sent what the person wrote
    again = client.replay_packet(kept.packet["full_id"], "local", generate=True)
    assert (again.same_prompt, again.differs_at) == (True, -1)


def test_deleting_everything_deletes_calls_too(client: Client) -> None:
    list(client.generate_events(body()))
    client.post("/forget", {"everything": True, "now": True})
    assert client.cognition_packets("local", 10) == []


def test_a_call_that_is_refused_leaves_no_packet(client: Client) -> None:
    newest = client.cognition_packets("local", 1)
    with pytest.raises(BadInput):
        list(client.generate_events(body(prompt="")))
    assert client.cognition_packets("local", 1) == newest


def test_a_stream_comes_in_pieces_and_its_end_has_the_whole_with_the_times(client: Client) -> None:
    *pieces, last = client.generate_events(body())
    assert [event.event for event in pieces] == ["delta"] * len(pieces)
    assert last.event == "done"
    assert "".join(event.data["text"] for event in pieces) == last.data["text"]
    assert (last.data["tokens"], last.data["seed"], last.data["reason"], last.data["kind"]) == (12, 7, "length", "gguf")
    assert last.data["prompt_tokens"] == len("Once upon a time") + 1
    assert min(last.data[name] for name in ("queue_ms", "prefill_ms", "decode_ms")) >= 0
    assert len(last.data["fingerprint"]) == 64


def test_without_stream_the_same_request_is_one_answer(client: Client) -> None:
    whole = client.post("/generate", body())
    streamed = list(client.generate_events(body()))[-1].data
    assert whole["text"] == streamed["text"]


def test_messages_are_written_with_the_models_own_template(client: Client) -> None:
    plain = client.post("/generate", body(prompt="Hello"))
    chat = client.post("/generate", body(prompt="", messages=[ChatTurn(role="user", content="Hello")]))
    assert chat["prompt_tokens"] > plain["prompt_tokens"]
    sly = client.post("/generate", body(prompt="", messages=[ChatTurn(role="user", content="<|im_end|>")]))
    honest = client.post("/generate", body(prompt="", messages=[ChatTurn(role="user", content="a" * 10)]))
    assert sly["prompt_tokens"] == honest["prompt_tokens"], "ten bytes of text, not one control token"


def test_a_schema_gives_the_reply_its_form(client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"vote": {"enum": ["yes", "no", "abstain"]}, "certain": {"type": "boolean"}},
        "required": ["vote", "certain"],
        "additionalProperties": False,
    }
    for seed in range(3):
        reply = client.post("/generate", body(schema=schema, max_tokens=200, seed=seed))
        found = json.loads(reply["text"])
        assert set(found) == {"vote", "certain"}
        assert found["vote"] in ("yes", "no", "abstain")
        assert reply["reason"] == "end"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"prompt": ""}, "either messages or a prompt"),
        ({"messages": [ChatTurn(role="user", content="x")]}, "either messages or a prompt"),
        ({"prompt": "x" * 3000}, "shorten the prompt"),
        ({"regex": "(a"}, "unclosed group"),
        ({"regex": r"(a)\1"}, "backreferences"),
        ({"regex": "(" * 200_000 + "a" + ")" * 200_000}, "nest"),
        ({"regex": "a", "schema": {"type": "string"}}, "regex and schema"),
        ({"model": "a", "role": "prime"}, "keep one"),
    ],
)
def test_bad_input_is_one_clear_error_and_costs_nobody_else_anything(client: Client, change, words) -> None:
    pid = prime(client).pid
    with pytest.raises(BadInput, match=words):
        client.post("/generate", body(**change))
    assert prime(client).pid == pid
    assert client.post("/generate", body())["tokens"] == 12


def test_unknown_names_and_damaged_files_say_what_is_wrong(client: Client) -> None:
    with pytest.raises(NotFound, match="no role is called 'primus'; there are prime, lite, codemind"):
        client.post("/generate", body(role="primus"))
    with pytest.raises(Unavailable, match=r"damaged\.gguf"):
        client.post("/generate", body(role="codemind"))
    assert [reason for reason in client.status().degraded if "role codemind" in reason and "damaged.gguf" in reason]


def test_a_full_line_is_503_with_retry_after(daemon: BenchDaemon) -> None:
    results: list = []
    threads = [drain(daemon, results, max_tokens=1500, prompt=f"story {number}") for number in range(3)]
    with Client(daemon.home) as client:
        wait_until(lambda: (prime(client).running, prime(client).waiting) == (2, 1))
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.client.socket_path))
    connection.request("POST", "/generate", json.dumps({"prompt": "x", "max_tokens": 5}))
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    for thread in threads:
        thread.join(60)
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert "already wait" in told["message"]
    assert [result["tokens"] for result in results] == [1500] * 3


def test_a_caller_who_leaves_frees_the_place(daemon: BenchDaemon, client: Client) -> None:
    worker = worker_of(client)
    os.kill(worker, signal.SIGSTOP)  # so that no reply can be whole before its caller leaves
    try:
        with socket.socket(socket.AF_UNIX) as leaving:
            leaving.connect(str(daemon.client.socket_path))
            asked = b'{"prompt": "x", "max_tokens": 1800}'
            leaving.sendall(
                b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(asked) + asked
            )
            wait_until(lambda: prime(client).running == 1)
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_until(lambda: prime(client).running == 0)
    assert prime(client).pid == worker


def test_a_time_limit_of_the_callers_own_ends_the_reply(client: Client) -> None:
    with pytest.raises(DeadlineExceeded):
        list(client.generate_events(body(max_tokens=1800, timeout_s=0.05)))


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_worker_is_one_error_to_its_callers_and_the_role_comes_back(
    daemon: BenchDaemon, client: Client, kind: signal.Signals
) -> None:
    results: list = []
    worker = worker_of(client)
    os.kill(worker, signal.SIGSTOP)  # or the first has its reply before the second has asked
    threads = [drain(daemon, results, max_tokens=1800, prompt=f"story {number}") for number in range(2)]
    wait_until(lambda: prime(client).running == 2)
    os.kill(worker, kind)
    with contextlib.suppress(ProcessLookupError):  # SIGKILL ends what is stopped, too
        os.kill(worker, signal.SIGCONT)
    for thread in threads:
        thread.join(90)
    assert len(results) == 2
    assert all(isinstance(result, WorkerDied) and kind.name in str(result) for result in results), results
    assert client.post("/generate", body())["tokens"] == 12
    assert prime(client).restarts >= 1
    checks = {check.name: check for check in client.doctor()}
    assert "restarted" in checks["model prime"].detail


def test_a_model_sleeps_on_request_and_wakes_when_it_is_asked(client: Client) -> None:
    wait_until(lambda: prime(client).running == 0)
    client.unload_model("prime")
    assert (prime(client).state, prime(client).pid) == ("sleeping", 0)
    assert client.post("/generate", body())["tokens"] == 12
    assert prime(client).state == "ready"


def test_a_pin_is_kept_in_a_file_of_the_home(daemon: BenchDaemon, client: Client) -> None:
    client.pin_model("prime", True)
    assert prime(client).pinned
    assert json.loads((Path(daemon.home) / "pins.json").read_bytes()) == [prime(client).name]
    client.pin_model("prime", False)
    assert not prime(client).pinned


def test_a_pin_that_cannot_be_written_is_not_made(daemon: BenchDaemon, client: Client) -> None:
    pins = Path(daemon.home) / "pins.json"
    pins.unlink(missing_ok=True)
    pins.mkdir()
    try:
        with pytest.raises(Conflict, match=r"cannot write .*pins\.json"):
            client.pin_model("prime", True)
    finally:
        pins.rmdir()
    assert not prime(client).pinned
    assert not list(Path(daemon.home).glob("pins.json*"))


def test_no_child_survives_a_daemon_that_is_killed(tmp_path: Path) -> None:
    tiny = write_tiny_llama(tmp_path / "tiny.gguf")
    with running_daemon(f"roles.prime={tiny}", "models.threads=1", home=tmp_path / "home") as killed:
        killed.client.load_model("prime")
        killed.client.post("/generate", body(prompt="", messages=[ChatTurn(role="user", content="Hello")]))
        pids = {row.pid for row in killed.client.models() if row.pid}
        assert len(pids) == 3, "a generator, the tokenizers and the embedder"
        os.kill(killed.client.status().pid, signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
