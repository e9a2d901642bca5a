"""Thoughts for later over a real socket: a caller sees those of its own tenants."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.home import Home
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import PeerCheck
from gaiad.intake.council_routes import table
from gaiad.intake.doors import UnixDoor
from gaiad.intake.sockets import listen_unix
from tests.makers.initiative_house import House


@pytest.fixture
async def house(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[House]:
    made = await House(tmp_path, clock).open()
    yield made
    await made.stack.aclose()


@pytest.fixture
async def api(service: Any, home: Home, house: House) -> AsyncIterator[aiohttp.ClientSession]:
    service.initiative = house.initiative
    listening = listen_unix(home.socket)
    app = build_app(service, UnixDoor(PeerCheck(dict)), table())
    runner = await start_listener(app, listening.socket, 0.5)
    async with aiohttp.ClientSession("http://localhost", connector=aiohttp.UnixConnector(str(home.socket))) as session:
        yield session
    await runner.cleanup()


async def test_thoughts_are_listed_by_tenant_and_state(api: aiohttp.ClientSession, house: House) -> None:
    await house.add("one")
    await house.look()
    await house.add("two")
    await house.add("another's", tenant="work")

    async def texts(**body: object) -> list[tuple[str, str]]:
        response = await api.post("/council/seeds", json=body)
        assert response.status == 200
        return [(seed["text"], seed["state"]) for seed in (await response.json())["seeds"]]

    assert await texts() == [("two", "open"), ("one", "passed")]
    assert await texts(state="passed") == [("one", "passed")]
    assert await texts(limit=1) == [("two", "open")]
    assert await texts(tenant="work") == [("another's", "open")]
    assert await texts(tenant="nobody") == []


async def test_an_unknown_state_is_refused_by_name(api: aiohttp.ClientSession) -> None:
    response = await api.post("/council/seeds", json={"state": "asleep"})
    assert response.status == 400
    assert "asleep" in (await response.json())["message"]
