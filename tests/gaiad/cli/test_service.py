"""`gaiad service`: the files it writes, what it asks the service manager, and the log that rotates."""

import os
import plistlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gaiad.cli.main import program
from gaiad.cli.service import launchd_agent, systemd_unit

ROOT = Path(__file__).parents[3]
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of `systemctl` and `launchctl`, a line each; both are stand-ins that succeed."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in ("systemctl", "launchctl", "gaiad"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    log.touch()
    return log


def gaiad(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(program, ["service", *arguments])
    return done.exit_code, done.output + getattr(done.exception, "message", "")


def test_on_linux_units_are_written_that_systemd_accepts(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert gaiad("status") == (1, "not installed\n")
    code, told = gaiad("install", "--home", str(tmp_path / "my home"))
    assert code == 0, told
    folder = tmp_path / ".config/systemd/user"
    unit, socket = (folder / "gaiad.service").read_text(), (folder / "gaiad.socket").read_text()
    assert f'ExecStart="{tmp_path}/bin/gaiad" "serve" "--home" "{tmp_path}/my home"' in unit
    assert f"ListenStream={tmp_path}/my home/gaiad.sock" in socket
    assert "WatchdogSec=30" in unit
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(folder / "gaiad.service"), str(folder / "gaiad.socket")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    assert calls.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now gaiad.socket gaiad.service",
    ]
    assert gaiad("status")[:2] == (0, "running\n")
    assert gaiad("remove")[0] == 0
    assert list(folder.iterdir()) == []
    assert "systemctl --user disable --now gaiad.socket gaiad.service" in calls.read_text()
    assert gaiad("remove")[0] == 1


def test_on_macos_an_agent_of_launchd_is_written(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    code, told = gaiad("install", "--home", str(tmp_path / "h"))
    assert code == 0, told
    path = tmp_path / "Library/LaunchAgents/org.gaiad.daemon.plist"
    agent = plistlib.loads(path.read_bytes())
    home = str(tmp_path / "h")
    assert agent["ProgramArguments"] == [
        f"{tmp_path}/bin/gaiad", "serve", "--home", home, "--log-file", f"{home}/daemon.log"
    ]  # fmt: skip
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert calls.read_text() == f"launchctl load -w {path}\n"
    assert gaiad("status")[0] == 0
    assert gaiad("remove")[0] == 0
    assert not path.exists()


def test_what_the_service_manager_refuses_is_told(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    systemctl = calls.parent / "bin/systemctl"
    systemctl.write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    code, told = gaiad("install")
    assert (code, "no bus" in told, "the files are written" in told) == (1, True, True)
    assert gaiad("status") == (1, "installed, not running\n")


def test_words_of_the_command_are_quoted_for_systemd() -> None:
    shipped = (ROOT / "systemd/gaiad.service").read_text()
    unit = systemd_unit(shipped, ["/a b/gaiad", "serve", "--home", '/x"%$y'], "").decode()
    assert 'ExecStart="/a b/gaiad" "serve" "--home" "/x\\"%%$$y"' in unit
    assert plistlib.loads(launchd_agent(["/a b/gaiad"]))["ProgramArguments"] == ["/a b/gaiad"]


def test_a_log_file_is_begun_again_when_it_is_full_and_takes_standard_error(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from gaiad.base.logs import RotatingLog
log = RotatingLog(Path(sys.argv[1]), most_bytes=1000, older=2)
for number in range(100):
    print(f"line {number:03} " + "x" * 40, file=log)
os.write(2, b"by a library\\n")
"""
    path = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert path.stat().st_mode & 0o777 == 0o600
    kept = [line for name in ("log.2", "log.1", "log") for line in (tmp_path / name).read_text().splitlines()]
    assert kept[-1] == "by a library"
    numbers = [int(line.split()[1]) for line in kept[:-1]]
    assert numbers == list(range(numbers[0], 100))
    assert all((tmp_path / name).stat().st_size < 1100 for name in ("log", "log.1", "log.2"))
