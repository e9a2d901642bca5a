"""Writes a packet's rows; runs on the writer's connection, inside its transaction.

The originals are only ever added to. Which revision of a packet is current, and so which pages are searched, is
settled here and nowhere else.
"""

import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from unicodedata import combining, normalize

from gaiad.archive.reading.derive import DERIVED_VERSION, Derived, decode_canonical, page_id
from gaiad.archive.reading.known_dialects import SESSION_TURN
from gaiad.archive.reading.packet import Packet, PageDraft
from gaiad.base.clock import to_epoch_ms
from gaiad.base.text import fold

IndexedRow = tuple[int, str, str, str]
"""(pages.id, text, speaker, heading)"""


def index_pages(connection: sqlite3.Connection, rows: Iterable[IndexedRow]) -> None:
    """Make active pages searchable by their words; a page must not be in the index already."""
    connection.executemany("INSERT INTO pages_text (rowid, text, speaker, heading) VALUES (?, ?, ?, ?)", rows)


def unindex_pages(connection: sqlite3.Connection, rows: Iterable[IndexedRow]) -> None:
    """Take pages out, with exactly the values they were indexed with, before those change or go."""
    connection.executemany(
        "INSERT INTO pages_text (pages_text, rowid, text, speaker, heading) VALUES ('delete', ?, ?, ?, ?)", rows
    )


def rebuild_text_index(connection: sqlite3.Connection) -> None:
    """Throw the index away and make it again from the active pages."""
    connection.execute("INSERT INTO pages_text (pages_text) VALUES ('rebuild')")


def check_text_index(connection: sqlite3.Connection) -> str:
    """ "" when every active page is indexed and nothing else is; otherwise what is wrong. Works on a reader."""
    (missing,) = connection.execute(
        "SELECT count(*) FROM pages p WHERE p.active = 1"
        " AND NOT EXISTS (SELECT 1 FROM pages_text_docsize d WHERE d.id = p.id)"
    ).fetchone()
    (surplus,) = connection.execute(
        "SELECT count(*) FROM pages_text_docsize d"
        " WHERE NOT EXISTS (SELECT 1 FROM pages p WHERE p.id = d.id AND p.active = 1)"
    ).fetchone()
    if missing or surplus:
        return f"text index: {missing} active pages are missing and {surplus} entries have no active page"
    return ""


def check_text_contents(connection: sqlite3.Connection) -> str:
    """`check_text_index`, then FTS5 compares every posting with the pages. Needs the writing connection."""
    problem = check_text_index(connection)
    if problem:
        return problem
    try:
        connection.execute("INSERT INTO pages_text (pages_text, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        return f"text index: does not match the pages ({error})"
    return ""


CODEC = "zlib"
_COMPRESSION = 3  # a tenth larger than at 6, in a third of the time


@dataclass(slots=True)
class WriteResult:
    """What a piece of writing did to the counts, and the rowids of pages whose vectors no longer hold."""

    packets: int = 0
    pages: int = 0
    quarantined: int = 0
    stale_pages: list[int] = field(default_factory=list)

    def add(self, other: "WriteResult") -> None:
        """Take up what another piece did."""
        self.packets += other.packets
        self.pages += other.pages
        self.quarantined += other.quarantined
        self.stale_pages += other.stale_pages


def compress(data: bytes) -> bytes:
    """An original as it is stored under codec zlib."""
    return zlib.compress(data, _COMPRESSION)


def expand(codec: str, body: bytes) -> bytes:
    """The original's bytes. Raises ValueError when they cannot be restored."""
    if codec != CODEC:
        raise ValueError(f"stored with codec {codec!r}, which this gaiad does not know")
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise ValueError(f"the stored original is damaged: {error}") from error


def find_by_hash(connection: sqlite3.Connection, sha256: str) -> tuple[str, str, str] | None:
    """(packet_id, dialect, verdict) of the packet with these bytes, or None."""
    row = connection.execute("SELECT packet_id, dialect, verdict FROM packets WHERE sha256 = ?", (sha256,)).fetchone()
    return (str(row[0]), str(row[1]), str(row[2])) if row else None


def holder(connection: sqlite3.Connection, packet: Packet, source: str) -> str:
    """Who keeps a packet from `source` out of its id, "" when nobody does: an id is not taken over by weaker proof."""
    row = connection.execute(
        "SELECT verdict, source FROM packets WHERE packet_id = ? AND current = 1", (packet.packet_id,)
    ).fetchone()
    if row is None:
        return _looks_like(connection, packet.packet_id)
    if row[1] == SESSION_TURN.name and source != SESSION_TURN.name:
        return "a turn of a chat session"
    return "a verified packet" if row[0] == "verified" and packet.verdict != "verified" else ""


def _looks_like(connection: sqlite3.Connection, packet_id: str) -> str:
    """The packet whose id a person would read in a new id with lookalikes in it, "" for none."""
    read = "".join(sign for sign in fold(normalize("NFC", packet_id)) if not combining(sign))
    if read == packet_id:
        return ""
    found = connection.execute("SELECT 1 FROM packets WHERE packet_id = ? LIMIT 1", (read,)).fetchone()
    return f"another packet whose id looks the same ({read})" if found else ""


def renew(connection: sqlite3.Connection, sha256: str, received_ms: int) -> tuple[int, WriteResult]:
    """Make the packet with these bytes, which came again, current as the next revision; 0 when it stays as it is."""
    rowid, packet_id, current, source, canonical = connection.execute(
        "SELECT id, packet_id, current, source, canonical FROM packets WHERE sha256 = ?", (sha256,)
    ).fetchone()
    if current or holder(connection, decode_canonical(canonical), source):
        return 0, WriteResult()
    change = _retire(connection, packet_id)
    (newest,) = connection.execute("SELECT max(revision) FROM packets WHERE packet_id = ?", (packet_id,)).fetchone()
    connection.execute(
        "UPDATE packets SET revision = ?, received_ms = ? WHERE id = ?", (newest + 1, received_ms, rowid)
    )
    change.add(_set_current(connection, rowid, current=True))
    return int(newest) + 1, change


def insert(
    connection: sqlite3.Connection, derived: Derived, body: bytes, source: str, modified_ms: int, received_ms: int
) -> tuple[bool, WriteResult]:
    """Store a packet whose bytes are new; true when its id was known, so that this is a revision of it."""
    packet_id = derived.packet.packet_id
    (newest,) = connection.execute("SELECT max(revision) FROM packets WHERE packet_id = ?", (packet_id,)).fetchone()
    change = WriteResult()
    if newest is not None:
        change.add(_retire(connection, packet_id))
    columns = {
        "packet_id": packet_id,
        "revision": (newest or 0) + 1,
        "current": 1,
        "source": source,
        "modified_ms": modified_ms,
        "received_ms": received_ms,
        **_packet_columns(derived),
    }
    cursor = connection.execute(
        f"INSERT INTO packets ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", (*columns.values(),)
    )
    rowid = int(cursor.lastrowid or 0)
    _write_original(connection, rowid, body)
    _write_side_tables(connection, rowid, derived)
    _write_pages(connection, rowid, derived, derived.pages, active=True)
    change.packets += 1
    change.pages += len(derived.pages)
    return newest is not None, change


def _write_original(connection: sqlite3.Connection, rowid: int, body: bytes) -> None:
    """Write the bytes in place: bound as a value, SQLite would copy a large original twice."""
    connection.execute(
        "INSERT INTO originals (packet, codec, body) VALUES (?, ?, zeroblob(?))", (rowid, CODEC, len(body))
    )
    with connection.blobopen("originals", "body", rowid) as blob:
        blob.write(body)


def rewrite(connection: sqlite3.Connection, rowid: int, derived: Derived) -> WriteResult:
    """Bring everything derived of a stored packet up to date; pages that read the same keep their rows and vectors."""
    (old_id,) = connection.execute("SELECT packet_id FROM packets WHERE id = ?", (rowid,)).fetchone()
    packet_id = derived.packet.packet_id
    columns = _packet_columns(derived)
    if packet_id != old_id:
        (free,) = connection.execute(
            "SELECT coalesce(max(revision), 0) + 1 FROM packets WHERE packet_id = ?", (packet_id,)
        ).fetchone()
        columns = {**columns, "packet_id": packet_id, "revision": free}
    assignments = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(f"UPDATE packets SET {assignments} WHERE id = ?", (*columns.values(), rowid))
    connection.execute("DELETE FROM metadata WHERE packet = ?", (rowid,))
    connection.execute("DELETE FROM integrity_chain WHERE packet = ?", (rowid,))
    _write_side_tables(connection, rowid, derived)
    change = _rewrite_pages(connection, rowid, derived)
    if packet_id != old_id:
        change.add(_settle_revisions(connection, old_id))
        change.add(_settle_revisions(connection, packet_id))
    return change


def _packet_columns(derived: Derived) -> dict[str, object]:
    packet = derived.packet
    return {
        "sha256": packet.sha256,
        "size": packet.size,
        "dialect": packet.dialect,
        "media_type": packet.media_type,
        "timestamp_ms": to_epoch_ms(packet.timestamp),
        "timestamp_derived": packet.timestamp_derived,
        "zone_missing": packet.zone_missing,
        "id_derived": packet.id_derived,
        "session_id": packet.session_id,
        "topic": packet.topic,
        "original_model": packet.original_model,
        "current_model": packet.current_model,
        "summary": packet.summary,
        "verdict": packet.verdict,
        "canonical": derived.canonical,
        "derived_version": DERIVED_VERSION,
    }


def _write_side_tables(connection: sqlite3.Connection, rowid: int, derived: Derived) -> None:
    connection.executemany(
        "INSERT INTO metadata (packet, key, value, number) VALUES (?, ?, ?, ?)",
        [(rowid, *row) for row in derived.metadata],
    )
    connection.executemany(
        "INSERT INTO integrity_chain (packet, position, hash, previous_hash, timestamp, signer, note)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (rowid, position, entry.hash, entry.previous_hash, entry.timestamp, entry.signer, entry.note)
            for position, entry in enumerate(derived.packet.integrity)
        ],
    )


def _write_pages(
    connection: sqlite3.Connection, rowid: int, derived: Derived, pages: Iterable[PageDraft], *, active: bool
) -> None:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'pages'").fetchone()
    first = (row[0] if row else 0) + 1
    sha256 = derived.packet.sha256
    numbered = list(enumerate(pages, start=first))
    connection.executemany(
        "INSERT INTO pages (id, page_id, packet, sequence, section, path, speaker, heading, text, start, end,"
        " timestamp_ms, active) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                number,
                page_id(sha256, page.sequence),
                rowid,
                page.sequence,
                page.section,
                page.path,
                page.speaker,
                page.heading,
                page.text,
                page.start,
                page.end,
                page.timestamp_ms,
                active,
            )
            for number, page in numbered
        ),
    )
    if active:
        index_pages(connection, ((number, page.text, page.speaker, page.heading) for number, page in numbered))


def _retire(connection: sqlite3.Connection, packet_id: str) -> WriteResult:
    """Take the current revision of a packet out of search; it stays citable."""
    change = WriteResult()
    for (rowid,) in connection.execute(
        "SELECT id FROM packets WHERE packet_id = ? AND current = 1", (packet_id,)
    ).fetchall():
        change.add(_set_current(connection, rowid, current=False))
    return change


def _set_current(connection: sqlite3.Connection, rowid: int, *, current: bool) -> WriteResult:
    rows = connection.execute(
        "SELECT id, text, speaker, heading FROM pages WHERE packet = ? AND active = ?", (rowid, not current)
    ).fetchall()
    if not current:
        unindex_pages(connection, rows)
    connection.execute("UPDATE pages SET active = ? WHERE packet = ?", (current, rowid))
    connection.execute("UPDATE packets SET current = ? WHERE id = ?", (current, rowid))
    if current:
        index_pages(connection, rows)
        return WriteResult(packets=1, pages=len(rows))
    return WriteResult(packets=-1, pages=-len(rows), stale_pages=[row[0] for row in rows])


def _settle_revisions(connection: sqlite3.Connection, packet_id: str) -> WriteResult:
    """Number the revisions of a packet in the order they came; the last one is current."""
    rows = connection.execute(
        "SELECT id, current FROM packets WHERE packet_id = ? ORDER BY received_ms, id", (packet_id,)
    ).fetchall()
    change = WriteResult()
    connection.execute("UPDATE packets SET revision = -revision WHERE packet_id = ?", (packet_id,))
    for revision, (rowid, current) in enumerate(rows, start=1):
        connection.execute("UPDATE packets SET revision = ? WHERE id = ?", (revision, rowid))
        if bool(current) != (revision == len(rows)):
            change.add(_set_current(connection, rowid, current=not current))
    return change


def _rewrite_pages(connection: sqlite3.Connection, rowid: int, derived: Derived) -> WriteResult:
    """Compare by sequence: same text keeps row, id and vector; other text keeps row and id; the rest comes or goes."""
    (active,) = connection.execute("SELECT current FROM packets WHERE id = ?", (rowid,)).fetchone()
    stored = {
        row[1]: row
        for row in connection.execute(
            "SELECT id, sequence, text, speaker, heading, section, path, start, end, timestamp_ms FROM pages"
            " WHERE packet = ?",
            (rowid,),
        )
    }
    gone = [row for sequence, row in stored.items() if sequence >= len(derived.pages)]
    kept = [(stored[page.sequence], page) for page in derived.pages if page.sequence in stored]
    reworded = [
        (row, page) for row, page in kept if (row[2], row[3], row[4]) != (page.text, page.speaker, page.heading)
    ]
    if active:
        unindex_pages(connection, [(row[0], row[2], row[3], row[4]) for row in (*gone, *(row for row, _ in reworded))])
    stale = [row[0] for row in (*gone, *(row for row, _ in reworded))]
    connection.executemany("DELETE FROM vectors WHERE page = ?", [(page,) for page in stale])
    connection.executemany("DELETE FROM pages WHERE id = ?", [(row[0],) for row in gone])
    wanted = [
        (row, (page.text, page.speaker, page.heading, page.section, page.path, page.start, page.end, page.timestamp_ms))
        for row, page in kept
    ]
    connection.executemany(
        "UPDATE pages SET text = ?, speaker = ?, heading = ?, section = ?, path = ?, start = ?, end = ?,"
        " timestamp_ms = ? WHERE id = ?",
        [(*values, row[0]) for row, values in wanted if row[2:] != values],
    )
    if active:
        index_pages(connection, [(row[0], page.text, page.speaker, page.heading) for row, page in reworded])
    fresh = [page for page in derived.pages if page.sequence not in stored]
    _write_pages(connection, rowid, derived, fresh, active=bool(active))
    return WriteResult(pages=len(fresh) - len(gone) if active else 0, stale_pages=stale)
