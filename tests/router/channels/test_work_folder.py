"""The work directory of a session: what a revert puts back, whatever a command left behind."""

import os

import pytest

from gaiad.base.config import load_config
from gaiad.base.errors import Unavailable
from router.channels.sandbox import shell_limits
from router.channels.work_folder import WorkFolder


@pytest.fixture
def limits():
    return shell_limits(load_config(environment={}, assignments=["shell.work_mib=1"]).shell)


@pytest.fixture
def folder(tmp_path):
    return WorkFolder(tmp_path / "work", "local", "a/../../b \x00")


def fill(place):
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "file").write_text("as it was")
    (place / "tool").write_text("#!/bin/sh\n")
    (place / "tool").chmod(0o755)
    (place / "link").symlink_to("/etc/passwd")


def look(place):
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in place.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_a_sessions_folder_stays_below_the_tenants_whatever_it_is_called(folder, tmp_path, limits):
    work = folder.prepare("1", limits)
    assert work.is_relative_to(tmp_path / "work" / "local")
    assert ".." not in work.parts
    assert work.stat().st_mode & 0o777 == 0o700
    assert WorkFolder(tmp_path / "work", "local", "other").path != work


def test_a_revert_puts_everything_back(folder, limits):
    work = folder.prepare("1", limits)
    fill(work)
    before = look(work)
    folder.prepare("2", limits)
    (work / "deep" / "er" / "file").write_text("changed")
    (work / "tool").unlink()
    (work / "new").write_text("x")
    assert folder.revert("2")
    assert look(work) == before
    assert (work / "tool").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in work.parent.iterdir()] == ["now"]


def test_what_a_hostile_command_leaves_does_not_hinder_a_revert(folder, limits):
    work = folder.prepare("1", limits)
    (work / "kept").write_text("x")
    folder.prepare("2", limits)
    os.mkfifo(work / "pipe")
    here = work
    for _ in range(150):
        here = here / "down"
        here.mkdir()
    (work / "down" / "down").chmod(0)
    work.chmod(0o500)
    assert folder.revert("2")
    assert look(work) == {"kept": "x"}
    assert [path.name for path in work.parent.iterdir()] == ["now"]


def test_a_folder_that_was_removed_or_replaced_by_a_link_is_put_back(folder, limits, tmp_path):
    work = folder.prepare("1", limits)
    (work / "kept").write_text("x")
    folder.prepare("2", limits)
    (work / "kept").unlink()
    work.rmdir()
    work.symlink_to(tmp_path)
    assert folder.revert("2")
    assert not work.is_symlink()
    assert look(work) == {"kept": "x"}


def test_after_it_is_kept_there_is_nothing_to_go_back_to(folder, limits):
    work = folder.prepare("1", limits)
    (work / "done").write_text("x")
    folder.keep("1")
    assert not folder.revert("1")
    assert look(work) == {"done": "x"}


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda work: (work / "big").write_bytes(b"x" * 2_000_000), "shell.work_mib"),
        (lambda work: (work / "/".join(["d"] * 70)).mkdir(parents=True), "deep"),
    ],
    ids=["large", "deep"],
)
def test_a_folder_that_cannot_be_copied_lets_nothing_run(folder, limits, make, word):
    make(folder.prepare("1", limits))
    with pytest.raises(Unavailable, match=word):
        folder.prepare("2", limits)
    assert not folder.before("2").exists()
