"""Turns that run in a real daemon by themselves: remembered though nobody reads, told after a restart and a kill."""

import contextlib
import http.client
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gaiad.base.errors import Conflict
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.client.connection import DaemonConnection, ServerEvent, parse_events

SLOW = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten."
SCRIPT = f"""
[[reply]]
match = 'tell me slowly[^\\n]*\\nassistant: $'
text = "RESPONSE: {SLOW}"
delay_ms = 60.0
chunk_characters = 6
[[reply]]
match = 'tell me at leisure[^\\n]*\\nassistant: $'
text = "RESPONSE: {SLOW}"
delay_ms = 400.0
chunk_characters = 6
[[reply]]
match = 'tell me for ever[^\\n]*\\nassistant: $'
text = "RESPONSE: {" ".join(f"Number {number} comes." for number in range(400))}"
delay_ms = 60.0
[[reply]]
match = 'where is the cat[^\\n]*\\nassistant: $'
text = "RESPONSE: The cat Mirabell sleeps in the harbour office."
[[reply]]
match = 'where is the owl[^\\n]*\\nassistant: $'
text = "RESPONSE: The owl Zephyrine sits on the boathouse roof."
delay_ms = 30.0
chunk_characters = 4
[[reply]]
match = 'how do I write to her[^\\n]*\\nassistant: $'
text = "RESPONSE: Write to zephyrine@example.org about it."
[[reply]]
text = "RESPONSE: I heard you."
"""
PATIENCE_S = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    known = f'[models.known.script]\nkind = "scripted"\npath = "{tmp_path / "script.toml"}"\n'
    (home / "config.toml").write_text(f'{known}[roles]\nprime = "script"\n[embedder]\nkind = "none"\n')
    return home


@pytest.fixture
def daemon(home: Path) -> Iterator[BenchDaemon]:
    with running_daemon(home=home) as running:
        yield running


def start(home: Path, message: str, session: str = "s", **more: Any) -> str:
    with Client(home) as client:
        body = {"message": message, "session_id": session, "depth": "fast", "channel": "web_chat", **more}
        return str(client.post("/turns/start", body)["turn_id"])


def follow(home: Path, turn_id: str) -> Iterator[ServerEvent]:
    """To the last event, or as far as it is read."""
    connection = DaemonConnection(str(home), os.environ)
    try:
        yield from connection.stream("GET", f"/turns/events?turn={turn_id}", None)
    finally:
        connection.close()


def raw_events(home: Path, turn_id: str) -> list[tuple[str, Any]]:
    """The stream to its end, `error` included."""
    wire = http.client.HTTPConnection("localhost", timeout=60)
    wire.sock = socket.socket(socket.AF_UNIX)
    wire.sock.connect(str(home / "gaiad.sock"))
    return told(wire, turn_id, {})


def told(wire: http.client.HTTPConnection, turn_id: str, headers: dict[str, str]) -> list[tuple[str, Any]]:
    with contextlib.closing(wire):
        wire.request("GET", f"/turns/events?turn={turn_id}", headers=headers)
        return [(event.event, event.data) for event in parse_events(wire.getresponse())]


def as_page(home: Path, turn_id: str) -> list[tuple[str, Any]]:
    """The stream as a browser gets it that a one-time link let in."""
    with Client(home) as client:
        link = urlsplit(client.post("/web/link", {"for_this_user": False})["url"])
    wire = http.client.HTTPConnection(link.netloc, timeout=60)
    wire.request("GET", f"{link.path}?{link.query}")
    response = wire.getresponse()
    response.read()
    cookie = (response.getheader("Set-Cookie") or "").partition(";")[0]
    return told(wire, turn_id, {"Cookie": cookie, "X-Gaiad": "page"})


def leave_in_the_middle(home: Path, turn_id: str) -> None:
    for event in follow(home, turn_id):
        if event.event == "delta":
            return


def search(home: Path, query: str) -> list[dict[str, Any]]:
    with Client(home) as client:
        return list(client.post("/search", {"query": query})["hits"])


def until_over(client: Client, turn_id: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while any(row["turn_id"] == turn_id for row in client.get("/turns/running")["turns"]):
        assert time.monotonic() < end, "the turn did not end"
        time.sleep(0.02)


def found(home: Path, query: str, turn_id: str) -> None:
    """The search's first hit becomes the turn."""
    end = time.monotonic() + PATIENCE_S
    while not (hits := search(home, query)) or hits[0]["packet_id"] != turn_id:
        assert time.monotonic() < end, "the search did not find it"
        time.sleep(0.02)


def test_what_a_turn_answered_is_found_by_search(daemon: BenchDaemon, home: Path) -> None:
    with Client(home) as client:
        answer = client.post("/chat", {"message": "where is the cat", "session_id": "cat", "depth": "fast"})
    found(home, "Mirabell harbour office", answer["turn_id"])


def test_what_the_page_was_answered_is_found_too_though_its_reader_went_away(daemon: BenchDaemon, home: Path) -> None:
    turn_id = start(home, "where is the owl")
    leave_in_the_middle(home, turn_id)
    with Client(home) as client:
        until_over(client, turn_id)
        found(home, "Zephyrine boathouse roof", turn_id)
        (turn,) = client.session_turns("s", "local", 5)
    assert (turn.turn_id, turn.status) == (turn_id, "SUCCESS")
    assert turn.answer == "The owl Zephyrine sits on the boathouse roof."


def test_a_turn_behind_another_of_its_session_has_its_name_at_once_and_its_turn_after(
    daemon: BenchDaemon, home: Path
) -> None:
    first = start(home, "tell me for ever")
    leave_in_the_middle(home, first)
    second = start(home, "and you?")
    with Client(home) as client:
        assert [row["turn_id"] for row in client.get("/turns/running")["turns"]] == [first, second]
        client.post("/turns/cancel", {"turn": first})
    assert [*follow(home, second)][-1].data["answer"] == "I heard you."
    with Client(home) as client:
        assert [turn.turn_id for turn in client.session_turns("s", "local", 5)] == [first, second]


def test_one_key_is_one_turn_over_a_restart_too_and_another_message_is_refused(home: Path) -> None:
    with running_daemon(home=home):
        turn_id = start(home, "where is the cat", idempotency_key="k")
        assert [*follow(home, turn_id)][-1].event == "done"
        assert start(home, "where is the cat", idempotency_key="k") == turn_id
    with running_daemon(home=home):
        assert start(home, "where is the cat", idempotency_key="k") == turn_id
        assert [*follow(home, turn_id)][-1].data["answer"].startswith("The cat Mirabell")
        with pytest.raises(Conflict, match="another message"):
            start(home, "where is the owl", idempotency_key="k")


def test_a_stop_lets_a_turn_come_to_its_end_and_the_next_daemon_tells_it(home: Path) -> None:
    with running_daemon(home=home):
        turn_id = start(home, "tell me slowly")
        leave_in_the_middle(home, turn_id)
    with running_daemon(home=home):
        ((name, answer),) = raw_events(home, turn_id)
    assert (name, answer["answer"], answer["status"]) == ("done", SLOW, "SUCCESS")


def test_a_turn_that_outlasts_the_stop_is_broken_off_and_what_it_said_is_told(home: Path) -> None:
    with running_daemon("daemon.stop_grace_s=0.2", home=home):
        turn_id = start(home, "tell me for ever")
        leave_in_the_middle(home, turn_id)
    with running_daemon(home=home):
        ((name, answer),) = raw_events(home, turn_id)
    assert (name, answer["status"]) == ("done", "CANCELLED")
    assert answer["answer"].startswith("Number 0 comes.")


def test_a_turn_in_which_the_daemon_was_killed_is_told_as_cut_off(home: Path) -> None:
    with running_daemon(home=home) as daemon:
        turn_id = start(home, "tell me for ever")
        leave_in_the_middle(home, turn_id)
        os.kill(daemon.status()["pid"], signal.SIGKILL)
    with running_daemon(home=home):
        ((name, body),) = raw_events(home, turn_id)
    assert (name, body["code"]) == ("error", "cancelled")
    assert "gaiad ended while the turn was being taken" in body["message"]


def test_what_the_page_is_told_again_from_memory_is_scrubbed_as_it_was_the_first_time(home: Path) -> None:
    with running_daemon(home=home):
        turn_id = start(home, "how do I write to her")
        first = as_page(home, turn_id)[-1][1]
    assert "example.org" not in first["answer"]
    with running_daemon(home=home), Client(home) as client:
        ((name, again),) = as_page(home, turn_id)
        (kept,) = client.session_turns("s", "local", 5)
    assert (name, again["answer"]) == ("done", first["answer"])
    assert "zephyrine@example.org" in kept.answer, "the memory keeps what was said"


def test_the_page_gets_nothing_of_a_turn_that_runs_on_the_command_line(daemon: BenchDaemon, home: Path) -> None:
    turn_id = start(home, "tell me at leisure", channel="cli_chat")
    assert as_page(home, turn_id) == [], "it is refused"
    with Client(home) as client:
        until_over(client, turn_id)
    ((name, answer),) = as_page(home, turn_id)
    assert (name, answer["answer"]) == ("done", SLOW)


def test_breaking_off_keeps_what_was_said(daemon: BenchDaemon, home: Path) -> None:
    turn_id = start(home, "tell me for ever")
    leave_in_the_middle(home, turn_id)
    with Client(home) as client:
        assert client.post("/turns/cancel", {"turn": turn_id}) == {"turn_id": turn_id, "cancelled": True}
        (turn,) = client.session_turns("s", "local", 5)
    assert (turn.turn_id, turn.status) == (turn_id, "CANCELLED")
    assert turn.answer.startswith("Number 0 comes.")
    assert raw_events(home, turn_id)[-1][0] == "error"
