"""Kill -9 of the daemon in the middle of a full turn: what was said stays, and the turn is told as cut off."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.wire.chat import ChatRequest

ROLES = ("prime", "lite", "codemind")
SCRIPT = """
[[reply]]
match = 'think step by step'
text = 'PLAN: {"steps": ["Look up the keeper"]}'
[[reply]]
match = 'errors, gaps and risks'
text = 'PLAN: {"confidence": 0.8, "steps": ["Name the keeper"]}'
[[reply]]
match = 'the plan, step by step'
text = 'VERIFY: {"outcome": "success", "summary": "it names the keeper"}'
[[reply]]
match = 'take your time'
text = "RESPONSE: One word after another, and there are many of them before this text is at its end."
delay_ms = 1000.0
chunk_characters = 4
[[reply]]
text = "RESPONSE: The keeper is Zephyrine."
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    known = "".join(
        f'[models.known.of_{role}]\nkind = "scripted"\npath = "{tmp_path / "script.toml"}"\n' for role in ROLES
    )
    roles = "".join(f'{role} = "of_{role}"\n' for role in ROLES)
    (home / "config.toml").write_text(f'{known}[roles]\n{roles}[embedder]\nkind = "none"\n')
    return home


def gaiad(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gaiad.cli.main", *arguments, "--home", str(home)]


def shown(home: Path, *arguments: str) -> Any:
    done = subprocess.run(gaiad(home, *arguments), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_until(reader: "subprocess.Popen[str]", kept: list[dict[str, Any]], beginning: str) -> None:
    """Lines of the followed log, up to the message that begins so."""
    assert reader.stdout is not None
    while line := reader.stdout.readline():
        kept.append(json.loads(line))
        if kept[-1]["content"].startswith(beginning):
            return
    raise AssertionError(f"the log ended before {beginning!r}")


def killed_in_act(daemon: BenchDaemon, before: Callable[[], None]) -> str:
    """The id of the turn in whose Act the daemon was killed, once `before` has returned."""
    pid, turn_id = daemon.status()["pid"], ""
    with Client(daemon.home) as client:
        events = client.chat_events(ChatRequest(message="Who keeps it? take your time", session_id="s", depth="full"))
        for event in events:
            turn_id = event.data["turn_id"] if event.event == "turn" else turn_id
            if event.event == "delta":
                break
        before()
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(Unavailable):
            assert "done" not in [event.event for event in events]
    return turn_id


def test_a_turn_in_which_the_daemon_was_killed_is_told_as_cut_off_and_nothing_said_is_lost(home: Path) -> None:
    command = gaiad(home, "council", "log", "--follow", "--json", "--no-heartbeats")
    followed: list[dict[str, Any]] = []
    with running_daemon(home=home) as daemon:
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        turn_id = killed_in_act(daemon, lambda: read_until(reader, followed, "PLAN"))
    try:
        with running_daemon(home=home) as daemon:
            found = shown(home, "turns", "show", "--json", turn_id)
            assert (found["turn_id"], found["status"], found["depth"]) == (turn_id, "CUT_OFF", "full")
            events = daemon.client.chat_events(ChatRequest(message="Who keeps it?", session_id="s", depth="full"))
            answer = [*events][-1].data
            assert (answer["answer"], answer["status"]) == ("The keeper is Zephyrine.", "UNVERIFIED")
            read_until(reader, followed, "VERIFY: unverified")
            stored = daemon.client.council.log("local", "", 1000, heartbeats=False)
            assert [one["full_id"] for one in followed] == [one["full_id"] for one in stored][: len(followed)]
            said = [one["content"].split("\n")[0] for one in stored if one["sender"] in ROLES]
            assert said[:2] == ["PLAN:", "PLAN:"], "the killed turn's"
            assert said[2:4] == ["PLAN:", "PLAN:"]
            assert shown(home, "audit", "verify", "--json")["ok"]
            turns = daemon.client.post("/sessions/show", {"session_id": "s", "tenant": "local"})["turns"]
            assert [turn["turn_id"] for turn in turns] == [answer["turn_id"]]
            assert shown(home, "council", "status", "--json")["turns"] == []
    finally:
        reader.send_signal(signal.SIGINT)
        _, errors = reader.communicate(timeout=60)
    assert "continuing when it answers again" in errors
