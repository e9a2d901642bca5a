"""Holds packets against their stored originals: the hash, the pages with their spans, the integrity verdict."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from gaiad.archive.reading.derive import Derived, derive, same_pages, sha256_hex
from gaiad.archive.storing.records import expand
from gaiad.base.config import Config
from gaiad.base.errors import NotFound, PacketRejected
from gaiad.store.file import DatabaseFile
from gaiad.wire.schemas import VerifyReport


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


Progress = Callable[[int, int], None]


def verify(
    file: DatabaseFile,
    packet_ids: Sequence[str] | None,
    config: Config,
    zone: tzinfo,
    check: Callable[[], None],
    progress: Progress | None,
) -> VerifyReport:
    """Every revision of the packets, or of all. `check` raises when the caller went away. Raises NotFound."""
    rowids = file.read(lambda connection: row_ids(connection, packet_ids))
    problems: list[str] = []
    sound = 0
    for number, rowid in enumerate(rowids, start=1):
        check()
        found = verify_one(file, rowid, config, zone)
        sound += not found
        problems += found
        if progress is not None:
            progress(number, len(rowids))
    return VerifyReport(checked=len(rowids), ok=sound, problems=problems)


def verify_one(file: DatabaseFile, rowid: int, config: Config, zone: tzinfo) -> list[str]:
    """What is wrong with one stored revision; empty when nothing is."""
    try:
        original = file.read(lambda connection: load(connection, rowid))
        data = intact_bytes(original)
        derived = derive(data, original.source, original.modified_ms, config.packets, config.archive, zone)
    except ValueError as error:
        return [str(error)]
    except PacketRejected as error:
        return [f"{original.label}: its original can no longer be read as a packet ({error.message})"]
    return file.read(lambda connection: _differences(connection, original, derived))


def intact_bytes(original: Original) -> bytes:
    """The original's bytes, checked against their hash. Raises ValueError naming packet and remedy."""
    try:
        data = original.data()
    except ValueError as error:
        raise ValueError(f"{original.label}: {error}; restore the last backup (gaiad restore DIR)") from error
    actual = sha256_hex(data)
    if actual != original.sha256:
        raise ValueError(
            f"{original.label}: its original has SHA-256 {actual}, {original.sha256} was stored;"
            " restore the last backup (gaiad restore DIR)"
        )
    return data


def _differences(connection: sqlite3.Connection, original: Original, derived: Derived) -> list[str]:
    packet_id, verdict = connection.execute(
        "SELECT packet_id, verdict FROM packets WHERE id = ?", (original.rowid,)
    ).fetchone()
    stored = connection.execute(
        "SELECT section, text, start, end FROM pages WHERE packet = ? ORDER BY sequence", (original.rowid,)
    ).fetchall()
    found = []
    if packet_id != derived.packet.packet_id:
        found.append(f"{original.label}: its original now reads as packet {derived.packet.packet_id}")
    if verdict != derived.packet.verdict:
        found.append(f"{original.label}: integrity is stored as {verdict}, its original says {derived.packet.verdict}")
    different = same_pages(stored, derived.pages)
    if different:
        found.append(
            f"{original.label}: {len(different)} of {len(stored)} pages differ from the original,"
            f" the first is number {different[0]}"
        )
    return [f"{problem}; run gaiad reindex" for problem in found]
