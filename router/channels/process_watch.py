"""What a sandbox uses right now, read from /proc: its processes, their memory, the size of its folder.

Limits of one process do not bound a sandbox: a hundred small processes are as large as one large one. It is looked at
now and then, so the number of processes is also held by the kernel. Blocks; for the thread that waits for the command.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


class FolderSize(NamedTuple):
    """Of all that is in a folder, as far as it was counted: bytes on disk, files and folders, folders in folders."""

    bytes: int
    entries: int
    depth: int


def processes_below(pid: int, most: int) -> list[int]:
    """`pid` and its descendants, no more than `most` + 1 of them."""
    found, waiting = [pid], [pid]
    while waiting and len(found) <= most:
        for child in _children(waiting.pop()):
            found.append(child)
            waiting.append(child)
    return found[: most + 1]


def owner_of(pid: int) -> int | None:
    """The user that a process runs as, seen from here; None when it has ended."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def memory_of(pids: list[int]) -> int:
    """Bytes, what they share counted once (each its share)."""
    return sum(_memory(pid) for pid in pids)


def files_in(pid: int, folders: Sequence[str]) -> int:
    """How many files and folders there are in these file systems of a process, together; 0 for what cannot be seen.

    Of a file system in memory the kernel bounds the bytes, but not the memory that empty files take.
    """
    root, found = Path(f"/proc/{pid}/root"), 0
    with contextlib.suppress(OSError):
        if root.stat().st_dev == Path("/").stat().st_dev:  # its own view is not made yet
            return 0
    for folder in folders:
        with contextlib.suppress(OSError):
            if Path(f"{root}{folder}").stat().st_dev != root.stat().st_dev:
                system = os.statvfs(f"{root}{folder}")
                found += system.f_files - system.f_ffree
    return found


def folder_size(folder: Path, most_bytes: int, most_entries: int) -> FolderSize:
    """Counted until one of the two is passed. What vanishes meanwhile or cannot be opened counts as it was seen."""
    total, entries, deepest = 0, 0, 0
    waiting = [(str(folder), 0)]
    while waiting and total <= most_bytes and entries <= most_entries:
        place, depth = waiting.pop()
        deepest = max(deepest, depth)
        for entry, status in _entries(place):
            entries += 1
            total += status.st_blocks * 512
            if stat.S_ISDIR(status.st_mode):
                waiting.append((entry, depth + 1))
            if entries > most_entries:
                break
    return FolderSize(total, entries, deepest)


def hand_over(folder: Path, user: int) -> None:
    """Give a folder and what is in it to a user; files with another name elsewhere, and what is gone, are left out."""
    waiting = [str(folder)]
    os.lchown(folder, user, user)
    while waiting:
        for entry, status in _entries(waiting.pop()):
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry)
            elif status.st_nlink > 1:
                continue
            if status.st_uid != user:
                os.lchown(entry, user, user)


def _entries(place: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(place) as found:
            for entry in found:
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
    except OSError:
        return


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_bytes().split())
    except OSError:
        pass  # it ended meanwhile
    return found


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # ended, or it does not let itself be looked at: then what it says of itself
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
