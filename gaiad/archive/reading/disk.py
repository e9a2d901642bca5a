"""Reads files that others write: whole or not at all, never a pipe or device, never through a link out of a folder.

Everything is judged on the open descriptor, so nothing changes between the look and the read.
"""

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

_PAUSE_S = 0.05
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells one state of a file from another without reading it. Times are nanoseconds."""

    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class FileBytes:
    """A file read whole, as it was at `stamp`."""

    data: bytes
    stamp: FileStamp


class NotTaken(Exception):
    """The file is not one to read; `stamp` is None when it was not opened."""

    def __init__(self, reason: str, stamp: FileStamp | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.stamp = stamp


class FileTooLarge(NotTaken):
    """Over the size limit; its bytes were not read."""


class StillBeingWritten(NotTaken):
    """It changed while it was read, twice."""


def path_text(path: Path | str) -> str:
    """The path as valid Unicode: bytes that are not UTF-8 appear as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def stamp_of(path: Path) -> FileStamp | None:
    """The stamp of a regular file (links followed), or None for anything else, or when it is gone."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return FileStamp.of(status) if stat.S_ISREG(status.st_mode) else None


def read_file(path: Path, max_bytes: int, root: Path | None = None) -> FileBytes:
    """The file's bytes. With `root`, a link that leads out of that folder is not followed.

    Raises NotTaken, FileTooLarge or StillBeingWritten with the reason, and OSError when it cannot be opened or read.
    """
    for attempt in (0, 1):
        if attempt:
            time.sleep(_PAUSE_S)
        found = _read_once(path, max_bytes, root)
        if found is not None:
            return found
    raise StillBeingWritten("still being written; gaiad reads it once it stops changing")


def _read_once(path: Path, max_bytes: int, root: Path | None) -> FileBytes | None:
    """The bytes, or None when the file changed under the reading."""
    descriptor = os.open(path, _FLAGS)
    try:
        before = os.fstat(descriptor)
        stamp = FileStamp.of(before)
        if not stat.S_ISREG(before.st_mode):
            raise NotTaken(f"not a regular file: {_KINDS.get(stat.S_IFMT(before.st_mode), 'of an unknown kind')}")
        if root is not None:
            _refuse_outside(descriptor, path, root, stamp)
        if before.st_size > max_bytes:
            raise FileTooLarge(f"{before.st_size} bytes, the limit is {max_bytes} (packets.max_bytes)", stamp)
        data = _read_all(descriptor, before.st_size)
        unchanged = FileStamp.of(os.fstat(descriptor)) == stamp and len(data) == before.st_size
        return FileBytes(data, stamp) if unchanged else None
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int) -> bytes:
    """Up to `size` + 1 bytes: one more than expected shows that the file grew."""
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    pieces, missing = [data], size + 1 - len(data)
    while missing > 0 and (piece := os.read(descriptor, missing)):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _refuse_outside(descriptor: int, path: Path, root: Path, stamp: FileStamp) -> None:
    try:
        real = Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:  # no /proc on this system
        real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise NotTaken(f"a link that leads out of the watched folder, to {path_text(real)}", stamp)
