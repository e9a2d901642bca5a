"""A column store of what ranking needs to know about every page, so that no query touches SQL for it.

Positions, not page ids, index everything: position i is the i-th page by id. A catalogue never changes; an append makes
a new one that shares nothing mutable with the old, so a search keeps the one it began with.
"""

import sqlite3
import threading
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.reading.packet import SectionKind

Positions = NDArray[np.int64]
SECTIONS: tuple[str, ...] = get_args(SectionKind)
_SECTION_CODES = {name: code for code, name in enumerate(SECTIONS)}
_CHUNK_ROWS = 50_000
_COLUMNS = ("ids", "packet", "sequence", "section", "speaker", "session", "timestamp_ms", "length", "asks")


@dataclass(frozen=True, slots=True)
class Version:
    """What the arrays were read from: highest ids and change counters."""

    last_page: int
    last_packet: int
    pages: int
    active: int
    packets: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Columns over all pages, inactive ones included. `link_1[i]` is 1 when i+1 follows i in the same packet.

    `asks` counts question marks; `session_length` adds up the bytes of a session's pages, by its number in `session`.
    """

    version: Version
    ids: NDArray[np.int64]
    packet: NDArray[np.int64]
    sequence: NDArray[np.int32]
    section: NDArray[np.uint8]
    speaker: NDArray[np.int32]
    session: NDArray[np.int32]
    timestamp_ms: NDArray[np.int64]
    length: NDArray[np.float32]
    asks: NDArray[np.uint8]
    active: NDArray[np.bool_]
    link_1: NDArray[np.float32]
    link_2: NDArray[np.float32]
    by_id: NDArray[np.int32]
    session_length: NDArray[np.float32]
    speakers: tuple[str, ...]
    mean_length: float
    active_count: int

    def positions(self, ids: NDArray[np.int64]) -> Positions:
        """Positions of page ids, those unknown to this catalogue left out; order kept."""
        inside = ids[(ids >= 0) & (ids < len(self.by_id))]
        found = self.by_id[inside]
        return found[found >= 0].astype(np.int64)

    def __len__(self) -> int:
        return len(self.ids)


class CatalogueReader:
    """Holds the newest catalogue and brings it up to date; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogue: Catalogue | None = None
        self._speakers: dict[str, int] = {}
        self._sessions: dict[str, int] = {}
        self._session_of_packet: NDArray[np.int32] = np.zeros(0, np.int32)

    def current(self, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue of the connection's snapshot: unchanged, appended to, cut to what it sees, or read again."""
        version = read_version(connection)
        known = self._catalogue
        if known is not None and known.version == version:
            return known
        with self._lock:
            known = self._catalogue
            older = known is not None and _is_older(version, known.version)
            if known is None or not (older or _only_grew(known.version, version)):
                self._speakers, self._sessions = {}, {}
                self._session_of_packet = np.zeros(0, np.int32)
                known = self._catalogue = None  # its codes are not those that a read broken off leaves here
            if known is None or (known.version != version and not older):
                known = self._catalogue = self._read(connection, known, version)
        return _as_of(connection, known, version) if older else known

    def _read(self, connection: sqlite3.Connection, known: Catalogue | None, version: Version) -> Catalogue:
        self._read_sessions(connection, known.version.last_packet if known else 0)
        new = self._read_pages(connection, known.version.last_page if known else 0)
        old = known or _empty()
        columns = {name: np.concatenate((getattr(old, name), new[name])) for name in _COLUMNS}
        return _of_columns(connection, columns, version, tuple(self._speakers), len(self._sessions))

    def _read_sessions(self, connection: sqlite3.Connection, after: int) -> None:
        rows = connection.execute("SELECT id, session_id FROM packets WHERE id > ? ORDER BY id", (after,)).fetchall()
        if not rows:
            return
        grown = np.zeros(rows[-1][0] + 1, np.int32)
        grown[: len(self._session_of_packet)] = self._session_of_packet
        for packet, session in rows:
            grown[packet] = self._sessions.setdefault(session or f"\0{packet}", len(self._sessions))
        self._session_of_packet = grown

    def _read_pages(self, connection: sqlite3.Connection, after: int) -> dict[str, Any]:
        cursor = connection.execute(
            'SELECT id, packet, sequence, section, speaker, timestamp_ms, "end" - start,'
            " min(length(text) - length(replace(text, '?', '')), 255) FROM pages WHERE id > ? ORDER BY id",
            (after,),
        )
        chunks: list[NDArray[np.int64]] = [np.zeros((0, 8), np.int64)]
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            codes = self._speakers
            coded = [
                (
                    page,
                    packet,
                    sequence,
                    _SECTION_CODES.get(section, 0),
                    codes.setdefault(speaker, len(codes)),
                    time,
                    size,
                    asks,
                )
                for page, packet, sequence, section, speaker, time, size, asks in rows
            ]
            chunks.append(np.array(coded, np.int64))
        table = np.concatenate(chunks)
        return {
            "ids": table[:, 0].copy(),
            "packet": table[:, 1].copy(),
            "sequence": table[:, 2].astype(np.int32),
            "section": table[:, 3].astype(np.uint8),
            "speaker": table[:, 4].astype(np.int32),
            "session": self._session_of_packet[table[:, 1]] if len(table) else np.zeros(0, np.int32),
            "timestamp_ms": table[:, 5].copy(),
            "length": np.maximum(table[:, 6], 1).astype(np.float32),
            "asks": table[:, 7].astype(np.uint8),
        }


def read_version(connection: sqlite3.Connection) -> Version:
    """The counters and highest ids of the connection's snapshot."""
    last_page, last_packet = connection.execute(
        "SELECT ifnull((SELECT max(id) FROM pages), 0), ifnull((SELECT max(id) FROM packets), 0)"
    ).fetchone()
    counters = dict(connection.execute("SELECT name, value FROM changes WHERE name IN ('pages', 'active', 'packets')"))
    return Version(last_page, last_packet, counters["pages"], counters["active"], counters["packets"])


def _as_of(connection: sqlite3.Connection, newer: Catalogue, version: Version) -> Catalogue:
    """What of a newer catalogue an older snapshot sees: no page is read for it, and the newer one stays."""
    seen = int(np.searchsorted(newer.ids, version.last_page, "right"))
    columns = {name: getattr(newer, name)[:seen] for name in _COLUMNS}
    return _of_columns(connection, columns, version, newer.speakers, len(newer.session_length))


def _of_columns(
    connection: sqlite3.Connection, columns: dict[str, Any], version: Version, speakers: tuple[str, ...], sessions: int
) -> Catalogue:
    ids = columns["ids"]
    by_id = np.full(int(ids[-1]) + 1 if len(ids) else 1, -1, np.int32)
    by_id[ids] = np.arange(len(ids), dtype=np.int32)
    active = np.ones(len(ids), np.bool_)
    inactive = connection.execute("SELECT id FROM pages WHERE active = 0").fetchall()
    active[by_id[np.array([row[0] for row in inactive], np.int64)]] = False
    return Catalogue(
        version=version,
        **columns,
        active=active,
        link_1=_links(columns["packet"], columns["sequence"], 1),
        link_2=_links(columns["packet"], columns["sequence"], 2),
        by_id=by_id,
        session_length=np.bincount(columns["session"], columns["length"], sessions).astype(np.float32),
        speakers=speakers,
        mean_length=float(columns["length"].mean()) if len(ids) else 1.0,
        active_count=int(active.sum()),
    )


def section_code(name: str) -> int:
    return _SECTION_CODES[name]


def _only_grew(old: Version, new: Version) -> bool:
    """True when everything `old` read is still valid, active marks apart (those are read again each time).

    A packet row is updated when a revision supersedes it; its session stays, and a page row is never updated then.
    """
    return old.pages == new.pages and old.last_page <= new.last_page and old.last_packet <= new.last_packet


def _is_older(one: Version, other: Version) -> bool:
    """True when `other` came of `one` by nothing but growth and switching."""
    return one != other and _only_grew(one, other) and one.active <= other.active and one.packets <= other.packets


def _links(packet: NDArray[np.int64], sequence: NDArray[np.int32], step: int) -> NDArray[np.float32]:
    if len(packet) <= step:
        return np.zeros(0, np.float32)
    linked: NDArray[np.float32] = (
        (packet[step:] == packet[:-step]) & (sequence[step:] - sequence[:-step] == step)
    ).astype(np.float32)
    return linked


def _empty() -> Catalogue:
    numbers = np.zeros(0, np.int64)
    small, decimals = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Catalogue(
        version=Version(0, 0, 0, 0, 0),
        ids=numbers,
        packet=numbers,
        sequence=small,
        section=np.zeros(0, np.uint8),
        speaker=small,
        session=small,
        timestamp_ms=numbers,
        length=decimals,
        asks=np.zeros(0, np.uint8),
        active=np.zeros(0, np.bool_),
        link_1=decimals,
        link_2=decimals,
        by_id=np.full(1, -1, np.int32),
        session_length=decimals,
        speakers=(),
        mean_length=1.0,
        active_count=0,
    )
