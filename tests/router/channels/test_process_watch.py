"""What a sandbox uses, measured on real processes and folders."""

import os
import subprocess
import sys
import time

import pytest

from router.channels.process_watch import folder_size, hand_over, memory_of, owner_of, processes_below

CHILDREN = """
import subprocess
children = [subprocess.Popen(["sleep", "20"]) for _ in range(5)]
print("up", flush=True)
children[0].wait()
"""


@pytest.fixture
def family():
    process = subprocess.Popen([sys.executable, "-c", CHILDREN], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    yield process.pid
    for pid in reversed(processes_below(process.pid, 99)):
        os.kill(pid, 9)
    process.wait()
    process.stdout.close()


def test_a_process_and_all_below_it_are_found_up_to_a_number(family):
    assert len(processes_below(family, 99)) == 6
    assert processes_below(family, 2)[0] == family
    assert len(processes_below(family, 2)) == 3


def test_memory_is_that_of_all_of_them_and_of_what_ended_none(family):
    everyone = processes_below(family, 99)
    assert memory_of([family]) > 1_000_000
    assert memory_of(everyone) > memory_of([family])
    assert memory_of([2**22 - 1]) == 0


def test_the_owner_is_told_until_it_has_ended(family):
    assert owner_of(family) == os.getuid()
    ended = subprocess.Popen(["true"])
    ended.wait()
    time.sleep(0.01)
    assert owner_of(ended.pid) is None


def test_a_folder_is_counted_until_a_limit_is_passed_and_no_link_is_followed(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/usr")
    found = folder_size(tmp_path, 10**9, 1000)
    assert (found.entries, found.depth) == (4, 2)
    assert 100_000 <= found.bytes < 200_000
    assert folder_size(tmp_path, 10**9, 2).entries == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_is_given_away_but_for_files_with_another_name(tmp_path):
    (tmp_path / "w" / "in").mkdir(parents=True)
    (tmp_path / "w" / "in" / "file").touch()
    (tmp_path / "outside").touch()
    (tmp_path / "w" / "hard").hardlink_to(tmp_path / "outside")
    (tmp_path / "w" / "soft").symlink_to(tmp_path / "outside")
    hand_over(tmp_path / "w", 64823)
    owners = {path.name: path.lstat().st_uid for path in tmp_path.rglob("*")}
    assert owners == {"w": 64823, "in": 64823, "file": 64823, "soft": 64823, "hard": 0, "outside": 0}
