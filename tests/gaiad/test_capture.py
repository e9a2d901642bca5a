"""`gaiad capture` as the hooks run it: sessions of Claude Code and Codex come into the memory of a real daemon."""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
FENCED = "<<memory 0a1b2c packet tp-1 2025-11-27>>\nThe zirconium key is under the ninth stone.\n<<end 0a1b2c>>"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    with running_daemon("embedder.kind=none", home=tmp_path_factory.mktemp("capture") / "h") as running:
        yield running


def gaiad(folder: Path, *arguments: str, home: Path | None = None, given: str = "") -> subprocess.CompletedProcess[str]:
    own = {"HOME": str(folder), "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": "", "GAIAD_HOME": str(home or folder / "h")}
    command = [sys.executable, "-m", "gaiad.cli.main", "capture", *arguments]
    return subprocess.run(
        command, env={**os.environ, **own}, input=given, capture_output=True, text=True, timeout=60, check=False
    )


def transcript(folder: Path, *said: tuple[str, Any], name: str = "s-1") -> Path:
    path = folder / ".claude/projects/-home-a-boat" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "type": role,
            "uuid": f"u-{number}",
            "parentUuid": f"u-{number - 1}" if number else None,
            "sessionId": name,
            "cwd": "/home/a/boat",
            "timestamp": f"2026-02-01T08:00:{number:02}Z",
            "message": {"role": role, "content": content, "id": f"m-{number}"},
        }
        for number, (role, content) in enumerate(said)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def hook(path: Path, event: str) -> str:
    return json.dumps({"session_id": "s", "transcript_path": str(path), "cwd": "/x", "hook_event_name": event})


def found(daemon: BenchDaemon, words: str, seconds: float = 20) -> str:
    """What a search shows, as soon as it shows something."""
    until = time.monotonic() + seconds
    while not (hits := daemon.client.post("/search", {"query": words})["hits"]) and time.monotonic() < until:
        time.sleep(0.1)
    return str(hits)


def imports(daemon: BenchDaemon) -> int:
    return len([job for job in daemon.client.get("/jobs")["jobs"] if job["kind"] == "import"])


def test_a_session_of_claude_code_is_found_when_it_has_ended_without_what_gaiad_gave(
    daemon: BenchDaemon, tmp_path: Path
) -> None:
    called = {"type": "tool_use", "id": "t", "name": "mcp__gaiad__search", "input": {"query": "key"}}
    recalled = {"type": "tool_result", "tool_use_id": "t", "content": "The zirconium key is under the ninth stone."}
    path = transcript(
        tmp_path,
        ("user", "Which sails do we take on the pelican trip?"),
        ("assistant", [called]),
        ("user", [recalled]),
        ("user", f"{FENCED}\nGo on about the pelican."),
        ("assistant", "We take the brown pelican sails."),
    )
    done = gaiad(tmp_path, "claude-code", home=daemon.home, given=hook(path, "SessionEnd"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "brown pelican sails" in found(daemon, "brown pelican sails")
    assert "ninth stone" not in str(daemon.client.post("/search", {"query": "zirconium key ninth stone"})["hits"])


def test_after_a_turn_the_hook_returns_and_a_later_turn_takes_over(daemon: BenchDaemon, tmp_path: Path) -> None:
    said = [("user", "What colour is the heron?"), ("assistant", "The heron is grey.")]
    path, before = transcript(tmp_path, *said, name="s-2"), imports(daemon)
    began = time.monotonic()
    done = gaiad(tmp_path, "claude-code", "--quiet-s", "6", home=daemon.home, given=hook(path, "Stop"))
    assert (done.returncode, time.monotonic() - began < 6) == (0, True)
    transcript(tmp_path, *said, ("user", "And the ibis?"), ("assistant", "The ibis is white."), name="s-2")
    done = gaiad(tmp_path, "claude-code", "--quiet-s", "4", home=daemon.home, given=hook(path, "Stop"))
    assert done.returncode == 0
    assert "ibis is white" in found(daemon, "ibis white")
    time.sleep(3)  # the first capture has ended too
    assert imports(daemon) == before + 1


def test_a_turn_of_codex_brings_in_its_rollout(daemon: BenchDaemon, tmp_path: Path) -> None:
    path = tmp_path / ".codex/sessions/2026/03/01" / f"rollout-2026-03-01T10-00-00-{THREAD}.jsonl"
    path.parent.mkdir(parents=True)
    said = [("user", "input_text", "Where does the cormorant dry?"), ("assistant", "output_text", "On the mole.")]
    payloads = [("session_meta", {"id": THREAD, "timestamp": "2026-03-01T10:00:00Z", "cwd": "/x"})]
    payloads += [
        ("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": f"{words} Cormorant."}]})
        for role, kind, words in said
    ]
    lines = [{"timestamp": "2026-03-01T10:00:01Z", "type": kind, "payload": payload} for kind, payload in payloads]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    event = {"type": "agent-turn-complete", "thread-id": THREAD, "turn-id": "1", "input-messages": ["x"]}
    done = gaiad(tmp_path, "codex", json.dumps(event), "--quiet-s", "0", home=daemon.home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "On the mole" in found(daemon, "cormorant mole")


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["claude-code"], "", "not JSON"),
        (["claude-code"], "[]", "not a JSON object"),
        (["claude-code"], hook(Path("/etc/passwd"), "SessionEnd"), "not a session file"),
        (["codex", '{"type": "agent-turn-complete", "thread-id": "../../*"}'], "", "no session"),
    ],
)
def test_what_is_wrong_exits_1_as_2_would_stop_the_program(
    tmp_path: Path, arguments: list[str], given: str, words: str
) -> None:
    done = gaiad(tmp_path, *arguments, given=given)
    assert (done.returncode, words in done.stderr) == (1, True)
    assert gaiad(tmp_path, "codex", '{"type": "approval-requested"}').returncode == 0


def test_without_a_daemon_the_session_waits_in_the_inbox(tmp_path: Path) -> None:
    path = transcript(tmp_path, ("user", "Is the gannet back?"), ("assistant", "The gannet is back."))
    done = gaiad(tmp_path, "claude-code", given=hook(path, "SessionEnd"))
    assert (done.returncode, done.stderr) == (0, "")
    with running_daemon("embedder.kind=none", home=tmp_path / "h") as running:
        assert "gannet is back" in found(running, "gannet back")


def test_a_watched_folder_takes_sessions_as_they_grow(tmp_path: Path) -> None:
    said = [("user", "How long is the tern's beak?"), ("assistant", "The tern's beak is long.")]
    transcript(tmp_path, *said)
    folders = f'intake.folders=[{{path="{tmp_path}/.claude/projects", tenant="local"}}]'
    with running_daemon("embedder.kind=none", folders, home=tmp_path / "h") as running:
        assert "beak is long" in found(running, "tern beak")
        transcript(tmp_path, *said, ("user", "And the avocet's?"), ("assistant", "The avocet's is curved."))
        assert "is curved" in found(running, "avocet curved")
        assert len(running.client.post("/packets/list", {})["packets"]) == 1


def test_install_adds_one_hook_to_claude_code_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    other = {"hooks": [{"type": "command", "command": "say bye"}]}
    path.write_text(json.dumps({"model": "x", "hooks": {"SessionEnd": [other], "Stop": [other]}}))
    for _ in range(2):
        assert gaiad(tmp_path, "install", "claude-code", "--yes").returncode == 0
    settings = json.loads(path.read_text())
    kept, ours = settings["hooks"]["SessionEnd"]
    assert (kept, settings["hooks"]["Stop"], settings["model"]) == (other, [other], "x")
    assert ours["hooks"][0]["command"].endswith(f"capture claude-code --home {tmp_path / 'h'}")


def test_install_makes_capture_the_notify_program_of_codex_unless_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('model = "x" # mine\n\n[tui]\ntheme = "dark"\n')
    done = gaiad(tmp_path, "install", "codex", "--yes")
    assert done.returncode == 0, done.stderr
    settings = tomllib.loads(path.read_text())
    assert settings["notify"][1:] == ["capture", "codex", "--home", str(tmp_path / "h")]
    assert settings["tui"] == {"theme": "dark"}
    path.write_text('notify = ["say", "done"]\n')
    done = gaiad(tmp_path, "install", "codex", "--yes")
    assert (done.returncode, "say done" in done.stderr) == (2, True)
    assert path.read_text() == 'notify = ["say", "done"]\n'
