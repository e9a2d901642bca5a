"""The routes of turns that run by themselves over real sockets: twenty readers, of which one is slow and one dead."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gaiad.base.home import Home
from gaiad.intake import streams
from gaiad.intake.chat_routes import COUNCIL, table
from gaiad.intake.chat_routes import table as event_table
from gaiad.intake.exchange import error_body
from gaiad.service.turn_runs import TurnRuns
from gaiad.wire.council import HOUSE
from gaiad.wire.governance import EVENT_KIND as APPROVALS
from tests.makers.talk import Talk

Event = tuple[str, str, Any]


@pytest.fixture
async def talk() -> Talk:
    return Talk()


@pytest.fixture
async def api(service: Any, serving: Any, talk: Talk) -> AsyncIterator[aiohttp.ClientSession]:
    service.turn_runs = TurnRuns(talk, service.clock, error_body)
    async with serving([*table(), *event_table()]) as session:
        yield session
    await service.turn_runs.stop(0.0)


async def start(api: aiohttp.ClientSession, **body: Any) -> str:
    async with api.post("/turns/start", json={"message": "hello", **body}) as response:
        answer = await response.json()
        assert response.status == 200, answer
        return str(answer["turn_id"])


async def events(response: aiohttp.ClientResponse, pause_s: float = 0.0) -> AsyncIterator[Event]:
    """(id, name, data) of each."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
            fields = {}
            await asyncio.sleep(pause_s)


async def whole(api: aiohttp.ClientSession, turn: str, pause_s: float = 0.0, **headers: str) -> list[Event]:
    async with api.get("/turns/events", params={"turn": turn}, headers=headers) as response:
        assert response.status == 200, await response.text()
        return [event async for event in events(response, pause_s)]


def said(found: list[Event]) -> str:
    return "".join(data["text"] for _, name, data in found if name == "delta")


async def test_twenty_readers_get_it_all_though_one_is_slow_and_one_is_dead(
    api: aiohttp.ClientSession, talk: Talk, home: Home
) -> None:
    turn = await start(api)
    dead = socket.socket(socket.AF_UNIX)
    dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    dead.connect(str(home.socket))
    dead.sendall(f"GET /turns/events?turn={turn} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    slow = asyncio.create_task(whole(api, turn, pause_s=0.02))
    readers = [asyncio.create_task(whole(api, turn)) for _ in range(18)]
    pieces = [f"{number} " + "x" * 1500 for number in range(300)]
    for piece in pieces:
        talk.say(turn, piece)
        await asyncio.sleep(0.001)
    talk.say(turn, "")
    async with asyncio.timeout(30):
        for found in await asyncio.gather(*readers):
            assert said(found) == "".join(pieces)
            assert found[-1][1] == "done"
        assert not slow.done()
        found = await slow
        assert said(found) == "".join(pieces)
    dead.close()


async def test_a_reader_that_takes_nothing_is_left_and_can_come_back(
    api: aiohttp.ClientSession, talk: Talk, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.02)
    monkeypatch.setattr(streams, "PATIENCE_S", 0.1)
    turn = await start(api)
    dead = socket.socket(socket.AF_UNIX)
    dead.connect(str(home.socket))
    dead.sendall(f"GET /turns/events?turn={turn} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    for number in range(300):
        talk.say(turn, f"{number} " + "x" * 1500)
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.4)
    dead.settimeout(5)
    with contextlib.closing(dead), contextlib.suppress(ConnectionResetError):
        while await asyncio.to_thread(dead.recv, 1_000_000):
            pass  # what had been sent until then, and then the end
    talk.say(turn, "")
    assert [name for _, name, _ in await whole(api, turn)][-1] == "done"


async def test_a_quiet_reader_that_has_read_everything_is_not_left(
    api: aiohttp.ClientSession, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.02)
    monkeypatch.setattr(streams, "PATIENCE_S", 0.1)
    turn = await start(api)
    reading = asyncio.create_task(whole(api, turn))
    await asyncio.sleep(0.5)
    talk.say(turn, "Hi.", "")
    assert said(await asyncio.wait_for(reading, 30)) == "Hi."


async def test_a_reload_in_the_middle_goes_on_where_it_stopped(api: aiohttp.ClientSession, talk: Talk) -> None:
    turn = await start(api)
    talk.say(turn, "One. ")
    async with api.get("/turns/events", params={"turn": turn}) as response:
        heard: list[Event] = []
        async for event in events(response):
            heard.append(event)
            if event[1] == "delta":
                break
    async with api.get("/turns/running") as response:
        (row,) = (await response.json())["turns"]
    assert (row["turn_id"], row["message"]) == (turn, "hello")
    talk.say(turn, "Two. ", "Three.", "")
    rest = await whole(api, turn, **{"Last-Event-ID": heard[-1][0]})
    assert said(heard) + said(rest) == "One. Two. Three."
    assert rest[-1][1] == "done"
    async with api.get("/turns/events", params={"turn": turn, "after": heard[-1][0]}) as response:
        assert said([event async for event in events(response)]) == "Two. Three."


async def test_breaking_off_is_told_to_who_reads_and_asking_again_is_no_error(
    api: aiohttp.ClientSession, talk: Talk
) -> None:
    turn = await start(api)
    reading = asyncio.create_task(whole(api, turn))
    talk.say(turn, "It began")
    await asyncio.sleep(0.05)
    for cancelled in (True, False):
        async with api.post("/turns/cancel", json={"turn": turn}) as response:
            assert await response.json() == {"turn_id": turn, "cancelled": cancelled}
    found = await asyncio.wait_for(reading, 30)
    assert [name for _, name, _ in found] == ["turn", "delta", "error"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/turns/events", 400, "?turn=ID"),
        ("/turns/events?turn=turn_none", 404, "turn_none"),
        ("/turns/running?tenant=../x", 200, ""),
    ],
)
async def test_what_makes_no_sense_is_refused(api: aiohttp.ClientSession, path: str, status: int, words: str) -> None:
    async with api.get(path) as response:
        assert response.status == status
        assert words in await response.text()


async def test_who_leaves_a_turn_that_runs_by_itself_breaks_nothing_off(api: aiohttp.ClientSession, talk: Talk) -> None:
    turn = await start(api)
    async with api.get("/turns/events", params={"turn": turn}) as response:
        assert response.status == 200
    await asyncio.sleep(0.05)
    assert not talk.taken[0].cancelled
    talk.say(turn, "Hi.", "")
    assert said(await whole(api, turn)) == "Hi."


# ------------------------------------------------------------------------------------------- what else happens


async def test_a_tenants_events_are_its_council_approvals_and_jobs(api: aiohttp.ClientSession, service: Any) -> None:
    hub = service.hub
    hub.publish("tick", "local")
    async with api.get("/events", params={"tenant": "local", "after": "0"}) as response:
        hub.publish(COUNCIL, "local", content="mine")
        hub.publish(COUNCIL, "work", content="another's")
        hub.publish(COUNCIL, HOUSE, content="a heartbeat")
        hub.publish(APPROVALS, "local", id="a")
        hub.publish("job_ended", "local", job_id="j")
        hub.publish("job_ended", HOUSE, job_id="not mine")
        hub.publish("tick", "local")
        hub.publish("job_started", "local", job_id="k")
        found = []
        async with asyncio.timeout(30):
            async for event in events(response):
                found.append(event)
                if len(found) == 6:
                    break
    assert [(number, name) for number, name, _ in found] == [
        ("0", "following"), ("2", "council"), ("4", "council"), ("5", "approvals"), ("6", "jobs"), ("9", "jobs"),
    ]  # fmt: skip
    assert [data["kind"] for _, name, data in found if name == "jobs"] == ["job_ended", "job_started"]
    assert found[1][2]["data"] == {"content": "mine"}


async def test_a_number_from_an_earlier_life_of_the_daemon_goes_on_from_now(
    api: aiohttp.ClientSession, service: Any
) -> None:
    service.hub.publish(COUNCIL, "local", content="old")
    async with api.get("/events", params={"tenant": "local"}, headers={"Last-Event-ID": "5000"}) as response:
        found = events(response)
        assert (await anext(found))[:2] == ("1", "following")
        service.hub.publish(COUNCIL, "local", content="new")
        assert (await asyncio.wait_for(anext(found), 30))[2]["data"] == {"content": "new"}
