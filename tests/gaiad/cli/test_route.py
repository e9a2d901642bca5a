"""`gaiad route`: a text's way to the channels, by the user's settings, with no daemon there."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gaiad.cli.main import program, run

TEXT = """PLAN: Write to jane.doe@acme.org
RESPONSE: Her card is 4111 1111 1111 1111, \x1b[31mher\x1b[0m project is Nightjar.
THOUGHT_SEED: Ask about the roof.
EXECUTE: {"argv": ["ls"]}
**VERIFY:** it holds
"""


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("GAIAD_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    file = tmp_path / "marked.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def route(*arguments: object) -> int:
    return run(program, "gaiad", ["route", *map(str, arguments)])


def routed(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert route("--json", *arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_blocks_go_where_the_matrix_says(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = routed(capsys, "--channel", "web", text)
    assert [(block["marker"], block["channels"]) for block in found["blocks"]] == [
        ("PLAN", ["council_chat", "memory"]),
        ("RESPONSE", ["web_chat", "memory"]),
        ("THOUGHT_SEED", ["council_chat", "memory"]),
        ("EXECUTE", ["shell"]),
        ("VERIFY", ["web_chat", "council_chat", "memory"]),
    ]
    assert "[card number]" in found["blocks"][1]["text"]
    assert found["blocks"][1]["redactions"] == [{"kind": "card", "count": 1}]
    assert found["blocks"][0]["text"] == "Write to jane.doe@acme.org", "the council's log is the owner's"
    assert found["notes"] == ["VERIFY was written as '**VERIFY:**'"]


def test_the_users_settings_hold(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home" / "config.toml").write_text(
        "[router]\noverrides = {web_chat = {PLAN = 'log'}}\n"
        "[redaction]\nphrases = ['project is nightjar']\nchannels = {web_chat = ['policy']}\n"
    )
    found = routed(capsys, "--channel", "web", text)["blocks"]
    assert found[0]["manners"] == {"web_chat": "log", "council_chat": "show", "memory": "page"}
    assert found[1]["redactions"] == [{"kind": "phrase", "count": 1}]
    (tmp_path / "home" / "config.toml").write_text("[router]\noverrides = {web_chat = {EXECUTE = 'show'}}\n")
    assert route(text) == 2
    assert "router.overrides.web_chat.EXECUTE: only commands go to the shell" in capsys.readouterr().err


def test_standard_input_as_a_person_reads_it(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    assert route("-") == 0
    out = capsys.readouterr().out
    assert "RESPONSE to cli_chat (show), web_chat (show), discord_chat (show), memory (page)\n" in out
    assert "  taken out: 1 card\n" in out
    assert "\x1b" not in out
    assert "note: VERIFY was written as" in out


def test_what_cannot_be_read_is_said(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert route(tmp_path / "none.txt") == 2
    assert "cannot be read (No such file or directory); name a text file" in capsys.readouterr().err
    text.write_bytes(b"\xff\xfe")
    assert route(text) == 2
    assert "is not UTF-8 text (byte 0)" in capsys.readouterr().err
    text.write_text("")
    assert routed(capsys, text)["blocks"] == []


def test_a_flood_of_markers_is_read_in_time(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text.write_text("PLAN: x\n" * 5_000 + "RESPONSE: " * 5_000)
    found = routed(capsys, "--channel", "cli", text)
    assert len(found["blocks"]) >= 5_001
    assert len(found["notes"]) <= 20
