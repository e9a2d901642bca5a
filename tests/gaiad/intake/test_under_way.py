"""A stop of a listener: requests under way have their time, once, and are broken off after it."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from gaiad.base.home import Home
from gaiad.intake.application import build_app, start_listener, stop_listener
from gaiad.intake.auth import PeerCheck
from gaiad.intake.doors import UnixDoor
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.sockets import listen_unix


class Site(NamedTuple):
    runner: web.AppRunner
    client: aiohttp.ClientSession
    begun: asyncio.Event
    ended: list[str]


@pytest.fixture
async def site(service: Any, home: Home) -> AsyncIterator[Site]:
    ended: list[str] = []
    begun = asyncio.Event()

    async def slow(exchange: Exchange) -> Reply:
        begun.set()
        try:
            await asyncio.sleep(float(exchange.request.query["takes_s"]))
        except asyncio.CancelledError:
            ended.append("broken off")
            raise
        ended.append("answered")
        return {"answer": "x" * 1_000_000}

    listener = listen_unix(home.socket)
    app = build_app(service, UnixDoor(PeerCheck(dict)), [Route("GET", "/slow", slow, timed=False)])
    runner = await start_listener(app, listener.socket, 30)
    connector = aiohttp.UnixConnector(str(home.socket))
    async with aiohttp.ClientSession("http://localhost", connector=connector) as client:
        yield Site(runner, client, begun, ended)
    await runner.cleanup()


async def ask(site: Site, takes_s: float) -> asyncio.Task[str]:
    async def answer() -> str:
        async with site.client.get("/slow", params={"takes_s": str(takes_s)}) as response:
            return await response.text()

    task = asyncio.create_task(answer())
    await site.begun.wait()
    return task


async def test_a_request_that_ends_in_time_is_answered_whole(site: Site) -> None:
    asked = await ask(site, 0.4)
    await asyncio.wait_for(stop_listener(site.runner, 120.0), 60)
    assert len(await asked) > 1_000_000
    assert site.ended == ["answered"]


async def test_one_that_does_not_is_broken_off_after_that_time_and_not_twice_that(site: Site) -> None:
    """The longest is told by naps: a machine that stands still for seconds makes one nap long and not many."""
    asked, began, naps = await ask(site, 600), time.monotonic(), []

    async def nap() -> None:
        while True:
            await asyncio.sleep(0.05)
            naps.append(time.monotonic())

    napping = asyncio.create_task(nap())
    await stop_listener(site.runner, 3.0)
    napping.cancel()
    assert time.monotonic() - began > 2.9
    assert len(naps) * 0.05 < 5.9
    assert site.ended == ["broken off"]
    with pytest.raises(aiohttp.ClientError):
        await asked


async def test_nothing_under_way_is_waited_for_not_at_all(site: Site) -> None:
    began = time.monotonic()
    await stop_listener(site.runner, 120.0)
    assert time.monotonic() - began < 60
