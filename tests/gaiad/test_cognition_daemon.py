"""What a daemon says and does when packets get tight: TOKEN_BUDGET_OVERRUN in the log, renders that ask nobody."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.wire.chat import ChatRequest
from tests.makers.scripted_home import scripted_settings
from tests.makers.waiting import wait_until

SCRIPT = """
[[reply]]
match = 'You are GAIA-Compressor'
text = "They spoke of boats."

[[reply]]
match = 'You review a persona'
text = '{"overrules": false, "rule": "none", "reason": "Nothing speaks against it."}'

[[reply]]
text = "RESPONSE: We decided to count the boats with Marguerite Duval."
"""
MTU = 800
SAID = "The keeper of the harbour counted {} boats before the storm came over the wall. " * 6


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("tight") / "h"
    personas = home / "registry" / "personas"
    personas.mkdir(parents=True)
    home.chmod(0o700)
    (personas / "mine.toml").write_text('[mine]\ntone = "calm"\nstyle_notes = "Short words."\n')
    (home.parent / "script.toml").write_text(SCRIPT)
    (home / "config.toml").write_text(
        scripted_settings(home.parent / "script.toml", ["prime", "lite"])
        + """
[embedder]
kind = "none"
[cognition]
reserve_tokens = 64
[council]
depth = "fast"
[daemon]
log_format = "json"
"""
    )
    with running_daemon(home=home) as running:
        fill(running.client, "tight")
        fill(running.client, "other")
        yield running


def fill(client: Client, session: str) -> None:
    """A session that is too long for the MTU, but not yet too long for the packets it was said in."""
    for number in range(8):
        [*client.chat_events(ChatRequest(message=SAID.format(*[number] * 6), session_id=session))]


def overruns(daemon: BenchDaemon) -> list[dict[str, Any]]:
    lines = (daemon.home.parent / f"{daemon.home.name}.log").read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [row for row in rows if row["event"] == "TOKEN_BUDGET_OVERRUN"]


def test_a_compression_is_a_structured_line_in_the_log_that_names_its_turn(daemon: BenchDaemon) -> None:
    """GCP 4.2."""
    request = ChatRequest(message="How many boats were counted?", session_id="tight", mtu=MTU)
    answer = [*daemon.client.chat_events(request)][-1].data
    (row,) = [row for row in overruns(daemon) if row.get("turn_id") == answer["turn_id"] and row["method"]]
    assert (row["field"], row["method"], row["session_id"]) == ("history", "lite", "tight")
    assert row["original_tokens"] > row["target_tokens"] >= row["compressed_tokens"] > 0
    assert row["ms"] >= 0
    assert row["failures"] == ["extractive: no embedder"]
    asked, kept = daemon.client.cognition_packets("local", 2, "tight")
    assert (asked.aside, asked.packet["task_instruction_key"], asked.reply["text"]) == (
        True,
        "compressor",
        "They spoke of boats.",
    )
    assert daemon.client.cognition_packet(answer["turn_id"], "local") == kept
    assert "⚠SUMMARY They spoke of boats." in [entry["text"] for entry in kept.packet["history"]]


def test_a_render_asks_no_model_and_notes_what_a_turn_would_ask(daemon: BenchDaemon) -> None:
    request = ChatRequest(message="And then?", session_id="other", persona="mine", mtu=MTU)
    found = daemon.client.render_packet(request)
    assert found.notes == [
        "a turn would ask script whether the persona 'mine' works against identity; a dry run asks no model",
        "persona 'mine' was not judged: script is not asked in a dry run",
        "a turn would ask script for a summary; a dry run asks no model",
    ]
    answer = [*daemon.client.chat_events(request)][-1].data
    assert not [note for note in answer["notes"] if "dry run" in note]


def test_settings_without_a_place_for_identity_are_a_line_in_status_as_long_as_they_hold(daemon: BenchDaemon) -> None:
    settings = daemon.home / "config.toml"
    before = settings.read_text()
    settings.write_text(before.replace("reserve_tokens = 64", "reserve_tokens = 64\nmtu = 100"))
    daemon.client.reload_config()
    assert wait_until(
        lambda: [line for line in daemon.status()["degraded"] if "cognition.mtu = 100, model script" in line]
    )
    settings.write_text(before)
    daemon.client.reload_config()
    assert wait_until(lambda: not [line for line in daemon.status()["degraded"] if "cognition.mtu" in line])


def test_pages_of_a_session_come_with_header_and_memo(daemon: BenchDaemon) -> None:
    pages = daemon.client.session_pages("tight", "local", -1, 3)
    assert [page.header.sequence for page in pages] == [0, 1, 2]
    assert "Marguerite Duval" in pages[1].memo == pages[1].header.memo_snapshot
    assert pages[0].raw_content.startswith("The keeper of the harbour counted 0 boats")
    (later,) = daemon.client.session_pages("tight", "local", 1, 1)
    assert later.header.sequence == 2
    assert daemon.client.session_pages("nobody", "local", -1, 3) == []
