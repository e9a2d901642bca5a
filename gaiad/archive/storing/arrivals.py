"""The reading half of ingest: one file or document becomes an arrival, judged but not yet stored.

Nothing is written here, and one bad file is an arrival like any other: it ends in quarantine or as failed, with the
reason.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Literal

from gaiad.archive.reading.derive import DERIVED_VERSION, Derived, derive, sha256_hex
from gaiad.archive.reading.disk import (
    FileBytes,
    FileStamp,
    FileTooLarge,
    NotTaken,
    StillBeingWritten,
    path_text,
    read_file,
    stamp_of,
)
from gaiad.archive.reading.reader import ignored_reason
from gaiad.archive.storing.records import compress, find_by_hash
from gaiad.base.config import Config
from gaiad.base.errors import PacketRejected
from gaiad.base.logs import get_logger
from gaiad.store.database import chunks, marks

_log = get_logger("gaiad.archive")
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000  # years 1 to 9999
_UNREAD_SIZE = -1

Judgement = Literal["readable", "known", "rejected", "ignored", "failed"]
FindByHash = Callable[[str], tuple[str, str, str] | None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file or document after reading. `stamp` is None for documents and for what could not be opened.

    `body` is the compressed original: set when readable, and when rejected unless over the size limit.
    """

    name: str
    judgement: Judgement
    stamp: FileStamp | None = None
    sha256: str = ""
    size: int = 0
    modified_ms: int = 0
    derived: Derived | None = None
    body: bytes | None = None
    reason: str = ""
    line: int = 0


class ArrivalReader:
    """Judges files and documents of one tenant; safe from any thread."""

    def __init__(self, config: Config, zone: tzinfo, find: FindByHash) -> None:
        self._config = config
        self._zone = zone
        self._find = find

    def file(self, path: Path, root: Path | None) -> Arrival:
        """Read and judge the file at `path`; with `root`, links out of that folder are ignored."""
        name = path_text(path)
        reason = ignored_reason(name)
        if reason:
            return Arrival(name, "ignored", stamp=stamp_of(path), reason=reason)
        try:
            found = read_file(path, self._config.packets.max_bytes, root)
        except FileTooLarge as error:
            size = error.stamp.size if error.stamp else _UNREAD_SIZE
            return Arrival(name, "rejected", stamp=error.stamp, size=size, reason=f"too large: {error.reason}")
        except StillBeingWritten as error:
            return Arrival(name, "failed", reason=error.reason)
        except NotTaken as error:
            return Arrival(name, "ignored", stamp=error.stamp, reason=error.reason)
        except FileNotFoundError:
            return Arrival(name, "failed", reason="the file is gone")
        except (OSError, ValueError) as error:
            return Arrival(name, "failed", reason=f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return self._judge(name, found, found.stamp.modified_ns // 1_000_000)

    def document(self, name: str, data: bytes, modified_ms: int) -> Arrival:
        """Judge a packet sent by value; `modified_ms` stands in for the file's time."""
        name = path_text(name)
        reason = ignored_reason(name)
        if reason:
            return Arrival(name, "ignored", reason=reason)
        limit = self._config.packets.max_bytes
        if len(data) > limit:
            reason = f"too large: {len(data)} bytes, the limit is {limit} (packets.max_bytes)"
            return Arrival(name, "rejected", size=len(data), reason=reason)
        return self._judge(name, FileBytes(data, FileStamp(len(data), 0, 0)), modified_ms, stamped=False)

    def _judge(self, name: str, found: FileBytes, modified_ms: int, *, stamped: bool = True) -> Arrival:
        modified_ms = min(max(modified_ms, _FIRST_MS), _LAST_MS)
        stamp = found.stamp if stamped else None
        sha256, size = sha256_hex(found.data), len(found.data)
        if self._find(sha256) is not None:
            return Arrival(name, "known", stamp, sha256, size, modified_ms)
        try:
            derived = derive(found.data, name, modified_ms, self._config.packets, self._config.archive, self._zone)
        except PacketRejected as error:
            body = compress(found.data)
            return Arrival(
                name,
                "rejected",
                stamp,
                sha256,
                size,
                modified_ms,
                body=body,
                reason=_clean(error.reason),
                line=error.line,
            )
        except Exception as error:  # noqa: BLE001 - a fault in a reader must not stop the other files; it is shown
            _log.error("reader_fault", path=name, error=repr(error), exc_info=error)
            return Arrival(name, "failed", reason=_clean(f"gaiad's reader failed on it: {error!r}"))
        return Arrival(name, "readable", stamp, sha256, size, modified_ms, derived=derived, body=compress(found.data))


def finder(
    read: Callable[[Callable[[sqlite3.Connection], tuple[str, str, str] | None]], tuple[str, str, str] | None],
) -> FindByHash:
    """`find_by_hash` over a database file's `read`."""
    return lambda sha256: read(lambda connection: find_by_hash(connection, sha256))


def _clean(text: str) -> str:
    """Text that can be stored: what is not valid Unicode is written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The last judgement on a path."""

    stamp: FileStamp
    sha256: str
    outcome: str
    packet_id: str
    reason: str
    current: bool

    def holds(self, stamp: FileStamp) -> bool:
        """Whether a file that looks like `stamp` now needs no second look."""
        return self.current and self.stamp == stamp


def changed(connection: sqlite3.Connection, paths: Sequence[Path]) -> list[Path]:
    """Those of `paths` that are regular files and do not look as they did when they were last judged."""
    known = load(connection, [path_text(path) for path in paths])
    stamps = ((path, stamp_of(path), known.get(path_text(path))) for path in paths)
    return [path for path, stamp, row in stamps if stamp is not None and (row is None or not row.holds(stamp))]


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
            stamp = FileStamp(size, modified_ns, changed_ns)
            found[path] = KnownFile(stamp, sha256, outcome, packet_id, reason, version == DERIVED_VERSION)
    return found


def remember(connection: sqlite3.Connection, rows: Iterable[tuple[str, FileStamp, str, str, str, str]]) -> None:
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


def remember_deleted(connection: sqlite3.Connection, packet_ids: Iterable[str]) -> None:
    """Note packets as deleted by the person, by a hash of their ids, so that no import brings them back by itself."""
    remember(connection, [(_deleted(name), FileStamp(0, 0, 0), "", "forgotten", "", "") for name in packet_ids])


def deleted(connection: sqlite3.Connection, packet_ids: Iterable[str]) -> set[str]:
    """Those of `packet_ids` that the person deleted."""
    names = {_deleted(name): name for name in packet_ids}
    return {names[path] for path in load(connection, list(names))}


def forget_deleted(connection: sqlite3.Connection, packet_ids: Iterable[str]) -> None:
    """They are here again."""
    forget(connection, map(_deleted, packet_ids))


def _deleted(packet_id: str) -> str:
    return f"packet:{sha256_hex(packet_id.encode())}"


def without_packet(connection: sqlite3.Connection) -> list[str]:
    """Paths whose row says a packet was stored that is not there."""
    rows = connection.execute(
        "SELECT path FROM files WHERE outcome IN ('accepted', 'revised', 'duplicate')"
        " AND NOT EXISTS (SELECT 1 FROM packets WHERE packets.sha256 = files.sha256) ORDER BY path"
    )
    return [str(path) for (path,) in rows]
