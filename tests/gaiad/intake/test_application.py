"""The API over real sockets, a unix one and TCP, as a client sees it."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from gaiad.base.errors import Unavailable
from gaiad.base.home import Home
from gaiad.intake import streams
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import PeerCheck, TokenCheck, TokenFile
from gaiad.intake.doors import Door, TcpDoor, UnixDoor
from gaiad.intake.routes import table
from gaiad.intake.sockets import listen_tcp, listen_unix, url_of
from tests.makers.opened_up import open_up


class Api(NamedTuple):
    unix: aiohttp.ClientSession
    tcp: aiohttp.ClientSession
    url: str
    socket: Path
    port: int


@pytest.fixture
async def api(service: Any, home: Home) -> AsyncIterator[Api]:
    tokens = TokenFile(home.token)
    tokens.load()
    home.token.write_text(home.token.read_text() + "a-token-for-work work\n")
    tokens.load()
    unix, tcp = listen_unix(home.socket), listen_tcp("127.0.0.1", 0)
    port = tcp.getsockname()[1]
    doors: list[tuple[Door, socket.socket]] = [
        (UnixDoor(PeerCheck(lambda: service.config.access.uids)), unix.socket),
        (TcpDoor(TokenCheck(tokens, port, ["https://friend.example"])), tcp),
    ]
    runners = [await start_listener(build_app(service, door, table()), listener, 0.5) for door, listener in doors]
    owner = {"Authorization": f"Bearer {home.token.read_text().splitlines()[0]}"}
    async with (
        aiohttp.ClientSession("http://localhost", connector=aiohttp.UnixConnector(str(home.socket))) as over_unix,
        aiohttp.ClientSession(url_of(tcp), headers=owner) as over_tcp,
    ):
        yield Api(over_unix, over_tcp, url_of(tcp), home.socket, port)
    for runner in runners:
        await runner.cleanup()


async def error_of(response: aiohttp.ClientResponse) -> tuple[int, str, str]:
    body = await response.json()
    return response.status, body["code"], body["message"]


# ------------------------------------------------------------------------------------------------------------ access


async def test_both_listeners_give_the_same_answers(api: Api) -> None:
    for session in (api.unix, api.tcp):
        assert (await (await session.get("/healthz")).json())["ok"] is True
        response = await session.post("/search", json={"query": "x", "tenant": "work"})
        assert (response.status, (await response.json())["degraded"]) == (200, ["work"])
        assert (await (await session.get("/status")).json())["tenants"] == ["local", "work"]


async def test_health_needs_no_token_and_everything_else_does(api: Api) -> None:
    async with aiohttp.ClientSession(api.url) as nobody:
        assert (await nobody.get("/healthz")).status == 200
        status, code, message = await error_of(await nobody.get("/status"))
        assert (status, code) == (401, "unauthorized")
        assert "<home>/token" in message
        wrong = await nobody.get("/status", headers={"Authorization": "Bearer not-the-token-at-all"})
        assert wrong.status == 401
        assert wrong.headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_is_bound_to_its_tenants(api: Api) -> None:
    async with aiohttp.ClientSession(api.url, headers={"Authorization": "Bearer a-token-for-work"}) as work:
        assert (await work.post("/search", json={"query": "x", "tenant": "work"})).status == 200
        status, code, message = await error_of(await work.post("/search", json={"query": "x"}))
        assert (status, code) == (403, "forbidden")
        assert "'local'" in message
        assert "work" in message
        assert (await (await work.get("/status")).json())["tenants"] == ["work"]
        assert (await work.get("/status?tenant=local")).status == 403
        for path in ("/reindex", "/sweep", "/backup", "/restore", "/stop", "/config/reload"):
            assert (await work.post(path, json={"directory": "/x"})).status == 403, path
        for path in ("/config", "/doctor", "/quarantine?tenant=local"):
            assert (await work.get(path)).status == 403, path


async def test_only_the_owner_may_have_the_daemon_read_files(api: Api) -> None:
    async with aiohttp.ClientSession(api.url, headers={"Authorization": "Bearer a-token-for-work"}) as work:
        paths = await work.post("/ingest", json={"paths": ["/etc/passwd"], "tenant": "work"})
        assert (await error_of(paths))[:2] == (403, "forbidden")
        documents = {"documents": [{"name": "a.xml", "content": "<a/>"}], "tenant": "work"}
        assert (await work.post("/ingest", json=documents)).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
async def test_a_foreign_host_header_is_refused(api: Api, host: str) -> None:
    response = await api.tcp.get("/healthz", headers={"Host": host.format(port=api.port)})
    assert (await error_of(response))[:2] == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
async def test_every_loopback_name_is_this_daemon(api: Api, host: str) -> None:
    assert (await api.tcp.get("/status", headers={"Host": host.format(port=api.port)})).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_origin_is_refused(api: Api, origin: str) -> None:
    assert (await api.tcp.get("/healthz", headers={"Origin": origin})).status == 403
    assert (await api.tcp.options("/search", headers={"Origin": origin})).status == 403


async def test_the_same_origin_and_an_allowed_one_may_ask(api: Api) -> None:
    assert (await api.tcp.get("/status", headers={"Origin": api.url})).status == 200
    friend = {"Origin": "https://friend.example"}
    preflight = await api.tcp.options("/search", headers=friend)
    assert preflight.status == 204
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    answer = await api.tcp.get("/status", headers=friend)
    assert answer.headers["Access-Control-Allow-Origin"] == "https://friend.example"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can connect as another uid")
async def test_another_uid_may_only_use_the_tenants_it_was_given(api: Api, service: Any) -> None:
    open_up(api.socket.parent)
    api.socket.chmod(0o666)
    assert (await _as_uid(4242, api.socket))[0] == 403
    access = msgspec.structs.replace(service.config.access, uids={"4242": ["work"]})
    service.config = msgspec.structs.replace(service.config, access=access)
    assert await _as_uid(4242, api.socket, "work") == (200, ["work"])
    assert (await _as_uid(4242, api.socket, "local"))[0] == 403


async def _as_uid(uid: int, path: Path, tenant: str = "work") -> tuple[int, Any]:
    """A search by a process of another uid: status and `degraded` of the answer."""
    script = (
        "import http.client, json, os, socket, sys\n"
        "os.setgroups([]); os.setgid(4242); os.setuid(int(sys.argv[1]))\n"
        "c = http.client.HTTPConnection('localhost'); c.sock = socket.socket(socket.AF_UNIX)\n"
        "c.sock.connect(sys.argv[2])\n"
        "c.request('POST', '/search', json.dumps({'query': 'x', 'tenant': sys.argv[3]}))\n"
        "r = c.getresponse(); print(json.dumps([r.status, json.loads(r.read()).get('degraded')]))\n"
    )
    child = await asyncio.create_subprocess_exec(
        "/usr/bin/env", "python3", "-I", "-c", script, str(uid), str(path), tenant, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await child.communicate()
    status, degraded = json.loads(output)
    return status, degraded


# ------------------------------------------------------------------------------------------------------------ errors


async def test_wrong_input_is_named_with_its_path(api: Api) -> None:
    cases = {
        '{"query": 5}': "$.query",
        '{"filters": {"metrics": [{"name": "x", "minimum": "a"}]}}': "$.filters.metrics[0].minimum",
        '{"quary": "x"}': "quary",
        "{": "truncated",
        "[" * 50_000: "array",
        '{"filters":' * 5_000: "filters",
    }
    for body, named in cases.items():
        status, code, message = await error_of(await api.unix.post("/search", data=body))
        assert (status, code) == (400, "bad_input")
        assert named in message
    assert (await error_of(await api.unix.post("/search", data=b'"\xff"')))[0] == 400


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"query": "a", "query": "b"}', "query"),
        ('{"query": "a", "qu\\u0065ry": "a"}', "query"),
        ('{"query": "a", "filters": {"tags": ["a"], "tags": ["b"]}}', "tags"),
    ],
)
async def test_a_key_that_a_body_has_twice_is_named(api: Api, body: str, key: str) -> None:
    status, _, message = await error_of(await api.unix.post("/search", data=body))
    assert (status, f"the key '{key}' appears twice" in message) == (400, True), message


async def test_a_packed_body_is_not_unpacked(api: Api) -> None:
    response = await api.unix.post("/search", data=b"not gzip", headers={"Content-Encoding": "gzip"})
    status, code, message = await error_of(response)
    assert (status, code) == (400, "bad_input")
    assert "send the body uncompressed" in message


@pytest.mark.parametrize("revision", [-1, 2**31, 2**64])
async def test_a_revision_out_of_range_is_named(api: Api, revision: int) -> None:
    response = await api.unix.post("/packets/export", json={"packet_id": "x", "revision": revision})
    status, code, message = await error_of(response)
    assert (status, code) == (400, "bad_input")
    assert "revision" in message


@pytest.mark.parametrize("route", ["/backup", "/restore"])
@pytest.mark.parametrize("directory", ["", "relative/place", "/with\0nul"])
async def test_a_backup_folder_is_an_absolute_path(api: Api, route: str, directory: str) -> None:
    status, code, message = await error_of(await api.unix.post(route, json={"directory": directory}))
    assert (status, code) == (400, "bad_input")
    assert "give an absolute path" in message


async def test_unknown_routes_and_methods_answer_in_the_same_shape(api: Api) -> None:
    assert (await error_of(await api.unix.get("/nowhere")))[:2] == (404, "not_found")
    assert (await error_of(await api.unix.get("/search")))[:2] == (405, "method_not_allowed")
    assert (await error_of(await api.unix.get("/jobs/job_none")))[:2] == (404, "not_found")


async def test_a_large_body_is_refused_with_its_limit(api: Api) -> None:
    for body in (b"x" * 70_000, _pieces()):
        status, code, message = await error_of(await api.unix.post("/search", data=body))
        assert (status, code) == (413, "too_large")
        assert "65536" in message
    assert (await api.unix.get("/healthz")).status == 200


async def _pieces() -> AsyncIterator[bytes]:
    for _ in range(20):
        yield b"x" * 8_000


async def test_unavailable_says_when_to_come_again(api: Api, service: Any) -> None:
    service.search_error = Unavailable("the worker restarts", 2.5)
    response = await api.unix.post("/search", json={"query": "x"})
    assert (response.status, response.headers["Retry-After"]) == (503, "2")
    assert (await response.json())["retry_after_s"] == 2.5


async def test_an_unexpected_error_is_hidden_behind_an_id(
    api: Api, service: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    service.search_error = RuntimeError("the secret inside")
    status, code, message = await error_of(await api.unix.post("/search", json={"query": "x"}))
    assert (status, code) == (500, "internal")
    assert "secret" not in message
    logged = "".join(capfd.readouterr())
    assert message.rsplit(" ", 1)[-1] in logged
    assert "the secret inside" in logged


# ------------------------------------------------------------------------------------------- departure and deadline


async def test_a_departed_client_cancels_its_work(api: Api, service: Any) -> None:
    service.search_takes_s = 30
    leaving = asyncio.ensure_future(api.unix.post("/search", json={"query": "x"}))
    async with asyncio.timeout(30):
        while not service.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    for _ in range(6000):
        if service.calls[0].cancelled:
            break
        await asyncio.sleep(0.01)
    assert service.calls[0].cancelled
    assert service.metrics.counters()["requests_abandoned"] == 1


async def test_a_request_that_takes_too_long_is_cancelled_and_told(api: Api, service: Any) -> None:
    service.search_takes_s = 30
    started = time.monotonic()
    status, code, message = await error_of(await api.unix.post("/search", json={"query": "x"}))
    assert (status, code) == (504, "deadline_exceeded")
    assert "http.request_timeout_s" in message
    assert service.calls[0].cancelled
    assert service.calls[0].deadline == pytest.approx(started + 1.0, abs=20.0)


async def test_ingest_waits_for_its_job_or_answers_at_once(api: Api) -> None:
    waited = await api.unix.post("/ingest", json={"paths": ["/tmp/a.xml"]})
    body = await waited.json()
    assert (waited.status, body["job"]["state"], body["outcomes"][0]["outcome"]) == (200, "done", "accepted")
    at_once = await api.unix.post("/ingest", json={"paths": ["/tmp/a.xml"], "wait": False, "tenant": "work"})
    body = await at_once.json()
    assert (at_once.status, body["job"]["state"], body["outcomes"]) == (202, "running", [])
    assert (await (await api.unix.get(f"/jobs/{body['job']['job_id']}")).json())["tenant"] == "work"
    assert len((await (await api.unix.get("/jobs")).json())["jobs"]) == 2
    assert (await api.unix.post("/ingest", json={})).status == 400


async def test_an_original_comes_back_as_it_is_and_never_as_a_page(api: Api) -> None:
    response = await api.tcp.post("/packets/export", json={"packet_id": "p"})
    assert await response.read() == b"<packet/>"
    assert response.headers["Content-Type"] == "application/xml"
    assert response.headers["Content-Disposition"] == "attachment"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_stop_answers_and_then_stops(api: Api, service: Any) -> None:
    assert (await api.unix.post("/stop", json={})).status == 200
    await asyncio.wait_for(service.stopped.wait(), 30)


# ----------------------------------------------------------------------------------------------------------- streams


async def read_events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, str, Any]]:
    """(id, event, data) of the next `count` events."""
    found: list[tuple[str, str, Any]] = []
    fields: dict[str, str] = {}
    while len(found) < count:
        line = (await asyncio.wait_for(response.content.readline(), 30)).decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
            fields = {}
    return found


async def test_events_go_on_after_the_last_one_read(api: Api, service: Any) -> None:
    for number in range(3):
        service.hub.publish("tick", "local", number=number)
    async with api.unix.get("/events", headers={"Last-Event-ID": "1"}) as response:
        assert [(i, event, data["data"]["number"]) for i, event, data in await read_events(response, 2)] == [
            ("2", "tick", 1),
            ("3", "tick", 2),
        ]
        service.hub.publish("tick", "local", number=3)
        assert (await read_events(response, 1))[0][0] == "4"
    async with api.unix.get("/events?after=3") as response:
        assert (await read_events(response, 1))[0][0] == "4"


async def test_a_last_event_id_that_no_event_can_have_is_from_now_on(api: Api, service: Any) -> None:
    service.hub.publish("tick", "local", number=0)
    async with api.unix.get("/events", headers={"Last-Event-ID": "9" * 5000}) as response:
        assert response.status == 200
        service.hub.publish("tick", "local", number=1)
        assert (await read_events(response, 1))[0][0] == "2"


async def test_events_of_other_tenants_are_not_shown(api: Api, service: Any) -> None:
    service.hub.publish("tick", "local", secret=True)
    service.hub.publish("tick", "work", secret=False)
    headers = {"Authorization": "Bearer a-token-for-work"}
    async with aiohttp.ClientSession(api.url, headers=headers) as work, work.get("/events?after=0") as response:
        assert (await read_events(response, 1))[0][2]["tenant"] == "work"


async def test_a_quiet_stream_is_kept_alive(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.05)
    async with api.unix.get("/events") as response:
        assert await asyncio.wait_for(response.content.readline(), 30) == b": keep-alive\n"


async def test_research_streams_its_steps_and_ends_with_the_result(api: Api) -> None:
    headers = {"Accept": "text/event-stream"}
    async with api.unix.post("/research", json={"query": "x"}, headers=headers) as response:
        events = await read_events(response, 2)
        assert [event for _, event, _ in events] == ["searching", "result"]
        assert events[1][2]["answer"] == "nothing about x"
        assert await response.content.read() == b""
    async with api.unix.post("/research", json={"query": ""}, headers=headers) as response:
        assert (await read_events(response, 2))[1][2]["code"] == "not_found"


async def test_a_stream_that_runs_out_of_time_says_so_as_its_last_event(api: Api, service: Any) -> None:
    service.search_takes_s = 30
    headers = {"Accept": "text/event-stream"}
    async with api.unix.post("/research", json={"query": "x"}, headers=headers) as response:
        assert (await read_events(response, 2))[1][2]["code"] == "deadline_exceeded"
    assert service.calls[0].cancelled


async def test_a_reader_that_leaves_a_research_stream_cancels_it(api: Api, service: Any) -> None:
    service.search_takes_s = 30
    response = await api.unix.post("/research", json={"query": "x"}, headers={"Accept": "text/event-stream"})
    await read_events(response, 1)
    response.close()
    for _ in range(6000):
        if service.calls[0].cancelled:
            break
        await asyncio.sleep(0.01)
    assert service.calls[0].cancelled


async def test_open_streams_do_not_hold_up_a_stop(service: Any, home: Home) -> None:
    listener = listen_unix(home.socket)
    door = UnixDoor(PeerCheck(dict))
    runner = await start_listener(build_app(service, door, table()), listener.socket, 30)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(home.socket))) as session:
        response = await session.get("http://localhost/events")
        await asyncio.wait_for(runner.cleanup(), 30)
        response.close()
