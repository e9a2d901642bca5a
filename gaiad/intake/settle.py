"""Which files are whole: a file is read once it has been quiet for a while, so that nobody's half-written packet is.

Pure: it is told what happened, what a look at the file showed, and the time; it says which files to look at, and which
to read.

    moved in      whole at once: the writer wrote elsewhere and renamed
    closed        quiet for the settle time after the writer closed it
    written       still open for writing: only after much longer, for a writer that never closes
    seen          found by a scan or made by a link: quiet, and two looks a settle time apart show the same
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

OPEN_FILE_PATIENCE = 20


class Sign(Enum):
    """What was heard about a file."""

    MOVED_IN = "moved in"
    CLOSED = "closed"
    WRITTEN = "written"
    SEEN = "seen"


class Look(NamedTuple):
    """What a look at a file shows: bytes, modification time in ns, inode."""

    size: int
    modified_ns: int
    inode: int


class _Waiting(NamedTuple):
    due: float
    sign: Sign
    look: Look | None


class Settling:
    """Files that wait to be read. Times are monotonic seconds; at most `capacity` files are remembered."""

    def __init__(self, settle_s: float, capacity: int) -> None:
        self._settle_s = settle_s
        self._capacity = capacity
        self._files: dict[Path, _Waiting] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._files

    def __len__(self) -> int:
        return len(self._files)

    def hear(self, path: Path, sign: Sign, now: float, look: Look | None = None) -> bool:
        """Note that something happened to `path`; false when there is no room (a later scan will find it)."""
        if path not in self._files and len(self._files) >= self._capacity:
            return False
        self._files.pop(path, None)  # what was heard last stands last
        self._files[path] = _Waiting(now + self._quiet_s(sign), sign, look)
        return True

    def next_due(self) -> float | None:
        """When to look again."""
        return min((waiting.due for waiting in self._files.values()), default=None)

    def quiet(self, now: float, limit: int) -> list[Path]:
        """At most `limit` files that have been quiet long enough to look at."""
        due = (path for path, waiting in self._files.items() if waiting.due <= now)
        return [path for path, _ in zip(due, range(limit), strict=False)]

    def settle(self, looks: Mapping[Path, Look | None], now: float) -> list[Path]:
        """Of the files looked at, those that are whole; they are forgotten here, and so are those that have gone."""
        whole = []
        for path, look in looks.items():
            waiting = self._files.get(path)
            if waiting is None or waiting.due > now:
                continue
            if look is None:
                del self._files[path]
            elif waiting.sign in (Sign.MOVED_IN, Sign.CLOSED) or waiting.look == look:
                del self._files[path]
                whole.append(path)
            else:
                self._files[path] = _Waiting(now + self._quiet_s(waiting.sign), waiting.sign, look)
        return whole

    def _quiet_s(self, sign: Sign) -> float:
        if sign is Sign.MOVED_IN:
            return 0.0
        return self._settle_s * (OPEN_FILE_PATIENCE if sign is Sign.WRITTEN else 1)
