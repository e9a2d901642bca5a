"""Thoughts for later over a real socket: a caller sees those of its own tenants."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.intake.council_routes import table
from tests.makers.initiative_house import House


@pytest.fixture
async def house(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[House]:
    made = await House(tmp_path, clock).open()
    yield made
    await made.stack.aclose()


@pytest.fixture
async def api(service: Any, serving: Any, house: House) -> AsyncIterator[aiohttp.ClientSession]:
    service.initiative = house.initiative
    async with serving(table()) as session:
        yield session


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
