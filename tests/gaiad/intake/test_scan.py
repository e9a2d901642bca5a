"""The walk through a watched folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gaiad.intake.folder_events import Folder, ObservedFile, RefusedEntry, look_at, walk
from tests.makers.opened_up import open_up


def test_links_inside_the_folder_are_not_read_twice(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "a.xml").write_text("<a/>")
    (root / "again.xml").symlink_to(root / "a.xml")
    found = list(walk(Folder(root, "local")))
    assert [entry[0].name for entry in found if not isinstance(entry, RefusedEntry)] == ["a.xml"]
    assert not [entry for entry in found if isinstance(entry, RefusedEntry)]


def test_a_file_reached_through_a_link_out_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path.resolve() / "root", tmp_path.resolve() / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.xml").write_text("<a/>")
    (root / "below").symlink_to(outside)
    folder = Folder(root, "local")
    assert isinstance(look_at(root / "below" / "a.xml", folder), RefusedEntry)
    assert look_at(root / "gone.xml", folder) is None
    (root / "b.xml").write_text("<b/>")
    assert isinstance(look_at(root / "b.xml", folder), ObservedFile)


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    found = list(walk(Folder(tmp_path / "none", "local")))
    assert [(entry.path, entry.file) for entry in found if isinstance(entry, RefusedEntry)] == [
        (tmp_path / "none", False)
    ]


@pytest.mark.skipif(os.getuid() == 0 and not Path("/usr/bin/setpriv").exists(), reason="root reads everything")
def test_a_directory_that_may_not_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "a.xml").write_text("<a/>")
    (root / "secret").mkdir()
    (root / "secret").chmod(0)
    script = (
        "import sys; from pathlib import Path; from gaiad.intake.folder_events import *\n"
        "for f in walk(Folder(Path(sys.argv[1]), 'local')):\n"
        "    print(f.reason if isinstance(f, RefusedEntry) else f[0].name)\n"
    )
    open_up(root)
    dropped = ["setpriv", "--reuid=4242", "--clear-groups"] if os.getuid() == 0 else []
    child = subprocess.run(
        [*dropped, sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False
    )
    (root / "secret").chmod(0o700)
    if "Permission denied" in child.stderr or "No module named" in child.stderr:
        pytest.skip("another user cannot read this interpreter or checkout")
    assert child.stdout.splitlines() == ["a.xml", "cannot be read: Permission denied"]
