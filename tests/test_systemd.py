"""The shipped units: systemd accepts both, and they say what the daemon relies on."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parent.parent / "systemd"


def verify(folder: Path, runtime: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: units not verified")
    return subprocess.run(
        ["systemd-analyze", "verify", "--user", str(folder / "gaiad.service"), str(folder / "gaiad.socket")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_systemd_accepts_both_units(tmp_path: Path) -> None:
    result = verify(UNITS, tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_systemd_would_name_a_misspelt_setting(tmp_path: Path) -> None:
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("RestrictRealtime=", "RestrictRealTime=")
        (tmp_path / unit.name).write_text(text)
    assert "RestrictRealTime" in verify(tmp_path, tmp_path).stderr


def read(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNITS / name)
    return unit


def test_the_service_is_watched_and_restarted_but_not_over_a_wrong_setting() -> None:
    service = read("gaiad.service")["Service"]
    assert service["Type"] == "notify"
    assert service["WatchdogSec"] == "30"
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"
    assert service["ExecStart"].endswith("gaiad serve")
    assert "-HUP" in service["ExecReload"]


@pytest.mark.parametrize("breaking", ["MemoryDenyWriteExecute", "RestrictNamespaces", "ProtectHome", "PrivateUsers"])
def test_what_would_break_callbacks_sandbox_or_folders_is_off_and_explained(breaking: str) -> None:
    text = (UNITS / "gaiad.service").read_text()
    assert breaking not in read("gaiad.service")["Service"]
    assert f"#   {breaking}" in text or f" {breaking} " in text


def test_the_socket_is_the_owners_alone() -> None:
    socket = read("gaiad.socket")["Socket"]
    assert socket["ListenStream"] == "%t/gaiad/gaiad.sock"
    assert socket["SocketMode"] == "0600"
    assert socket["DirectoryMode"] == "0700"
