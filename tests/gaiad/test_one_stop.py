"""A stop of a daemon with all kinds of work under way: it takes daemon.stop_grace_s once, and takes up nothing new."""

import asyncio
import sqlite3
import time
from pathlib import Path

import aiohttp
import pytest

from gaiad.bench.daemon_process import running_daemon
from tests.makers.discord_home import discord_home
from tests.makers.discord_server import DiscordServer
from tests.makers.waiting import until

GRACE_S = 6.0
SCRIPT = '[[reply]]\ntext = "RESPONSE: slow answer"\ndelay_ms = 60000\n'


@pytest.fixture
async def server():
    made = DiscordServer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def home(tmp_path: Path, server, monkeypatch):
    return discord_home(tmp_path, server, monkeypatch, SCRIPT, f"[daemon]\nstop_grace_s = {GRACE_S}\n")


async def test_a_request_a_turn_of_the_page_and_a_message_on_discord_share_one_time(server, home):
    manager = running_daemon(home=home)
    daemon = await asyncio.to_thread(manager.__enter__)
    try:
        await until(lambda: server.identified)
        connector = aiohttp.UnixConnector(str(home / "gaiad.sock"))
        async with aiohttp.ClientSession("http://localhost", connector=connector) as client:
            asked = asyncio.create_task(client.post("/chat", json={"message": "hello", "session_id": "c"}))
            async with client.post("/turns/start", json={"message": "hello", "session_id": "p"}) as started:
                assert started.status == 200
            thread = await server.say("hello bot")
            await until(lambda: thread in server.typing)
            began = time.monotonic()
            daemon._process.terminate()
            await asyncio.sleep(GRACE_S / 3)
            late = await server.say("one more during the stop")
            await asyncio.to_thread(daemon._process.wait, 60)
            took_s = time.monotonic() - began
            await asyncio.gather(asked, return_exceptions=True)
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
    log = (home.parent / "h.log").read_text()
    assert took_s < GRACE_S * 2, log  # the three of them one after the other take three times that
    assert daemon._process.returncode == 0
    assert late not in server.threads
    assert late not in server.typing
    assert "I was stopped before I had an answer" in said(server, home, thread)


def said(server, home, thread):
    """On Discord, or kept for the next start."""
    path = home / "tenants" / "local" / "tenant.db"
    with sqlite3.connect(path) as file:
        kept = file.execute("SELECT text FROM deliveries").fetchall()
    return " ".join(server.texts(thread)) + str(kept)
