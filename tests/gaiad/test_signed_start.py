"""The daemon as a process and its signed identity: begun at the first start, in force, refused when changed."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import DaemonUnreachable
from gaiad.client.client import Client
from gaiad.identity.keys import KeyFolder
from gaiad.identity.signing import sign_file
from gaiad.ledger.audit import export_lines, verify_home
from prompts.identity import identity_bytes, shipped_identity
from tests.makers.audits import open_audit

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "h"


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "config" / "gaiad")


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a daemon that nobody has waited for; its words go to `said`."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "gaiad.cli.main", "serve", "--home", str(home)]
        command += ["--set", "http.enabled=false", "--set", "embedder.kind=none"]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "NO_COLOR": "1"}
        with (tmp_path / "said").open("wb") as said:
            started.append(subprocess.Popen(command, stdout=said, stderr=said, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def ready(home: Path, process: "subprocess.Popen[bytes]") -> Client:
    client = Client(home)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            client.get("/healthz")
            return client
        except DaemonUnreachable:
            assert process.poll() is None, (home.parent / "said").read_text()
            time.sleep(0.02)
    raise AssertionError("no daemon within 30 s")


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def kinds(home: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in export_lines(home)]


def prompt(client: Client) -> str:
    found = client.post("/cognition/render", {"message": "hello"})
    return str(found["prompt"])


def test_a_first_start_makes_the_key_says_where_and_signs(start: Start, home: Path, folder: KeyFolder) -> None:
    process = start()
    with ready(home, process) as client:
        assert "Never execute shell commands without reflection" in prompt(client)
        assert client.get("/status")["degraded"] == []
    stop(process)
    said = (home.parent / "said").read_text()
    assert f"private_key={folder.private}" in said
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.private, home / "identity")] == [0o600, 0o700]
    assert kinds(home) == ["identity.key_made", "identity.signed"]
    second = start()
    ready(home, second).close()
    stop(second)
    assert "identity_key_made" not in (home.parent / "said").read_text()
    assert verify_home(home).rows == 2


def test_what_the_owner_signed_is_in_force(start: Start, home: Path, folder: KeyFolder) -> None:
    process = start()
    ready(home, process).close()
    stop(process)
    fresh = home.parent / "fresh.toml"
    fresh.write_bytes(identity_bytes(shipped_identity()).replace(b"1.0.0", b"1.1.0").replace(b"curiosity", b"patience"))
    audit = open_audit(home, SystemClock())
    sign_file(home, folder, audit, fresh)
    audit.close()
    process = start()
    with ready(home, process) as client:
        assert "patience" in prompt(client)
        assert "curiosity" not in prompt(client)


def test_a_changed_identity_stops_the_start_and_says_how_to_restore(start: Start, home: Path) -> None:
    process = start()
    ready(home, process).close()
    stop(process)
    file = home / "identity" / "identity.toml"
    file.write_text(file.read_text().replace("Never execute", "Always execute"))
    assert start().wait(30) == 2
    said = (home.parent / "said").read_text()
    assert f"gaiad: identity not trusted: {file} was changed since it was signed" in said
    assert "`gaiad identity init` puts back the identity that was signed last" in said
    assert "Traceback" not in said
    assert kinds(home)[-1] == "identity.refused"


@pytest.mark.parametrize("moment_s", [0.3, 0.5, 0.7, 0.9])
def test_a_kill_at_any_moment_of_the_first_start_leaves_a_home_that_starts(
    start: Start, home: Path, folder: KeyFolder, moment_s: float
) -> None:
    process = start()
    time.sleep(moment_s)
    process.kill()
    process.wait()
    again = start()
    ready(home, again).close()
    stop(again)
    assert verify_home(home).ok
    assert kinds(home)[-1] in ("identity.signed", "identity.accepted")


def test_an_audit_whose_end_is_lost_is_told_in_the_status(start: Start, home: Path) -> None:
    audit = open_audit(home, SystemClock())
    for number in range(3):
        audit.append_now("council.vote", "lite", {"n": number})
    audit.close()
    (home / "state.db").unlink()
    process = start()
    with ready(home, process) as client:
        assert any("row 3 was noted as its last" in word for word in client.get("/status")["degraded"])
