"""What is known of files by path, so that a rescan of a folder reads only what is new or changed."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gaiad.archive.reading.derive import DERIVED_VERSION
from gaiad.archive.reading.disk import Stamp
from gaiad.store.chunks import chunks, marks


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The last judgement on a path."""

    stamp: Stamp
    sha256: str
    outcome: str
    packet_id: str
    reason: str
    current: bool

    def holds(self, stamp: Stamp) -> bool:
        """Whether a file that looks like `stamp` now needs no second look."""
        return self.current and self.stamp == stamp


def load(connection: sqlite3.Connection, paths: Sequence[str]) -> dict[str, KnownFile]:
    """The rows of those of `paths` that are known."""
    found: dict[str, KnownFile] = {}
    for chunk in chunks(paths):
        rows = connection.execute(
            "SELECT path, size, modified_ns, changed_ns, sha256, outcome, packet_id, reason, derived_version FROM files"
            f" WHERE path IN ({marks(chunk)})",
            chunk,
        )
        for path, size, modified_ns, changed_ns, sha256, outcome, packet_id, reason, version in rows:
            stamp = Stamp(size, modified_ns, changed_ns)
            found[path] = KnownFile(stamp, sha256, outcome, packet_id, reason, version == DERIVED_VERSION)
    return found


def remember(connection: sqlite3.Connection, rows: Iterable[tuple[str, Stamp, str, str, str, str]]) -> None:
    """Write down what became of files, in their packets' commit: (path, stamp, sha256, outcome, packet_id, reason)."""
    connection.executemany(
        "INSERT OR REPLACE INTO files (path, size, modified_ns, changed_ns, sha256, outcome, packet_id, reason,"
        " derived_version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (path, stamp.size, stamp.modified_ns, stamp.changed_ns, *judged, DERIVED_VERSION)
            for path, stamp, *judged in rows
        ],
    )


def forget(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Drop rows, so that the next scan reads these files again."""
    connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])


def without_packet(connection: sqlite3.Connection) -> list[str]:
    """Paths whose row says a packet was stored that is not there."""
    rows = connection.execute(
        "SELECT path FROM files WHERE outcome IN ('accepted', 'revised', 'duplicate')"
        " AND NOT EXISTS (SELECT 1 FROM packets WHERE packets.sha256 = files.sha256) ORDER BY path"
    )
    return [str(path) for (path,) in rows]
