"""A run's events over a WebSocket are those over server-sent events; a page of another origin gets none."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon

TOKEN = "owner-owner-owner-owner"
NOTE = "# The old mill\n\nThe council was founded on 12 October 2025 in the old mill."


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("socket") / "h"
    home.mkdir(mode=0o700)
    (home / "token").write_text(f"{TOKEN}\nother-other-other-other work\n")
    (home / "token").chmod(0o600)
    with running_daemon("embedder.kind=none", home=home) as running:
        running.client.post("/ingest", {"documents": [{"name": "mill.md", "content": NOTE}], "wait": True})
        yield running


@pytest.fixture
async def http(daemon: BenchDaemon) -> AsyncIterator[aiohttp.ClientSession]:
    url = str(daemon.client.get("/status")["url"])
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        yield session


def begin(daemon: BenchDaemon) -> str:
    started = daemon.client.post("/research/start", {"query": "When was the council founded?"})
    return f"/research/{started['research_id']}/events"


async def told(http: aiohttp.ClientSession, path: str) -> tuple[list[dict[str, Any]], int | None]:
    """All messages, and the code that the daemon closed with."""
    async with http.ws_connect(path) as socket:
        await socket.send_str("nobody reads this")
        messages = [json.loads(message.data) async for message in socket]
    return messages, socket.close_code


async def test_the_events_are_those_of_the_other_stream_and_can_be_taken_up_again(
    daemon: BenchDaemon, http: aiohttp.ClientSession
) -> None:
    path = begin(daemon)
    messages, code = await told(http, path)
    assert (messages[-1]["event"], code) == ("result", 1000)
    async with http.get(path) as stream:
        lines = (await stream.text()).splitlines()
    assert [f"event: {one['event']}" for one in messages] == [line for line in lines if line.startswith("event: ")]
    assert [json.dumps(one["data"]) for one in messages] == [
        json.dumps(json.loads(line.removeprefix("data: "))) for line in lines if line.startswith("data: ")
    ]
    again, _ = await told(http, f"{path}?after={messages[0]['id']}")
    assert again == messages[1:]


async def test_who_leaves_leaves_nothing_behind(daemon: BenchDaemon, http: aiohttp.ClientSession) -> None:
    for _ in range(20):
        async with http.ws_connect(begin(daemon)) as socket:
            await socket.receive()
    assert (await told(http, begin(daemon)))[0][-1]["event"] == "result"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer wrong-wrong-wrong-wrong"}, 401),
        ({"Authorization": "Bearer other-other-other-other"}, 404),
    ],
)
async def test_nothing_is_said_to_whom_it_does_not_concern(
    daemon: BenchDaemon, http: aiohttp.ClientSession, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(begin(daemon), headers=headers)
    assert refused.value.status == status
