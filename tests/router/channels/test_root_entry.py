"""The program that loses root before a sandbox is made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import router.channels.root_entry as root_entry

PROGRAM = [sys.executable, "-I", "-S", str(Path(root_entry.__file__))]


def entered(work, *command):
    return subprocess.run([*PROGRAM, "64823", str(work), "/tmp", *command], capture_output=True, text=True, timeout=60)


def test_what_cannot_be_entered_is_said_and_nothing_is_run(tmp_path):
    found = entered(tmp_path / "missing", "/usr/bin/touch", str(tmp_path / "ran"))
    assert found.returncode == 1
    assert found.stderr.startswith("the sandbox cannot be entered without root's rights: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_root_is_another_user_then_without_rights_or_a_way_back_and_finds_the_work_directory(tmp_path):
    (tmp_path / "file").touch()
    os.chown(tmp_path, 64823, 64823)
    found = entered(tmp_path, "/bin/sh", "-c", "id -u; id -G; ls /tmp; grep -E 'CapEff|NoNewPrivs' /proc/self/status")
    assert found.stdout.split() == ["64823", "64823", "file", "CapEff:", "0" * 16, "NoNewPrivs:", "1"], found.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make mounts")
def test_what_it_mounts_is_seen_by_nobody_else(tmp_path):
    before = Path("/proc/self/mounts").read_text()
    assert entered(tmp_path, "/bin/true").returncode == 0
    assert Path("/proc/self/mounts").read_text() == before
