"""What could not be read as a packet: kept with its bytes, the line and the reason, until it is repaired.

A row counts as resolved once the same path, or the same bytes, were accepted; the row itself stays.
"""

import sqlite3
import zlib
from typing import Any

from gaiad.base.clock import from_epoch_ms, to_iso
from gaiad.base.errors import NotFound

_COLUMNS = "id, path, sha256, size, reason, line, at_ms, body IS NOT NULL"


def put(
    connection: sqlite3.Connection,
    path: str,
    sha256: str,
    body: bytes | None,
    size: int,
    reason: str,
    line: int,
    at: int,
) -> bool:
    """Keep the file's zlib bytes (None when over the limit) with the reason; `at` is in UTC milliseconds.

    True when no such row was open before.
    """
    known = connection.execute(
        "SELECT resolved FROM quarantine WHERE path = ? AND sha256 = ?", (path, sha256)
    ).fetchone()
    connection.execute(
        "INSERT INTO quarantine (path, sha256, size, reason, line, at_ms, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path, sha256) DO UPDATE SET reason = excluded.reason, line = excluded.line,"
        " at_ms = excluded.at_ms, size = excluded.size, body = coalesce(excluded.body, body), resolved = 0",
        (path, sha256, size, reason, line, at, body),
    )
    return known is None or bool(known[0])


def resolve(connection: sqlite3.Connection, path: str, sha256: str) -> int:
    """Mark what was kept of this path or of these bytes as resolved; how many rows that were open."""
    rows = connection.execute(
        "SELECT id FROM quarantine WHERE resolved = 0 AND (path = ? OR (sha256 = ? AND sha256 <> ''))", (path, sha256)
    ).fetchall()
    if rows:
        connection.executemany("UPDATE quarantine SET resolved = 1 WHERE id = ?", rows)
    return len(rows)


def newest(connection: sqlite3.Connection, limit: int) -> list[dict[str, Any]]:
    """The unresolved rows, newest first: id, path, sha256, size (bytes), reason, line (0 when unknown), at, kept."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM quarantine WHERE resolved = 0 ORDER BY at_ms DESC, id DESC LIMIT ?", (limit,)
    )
    return [_row(*row) for row in rows]


def show(connection: sqlite3.Connection, number: int) -> tuple[dict[str, Any], bytes | None]:
    """An unresolved row and its bytes, None when they were not kept. Raises NotFound."""
    row = connection.execute(
        f"SELECT {_COLUMNS}, body FROM quarantine WHERE id = ? AND resolved = 0", (number,)
    ).fetchone()
    if row is None:
        raise NotFound(f"no file in quarantine has number {number}; `gaiad quarantine list` shows them")
    return _row(*row[:-1]), None if row[-1] is None else zlib.decompress(row[-1])


def drop(connection: sqlite3.Connection, number: int) -> None:
    """Delete an unresolved row and its bytes. Raises NotFound."""
    show(connection, number)
    connection.execute("DELETE FROM quarantine WHERE id = ?", (number,))


def _row(
    number: int, path: str, sha256: str, size: int, reason: str, line: int, at_ms: int, kept: int
) -> dict[str, Any]:
    return {
        "id": number,
        "path": path,
        "sha256": sha256,
        "size": size,
        "reason": reason,
        "line": line,
        "at": to_iso(from_epoch_ms(at_ms)),
        "kept": bool(kept),
    }


def open_count(connection: sqlite3.Connection) -> int:
    """How many rows are unresolved."""
    return int(connection.execute("SELECT count(*) FROM quarantine WHERE resolved = 0").fetchone()[0])


def kept_ids(connection: sqlite3.Connection) -> list[int]:
    """Rowids of unresolved rows whose bytes are here, oldest first."""
    rows = connection.execute("SELECT id FROM quarantine WHERE resolved = 0 AND body IS NOT NULL ORDER BY id")
    return [int(row[0]) for row in rows]


def kept(connection: sqlite3.Connection, rowid: int) -> tuple[str, bytes, int]:
    """(path, zlib bytes, UTC milliseconds of its arrival) of such a row."""
    path, body, at_ms = connection.execute("SELECT path, body, at_ms FROM quarantine WHERE id = ?", (rowid,)).fetchone()
    return str(path), bytes(body), int(at_ms)
