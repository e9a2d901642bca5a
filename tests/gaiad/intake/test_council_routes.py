"""The routes of the council over a real socket: whole, followed, and gone on with."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.ids import short
from gaiad.intake.council_routes import table
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.service.chat_channels import Receipts
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import Parcel, TurnRecord
from tests.makers.council_desk import Desk

EVENTS = {"Accept": "text/event-stream"}
FIELDS = ["msg_id", "parent_id", "timestamp", "sender", "role", "type", "confidence", "risk_level", "content"]


@pytest.fixture
async def desk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Any]:
    made = await Desk(tmp_path, clock).open()
    yield made
    await made.stack.aclose()


@pytest.fixture
async def deliveries(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[DeliveryLog]:
    made = DeliveryLog(HomeDatabases(tmp_path), clock)
    yield made
    made._databases.close()


@pytest.fixture
async def api(service: Any, serving: Any, desk: Any, deliveries: DeliveryLog) -> AsyncIterator[aiohttp.ClientSession]:
    service.counsel, service.receipts = desk.counsel, Receipts(deliveries)
    async with serving(table()) as session:
        yield session


async def events(response: aiohttp.ClientResponse, number: int) -> list[tuple[str, str, Any]]:
    """The next events: id, name, data."""
    found, fields = [], dict[str, str]()
    while len(found) < number:
        line = (await asyncio.wait_for(response.content.readline(), 30)).decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


async def test_status_has_the_fields_of_the_contract(api: aiohttp.ClientSession) -> None:
    found = await (await api.post("/council/status", json={})).json()
    assert list(found)[:6] == ["quorum", "roles", "depth", "turns", "open_proposals", "escalations"]
    assert list(found["roles"][0])[:5] == ["role", "model", "state", "last_heartbeat", "can_vote"]


async def test_messages_have_the_field_names_of_the_seed(api: aiohttp.ClientSession, desk: Any) -> None:
    await desk.say("a word", confidence=0.5)
    found = (await (await api.post("/council/log", json={"limit": 1})).json())["messages"]
    assert list(found[0])[: len(FIELDS)] == FIELDS
    assert (found[0]["content"], found[0]["confidence"]) == ("a word", 0.5)


async def test_a_stream_goes_on_where_the_reader_stopped(api: aiohttp.ClientSession, desk: Any) -> None:
    start = await desk.say("0")
    await desk.say("1")
    body = {"after": start.full_id, "heartbeats": False}
    async with api.post("/council/log", json=body, headers=EVENTS) as response:
        stored, mark = await events(response, 2)
        assert (stored[1], stored[2]["content"], mark[1]) == ("message", "1", "following")
        await desk.say("2")
        ((last, _, data),) = await events(response, 1)
        assert (data["content"], data["full_id"]) == ("2", last)
    await desk.say("3")
    async with api.post("/council/log", json=body, headers=EVENTS | {"Last-Event-ID": last}) as response:
        assert [data["content"] for _, name, data in await events(response, 2) if name == "message"] == ["3"]


async def test_a_wrong_id_is_refused_before_the_stream_begins(api: aiohttp.ClientSession) -> None:
    response = await api.post("/council/log", json={"after": "soon"}, headers=EVENTS)
    assert (response.status, (await response.json())["code"]) == (400, "bad_input")


async def test_a_turn_has_the_receipts_of_what_was_sent_of_it(
    api: aiohttp.ClientSession, desk: Any, deliveries: DeliveryLog
) -> None:
    await desk.turn_log.put(
        "local", TurnRecord(turn_id="turn_1", session_id="s", depth="fast", stages=[], votes=[], status="SUCCESS")
    )
    sent = {"tenant": "local", "channel": "discord_chat", "address": "5", "turn_id": "turn_1", "marker": "RESPONSE"}
    parcels = [Parcel(id=f"p{piece}", block=0, piece=piece, text="words", **sent) for piece in range(2)]
    await deliveries.add(parcels, 10)
    await deliveries.delivered(parcels[0], "71")
    found = await (await api.post("/turns/show", json={"turn": "turn_1"})).json()
    (receipt,) = found["deliveries"]
    assert (receipt["channel"], receipt["state"], receipt["pieces"], receipt["outside_ids"]) == (
        "discord_chat",
        "waiting",
        2,
        ["71"],
    )


async def test_turns_are_found_by_id_and_digits_within_their_tenant(api: aiohttp.ClientSession, desk: Any) -> None:
    record = TurnRecord(turn_id="turn_1", session_id="s", depth="fast", stages=[], votes=[], status="SUCCESS")
    await desk.turn_log.put("local", record)
    for name in ("turn_1", short("turn_1")):
        found = await (await api.post("/turns/show", json={"turn": name})).json()
        assert list(found)[:1] == ["turn_id"]
        assert {"turn_id", "depth", "stages", "votes", "status"} <= set(found)
    assert (await api.post("/turns/show", json={"turn": "turn_1", "tenant": "work"})).status == 404
    listed = (await (await api.post("/turns/list", json={"session_id": "s"})).json())["turns"]
    assert [turn["turn_id"] for turn in listed] == ["turn_1"]
    assert (await (await api.post("/turns/list", json={"session_id": "t"})).json())["turns"] == []
