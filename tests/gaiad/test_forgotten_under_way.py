"""What is forgotten while a turn or a research run has it before it: nothing of it is kept when that has ended."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaiad.base.errors import GaiadError
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.client.connection import DaemonConnection, ServerEvent
from gaiad.wire.chat import ChatRequest
from gaiad.wire.schemas import DEFAULT_TENANT, ResearchRequest

SECRET, KEPT = "bismuthfern", "telluriumoak"
QUESTION = "When is the lantern of the harbour lit?"
SCRIPT = f"""
[[reply]]
match = 'lantern of the harbour'
text = "RESPONSE: The lantern of the harbour is lit at dusk by the {SECRET}. So it is every day, in rain and in fog."
delay_ms = 250.0
chunk_characters = 8
[[reply]]
text = "RESPONSE: I heard you."
"""
PATIENCE_S = 30.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    known = f'[models.known.script]\nkind = "scripted"\npath = "{tmp_path / "script.toml"}"\n'
    research = '[research]\nmodel = "prime"\n'
    (home / "config.toml").write_text(f'{known}[roles]\nprime = "script"\n{research}[embedder]\nkind = "none"\n')
    return home


def bring_in(daemon: BenchDaemon, folder: Path) -> None:
    folder.mkdir()
    for name, secret in (("gone", SECRET), ("kept", KEPT)):
        text = f"The lantern of the harbour is lit at dusk by the {secret}."
        (folder / f"{name}.xml").write_text(f'<packet id="{name}"><content>{text}</content></packet>')
    daemon.ingest(folder)


def begun(wait_for: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not wait_for():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def follow(home: Path, turn_id: str) -> Iterator[ServerEvent]:
    with contextlib.closing(DaemonConnection(str(home), os.environ)) as connection:
        yield from connection.stream("GET", f"/turns/events?turn={turn_id}", None)


def ask(home: Path) -> None:
    """What becomes of it does not matter: a run may find that what it was reading is gone."""
    with contextlib.suppress(GaiadError), Client(home) as client:
        client.research(ResearchRequest(query=QUESTION))


def forget(daemon: BenchDaemon, name: str, *, now: bool) -> str:
    report = daemon.client.post("/forget", {"packet_ids": [name], "now": now})
    assert report["packets"] == 1
    return str(report["forget_id"])


def stored(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.parametrize("now", [True, False])
def test_a_turn_that_has_a_packet_before_it_keeps_nothing_of_it(home: Path, tmp_path: Path, now: bool) -> None:
    with running_daemon(home=home) as daemon:
        bring_in(daemon, tmp_path / "packets")
        body = {"message": QUESTION, "session_id": "s", "depth": "fast", "channel": "web_chat"}
        turn_id = daemon.client.post("/turns/start", body)["turn_id"]
        with contextlib.closing(follow(home, turn_id)) as events:
            assert any(event.event == "delta" for event in events)
        forget(daemon, "gone", now=now)
        begun(lambda: not daemon.client.get("/turns/running")["turns"])
        begun(lambda: not daemon.client.council.turns(DEFAULT_TENANT, 10))
        assert daemon.client.cognition_packets(DEFAULT_TENANT, 10) == []
        assert daemon.client.sessions(DEFAULT_TENANT, 10) == []
        list(daemon.client.chat_events(ChatRequest(message="Good night", session_id="s", depth="fast")))
        assert len(daemon.client.council.turns(DEFAULT_TENANT, 10)) == 1
    if now:
        assert SECRET.encode() not in stored(home)


def test_a_run_of_research_that_has_a_packet_before_it_is_not_kept(home: Path, tmp_path: Path) -> None:
    with running_daemon(home=home) as daemon:
        bring_in(daemon, tmp_path / "packets")
        asked = threading.Thread(target=ask, args=(home,))
        asked.start()
        begun(lambda: bool(daemon.status()["research"]))
        time.sleep(0.5)  # its sources are read, and its model writes
        forget(daemon, "gone", now=True)
        asked.join(PATIENCE_S)
        assert not asked.is_alive()
        begun(lambda: not daemon.client.cognition_packets(DEFAULT_TENANT, 10))
        runs = [
            daemon.client.runs.show(each.research_id, DEFAULT_TENANT)
            for each in daemon.client.runs.newest(DEFAULT_TENANT, 10)
        ]
        assert SECRET not in repr(runs)
    assert SECRET.encode() not in stored(home)
