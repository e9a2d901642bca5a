"""A daemon with the bot, whole: what a person on Discord gets, what the memory keeps, what the status says."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gaiad.bench.daemon_process import running_daemon
from tests.makers.discord_home import discord_home
from tests.makers.discord_server import CHANNEL, SERVER, TOKEN, DiscordServer
from tests.makers.waiting import wait_until

SCRIPT = """
[[reply]]
text = "RESPONSE: Write to jane.doe@example.org about the lantern."
"""


async def until(condition):
    """The condition blocks, and the servers under test go on in this loop."""
    return await asyncio.to_thread(wait_until, condition)


@pytest.fixture
async def server():
    made = DiscordServer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def home(tmp_path: Path, server, monkeypatch):
    return discord_home(tmp_path, server, monkeypatch, SCRIPT)


def discord_trouble(daemon):
    return [words for words in daemon.status()["degraded"] if "iscord" in words]


async def test_an_answer_on_discord_is_scrubbed_and_the_memory_keeps_it_whole(server, home):
    manager = running_daemon(home=home)
    daemon = await asyncio.to_thread(manager.__enter__)
    try:
        await until(lambda: server.identified and not discord_trouble(daemon))
        thread = await server.say("Whom do I ask about the lantern?")
        await until(lambda: server.texts(thread))
        (said,) = server.texts(thread)
        assert "about the lantern." in said
        assert "jane.doe" not in said

        session = f"discord-{thread}"
        turns = await asyncio.to_thread(daemon.client.post, "/sessions/show", {"session_id": session})
        assert "jane.doe@example.org" in json.dumps(turns)
        turn_id = turns["turns"][-1]["turn_id"]
        shown = await until(lambda: delivered(daemon, turn_id))
        assert [(one["channel"], one["marker"], one["state"]) for one in shown] == [
            ("discord_chat", "RESPONSE", "delivered")
        ]

        await server.stop()
        assert await until(lambda: discord_trouble(daemon))
        await server.start()
        await until(lambda: not discord_trouble(daemon))

        assert TOKEN not in await asyncio.to_thread(gaiad, home, "config", "show")
        assert "was delivered to Discord at" in await asyncio.to_thread(gaiad, home, "turns", "show", turn_id)
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
    log = (home.parent / "h.log").read_text()
    assert "discord_connected" in log
    assert TOKEN not in log
    assert "Whom do I ask" not in log


def delivered(daemon, turn_id):
    found = msgspec.to_builtins(daemon.client.council.turn(turn_id, "local"))["deliveries"]
    return found if found and all(one["state"] == "delivered" for one in found) else None


def gaiad(home, *words):
    command = [sys.executable, "-m", "gaiad.cli.main", *words, "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_bot_without_an_allow_list_does_not_start(tmp_path):
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    lists = f'servers = ["{SERVER}"]\nchannels = ["{CHANNEL}"]\n'
    (home / "config.toml").write_text(f'[discord]\nenabled = true\ntoken_env = "X"\n{lists}')
    command = [sys.executable, "-m", "gaiad.cli.main", "serve", "--home", str(home), "--set", "http.port=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "discord.users is empty: the bot does not start without an allow-list" in done.stderr
