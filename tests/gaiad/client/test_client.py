"""The client over a real unix socket: typed answers, errors by code, streams, and a daemon that is not there."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gaiad.base.errors import (
    BadInput,
    ConfigError,
    DaemonUnreachable,
    DaemonWentAway,
    DeadlineExceeded,
    Forbidden,
    GaiadError,
    NotFound,
    Unavailable,
    WorkerDied,
)
from gaiad.base.home import HomeLock, find_home
from gaiad.client import connection
from gaiad.client.client import Client
from gaiad.client.connection import ServerEvent, error_from_answer, find_socket, parse_events
from gaiad.wire.ingest import IngestRequest
from gaiad.wire.schemas import ResearchRequest, SearchRequest
from tests.makers.waiting import wait_until

HIT = {
    "page_id": "p1",
    "packet_id": "tp-1",
    "session_id": "s",
    "score": 0.5,
    "excerpt": "consent",
    "timestamp": "2025-11-30T15:45:00Z",
    "topic": "Law",
    "retrievers": ["bm25"],
}
JOB = {
    "job_id": "job_1",
    "kind": "ingest",
    "tenant": "local",
    "state": "done",
    "done": 1,
    "total": 1,
    "note": "",
    "created_at": "2025-11-30T15:45:00Z",
    "updated_at": "2025-11-30T15:45:00Z",
}


def test_answers_become_structs_and_fields_of_a_newer_daemon_are_no_error(api: Any) -> None:
    api.routes["POST /search"] = {"hits": [HIT | {"new_field": 1}], "took_ms": 1.5}
    with Client(api.home) as client:
        response = client.search(SearchRequest(query="consent", limit=3))
    assert response.hits[0].packet_id == "tp-1"
    assert api.body("POST /search")["limit"] == 3


def test_one_connection_serves_many_calls(api: Any) -> None:
    api.routes["GET /healthz"] = {"ok": True, "version": "1"}
    with Client(api.home) as client:
        assert [client.health()["ok"] for _ in range(3)] == [True] * 3
        connection = client._connection._connection.sock
        assert connection is not None
        client.health()
        assert client._connection._connection.sock is connection


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"code": "bad_input", "message": "m"}, BadInput),
        (400, {"code": "bad_config", "message": "m"}, ConfigError),
        (404, {"code": "not_found", "message": "m"}, NotFound),
        (403, {"code": "forbidden", "message": "m"}, Forbidden),
        (503, {"code": "worker_died", "message": "m", "retry_after_s": 7.0}, WorkerDied),
        (504, {"code": "deadline_exceeded", "message": "m"}, DeadlineExceeded),
        (500, {"code": "of the future", "message": "m"}, GaiadError),
    ],
)
def test_an_error_answer_becomes_the_class_of_its_code(
    api: Any, status: int, body: Any, kind: type[GaiadError]
) -> None:
    api.routes["GET /status"] = (status, body)
    with Client(api.home) as client, pytest.raises(GaiadError) as caught:
        client.status()
    assert type(caught.value) is kind
    assert caught.value.message == "m"


def test_an_unavailable_daemon_says_when_to_come_back(api: Any) -> None:
    api.routes["GET /status"] = (503, {"code": "unavailable", "message": "starting", "retry_after_s": 7.0})
    with Client(api.home) as client, pytest.raises(Unavailable) as caught:
        client.status()
    assert caught.value.retry_after_s == 7.0


def test_an_answer_that_is_no_error_body_is_still_an_error_with_its_text() -> None:
    assert error_from_answer(413, b"too large\n").message == "the daemon answered HTTP 413: too large"
    assert "without a reason" in error_from_answer(502, b"").message


def test_no_daemon_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    with Client(tmp_path / "no home") as client, pytest.raises(DaemonUnreachable) as caught:
        client.status()
    assert f"gaiad serve --home '{tmp_path}/no home'" in caught.value.message


def test_a_stale_socket_is_no_daemon(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "gaiad.sock"))
    with Client(tmp_path) as client, pytest.raises(DaemonUnreachable):
        client.status()


def test_a_daemon_that_goes_away_under_the_call_is_unavailable_and_the_next_call_connects_anew(api: Any) -> None:
    api.routes["GET /status"] = (0, None)
    api.routes["GET /healthz"] = {"ok": True}
    with Client(api.home) as client:
        with pytest.raises(DaemonWentAway) as caught:
            client.status()
        assert not isinstance(caught.value, DaemonUnreachable)
        assert client.health() == {"ok": True}


def test_a_silent_daemon_runs_into_the_time_limit(api: Any) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        silent = api.home / "silent.sock"
        listener.bind(str(silent))
        listener.listen()
        with Client(None, {"GAIAD_SOCKET": str(silent)}) as client, pytest.raises(DeadlineExceeded):
            client._connection.exchange("GET", "/status", None, 0.05)


def test_a_socket_path_that_is_too_long_is_named_with_a_remedy(tmp_path: Path) -> None:
    with Client(None, {"GAIAD_SOCKET": f"{tmp_path}/{'x' * 120}"}) as client, pytest.raises(BadInput) as caught:
        client.status()
    assert "GAIAD_SOCKET" in caught.value.message


def test_an_answer_of_another_shape_is_an_error_that_names_the_route(api: Any) -> None:
    api.routes["POST /search"] = {"hits": "none"}
    with Client(api.home) as client, pytest.raises(GaiadError, match="/search"):
        client.search(SearchRequest())


def test_original_bytes_come_back_exactly(api: Any) -> None:
    content = bytes(range(256)) * 40
    api.routes["POST /packets/export"] = content
    with Client(api.home) as client:
        assert client.original("tp-1", "local", 2) == content
    assert api.body("POST /packets/export") == {"packet_id": "tp-1", "tenant": "local", "revision": 2}


def test_a_file_name_that_is_not_unicode_is_refused_with_its_name(api: Any) -> None:
    with Client(api.home) as client, pytest.raises(BadInput, match="rename"):
        client.ingest(IngestRequest(paths=[os.fsdecode(b"/tmp/\xff.xml")], wait=False))


def test_job_ids_cannot_leave_their_place_in_the_path(api: Any) -> None:
    api.routes["GET /jobs/..%2Fstatus"] = JOB
    with Client(api.home) as client:
        assert client.job("../status").state == "done"


@pytest.fixture
def starting() -> Iterator[int]:
    """The pid of a process that looks like a daemon."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "gaiad serve"]) as sleeper:
        wait_until(Path(f"/proc/{sleeper.pid}/cmdline").read_bytes)  # empty for a moment after the exec
        yield sleeper.pid
        sleeper.kill()


def test_a_daemon_that_does_not_listen_yet_is_told_from_none(
    tmp_path: Path, starting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "START_TIMEOUT_S", 0.0)
    for pid, words in ((starting, f"pid {starting}"), (0, "start one"), ("x", "start one")):
        (tmp_path / "daemon.lock").write_text(f"{pid}\n{tmp_path}/gaiad.sock\n")
        with Client(tmp_path) as client, pytest.raises(DaemonUnreachable, match=words):
            client.status()


def test_a_call_waits_for_a_daemon_that_starts(api: Any, starting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    api.routes["GET /healthz"] = {"ok": True}
    with Client(api.home) as client:
        listening, later = client.socket_path, api.home / "later.sock"
        (api.home / "daemon.lock").write_text(f"{starting}\n{listening}\n")
        listening.rename(later)
        monkeypatch.setattr(
            connection, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: later.rename(listening))
        )
        assert client.health() == {"ok": True}


def test_events_are_read_as_they_come(api: Any) -> None:
    api.routes["GET /events?after=3"] = b': keep-alive\n\nid: 4\nevent: job_ended\ndata: {"job_id": "j"}\n\n'
    with Client(api.home) as client:
        assert list(client.events(3)) == [ServerEvent(id="4", event="job_ended", data={"job_id": "j"})]


def test_an_error_in_a_stream_is_raised(api: Any) -> None:
    api.routes["POST /research"] = (
        b'event: step\ndata: {}\n\nevent: error\ndata: {"code": "cancelled", "message": "gone"}\n\n'
    )
    with Client(api.home) as client, pytest.raises(GaiadError, match="gone"):
        list(client.research_events(ResearchRequest(query="q")))


@pytest.mark.parametrize(
    "sent", [b"", b"13\r\nevent: a\ndata: {}", b"13\r\nevent: a\ndata: {}\n\n\r\n"], ids=["head", "amid", "between"]
)
def test_a_stream_that_breaks_off_is_not_taken_for_one_that_ended(tmp_path: Path, sent: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "gaiad.sock"))
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as accepted:
                accepted.recv(65536)
                accepted.sendall(head + sent)

        thread = threading.Thread(target=answer)
        thread.start()
        with Client(tmp_path) as client, pytest.raises(DaemonWentAway):
            list(client.events(3))
        thread.join()


def test_event_data_may_span_lines_and_be_plain_text() -> None:
    lines = [b"data: one\r\n", b"data:two\r\n", b"\r\n", b"event: x\n", b"\n", b'data: {"a": 1}\n', b"\n", b"data: cut"]
    assert [(event.event, event.data) for event in parse_events(lines)] == [
        ("message", "one\ntwo"),
        ("x", {"a": 1}),
    ]


def test_where_the_socket_is_looked_for(tmp_path: Path) -> None:
    home, runtime = tmp_path / "home", tmp_path / "run"
    environment = {"GAIAD_HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path)}
    default = runtime / "gaiad" / "gaiad.sock"
    assert find_socket(str(home), environment) == home / "gaiad.sock"
    assert find_socket(None, environment) == default
    assert find_socket(None, {**environment, "GAIAD_SOCKET": "/x.sock"}) == Path("/x.sock")
    assert find_socket("/" + "h" * 300, environment).suffix == ".sock"  # longer than any name may be: nobody is there
    assert find_socket(str(home), {**environment, "GAIAD_SOCKET": "/x.sock"}) == home / "gaiad.sock"
    home.mkdir()
    (home / "gaiad.sock").touch()
    assert find_socket(None, environment) == home / "gaiad.sock"
    default.parent.mkdir(parents=True)
    default.touch()
    assert find_socket(None, environment) == default


@pytest.mark.parametrize("argument", [False, True])
def test_a_daemon_is_found_whichever_way_its_home_is_named(tmp_path: Path, argument: bool) -> None:
    """Another home's daemon may hold the place in the runtime directory; it is not taken for this one's."""
    given, environment = str(tmp_path / "home"), {"GAIAD_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    (tmp_path / "home").mkdir()
    home = find_home(given if argument else None, environment)
    lock = HomeLock(home)
    lock.take()
    foreign = tmp_path / "run" / "gaiad" / "gaiad.sock"
    for path in (home.socket, foreign):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for other in ({}, {"XDG_RUNTIME_DIR": str(tmp_path / "run")}):
        assert find_socket(given, {**environment, **other}) == home.socket
        assert find_socket(None, {**environment, **other}) == home.socket
    home.socket.unlink()
    assert find_socket(None, {**environment, "XDG_RUNTIME_DIR": str(tmp_path / "run")}) == foreign
    lock.release()


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = ("aiohttp", "numpy", "asyncio", "structlog")
    code = f"import sys, gaiad.client.client; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
