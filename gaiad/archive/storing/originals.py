"""The stored originals one at a time, with what is needed to derive everything from them again."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from gaiad.archive.storing.records import expand
from gaiad.errors import NotFound


@dataclass(frozen=True, slots=True)
class Original:
    """One revision's bytes, still compressed, and the name and file time (UTC milliseconds) they came with."""

    rowid: int
    packet_id: str
    revision: int
    sha256: str
    source: str
    modified_ms: int
    codec: str
    body: bytes

    @property
    def label(self) -> str:
        return f"packet {self.packet_id} revision {self.revision}"

    def data(self) -> bytes:
        """The bytes as they came. Raises ValueError when they cannot be restored."""
        return expand(self.codec, self.body)


def row_ids(connection: sqlite3.Connection, packet_ids: Sequence[str] | None) -> list[int]:
    """Rowids of every revision of the packets (None: of all), oldest first. Raises NotFound for an unknown id."""
    if packet_ids is None:
        return [row[0] for row in connection.execute("SELECT id FROM packets ORDER BY id")]
    found: list[int] = []
    for packet_id in packet_ids:
        rows = connection.execute("SELECT id FROM packets WHERE packet_id = ? ORDER BY id", (packet_id,)).fetchall()
        if not rows:
            raise NotFound(f"no packet {packet_id!r} in this tenant; `gaiad packets list` shows what there is")
        found += [row[0] for row in rows]
    return found


def load(connection: sqlite3.Connection, rowid: int) -> Original:
    """The original of one revision. Raises ValueError when the packet has none: the file was damaged from outside."""
    row = connection.execute(
        "SELECT p.id, p.packet_id, p.revision, p.sha256, p.source, p.modified_ms, o.codec, o.body"
        " FROM packets p LEFT JOIN originals o ON o.packet = p.id WHERE p.id = ?",
        (rowid,),
    ).fetchone()
    if row is None or row[7] is None:
        raise ValueError(f"packet row {rowid}: its original is missing; restore the last backup (gaiad restore DIR)")
    return Original(*row)
