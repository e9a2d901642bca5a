"""Walks a watched folder, and looks at single files in it: regular files only, never through a link out of it.

Blocking; the watch calls it on a thread.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gaiad.intake.settle import Look

_PARTIAL_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")


@dataclass(frozen=True, slots=True)
class Folder:
    """A watched folder (absolute, links resolved), its tenant, and folders below it that are not its business."""

    root: Path
    tenant: str
    without: frozenset[Path] = frozenset()

    def covers(self, path: Path) -> bool:
        """Whether `path` is for this folder to read: not hidden, not a partial download, not in another's folder."""
        try:
            inner = path.relative_to(self.root)
        except ValueError:
            return False
        return not any(is_passed_over(part) for part in inner.parts) and self.without.isdisjoint(path.parents)


@dataclass(frozen=True, slots=True)
class Refused:
    """Something in the folder that is not read, and why; `file` is false for what a whole directory is about."""

    path: Path
    reason: str
    file: bool = True


def shown(path: Path) -> str:
    """`path` as text that can be printed and sent: bytes that are no UTF-8 are written out."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def is_passed_over(name: str) -> bool:
    """Hidden files, and the names programs give to what they have not finished."""
    return name.startswith(".") or name.endswith(_PARTIAL_SUFFIXES)


def look_at(path: Path, folder: Folder) -> Look | Refused | None:
    """What `path` is now; None when it has gone, or is a link to what the folder holds anyway."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return _refuse_link(path, folder)
        if not Path(os.path.realpath(path.parent)).is_relative_to(folder.root):
            return Refused(path, "lies behind a link out of the watched folder; it is not followed")
    except OSError as error:
        return None if isinstance(error, FileNotFoundError | NotADirectoryError) else Refused(path, str(error))
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return Refused(path, "is not a regular file")
    return Look(status.st_size, status.st_mtime_ns, status.st_ino)


def _refuse_link(path: Path, folder: Folder) -> Refused | None:
    if Path(os.path.realpath(path)).is_relative_to(folder.root):
        return None
    return Refused(path, "is a link out of the watched folder; it is not followed")


def walk(folder: Folder) -> Iterator[tuple[Path, Look] | Refused]:
    """Every file below the folder in order of names, directory by directory, and what could not be read."""
    waiting = [folder.root]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            if directory == folder.root or not isinstance(error, FileNotFoundError):
                yield Refused(directory, f"cannot be read: {error.strerror}", file=False)
            continue
        below = []
        for name, is_directory in names:
            path = directory / name
            if is_passed_over(name):
                continue
            if is_directory:
                below += [] if path in folder.without else [path]
            elif isinstance(found := look_at(path, folder), Refused):
                yield found
            elif found is not None:
                yield path, found
        waiting += reversed(below)
