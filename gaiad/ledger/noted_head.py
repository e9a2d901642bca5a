"""The audit chain's last row, noted in a file beside the database: what tells that the end of a chain was cut off.

Hashes alone cannot tell it, for a chain without its last rows is a chain. The note is written after a row is durable,
so it may be behind the chain after a crash, never ahead. It helps against a lost or an older database file; who may
write in the home can change both, so note the head yourself now and then (`gaiad audit verify --expect`).
"""

import os
import re
import threading
from pathlib import Path

from gaiad.errors import Conflict
from gaiad.ledger.chain import Head

_LINE = re.compile(r"([0-9]{20}) ([0-9a-f]{64})\n")


def read_noted_head(path: Path) -> Head | None:
    """The head in the file; None without one, or with an empty one, as a kill between making and writing leaves it.

    Raises Conflict when the file holds something else.
    """
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path}: cannot be read ({error.strerror}); mend it") from error
    if not text:
        return None
    found = _LINE.fullmatch(text)
    if found is None:
        raise Conflict(f"{path}: holds no head of an audit chain; the next start makes it anew once it is moved away")
    return Head(int(found[1]), found[2])


class NotedHead:
    """The file as its one writer holds it; for any thread. Raises OSError when it cannot be opened or written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._number = -1

    def note(self, head: Head) -> None:
        """Write down `head` unless a later one is noted. One write within a sector: it is whole or not there."""
        with self._lock:
            if head.number > self._number:
                os.pwrite(self._descriptor, f"{head.number:020d} {head.sha256}\n".encode("ascii"), 0)
                self._number = head.number

    def begin_anew(self, head: Head) -> None:
        """Write down `head` also when a later one is noted: another chain was put in the place of the old one."""
        with self._lock:
            self._number = -1
        self.note(head)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
