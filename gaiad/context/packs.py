"""zstd, for bodies by themselves when they are stored, and for packs: bodies of older iterations compressed together,
because they repeat each other's keys and words.
"""

import sqlite3
import threading
from collections.abc import Collection, Sequence
from typing import NamedTuple

import zstandard

_WRITE_LEVEL, _PACK_LEVEL = 1, 12
_own = threading.local()  # a compressor takes as long to make as to use, and serves one thread at a time
_MAGIC = zstandard.FRAME_HEADER  # no JSON begins like this
PACK_BYTES = 256 << 10
"""Of JSON in a pack; a larger body is a pack of its own. Reading one body unpacks the pack it is in."""


MOST_PACKED = 32 << 20
"""Bytes of JSON in a pack at most: no body is larger."""


def compress(content: bytes) -> bytes:
    """As it is stored by itself: a zstd frame, or the JSON where that is no longer."""
    if (compressor := getattr(_own, "compressor", None)) is None:
        compressor = _own.compressor = zstandard.ZstdCompressor(level=_WRITE_LEVEL)
    frame: bytes = compressor.compress(content)
    return frame if len(frame) < len(content) else content


def expand(stored: bytes, most: int) -> bytes | None:
    """What `compress` was given; None for a damaged frame, or one of more than `most` bytes."""
    if not stored.startswith(_MAGIC):
        return stored
    try:
        if not 0 <= zstandard.frame_content_size(stored) <= most:
            return None
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError:
        return None


class Pack(NamedTuple):
    """Bodies (hash, bytes of JSON) in their order, and their JSON compressed together."""

    bodies: list[tuple[str, int]]
    content: bytes


def make_pack(bodies: Sequence[tuple[str, bytes]]) -> Pack:
    """Of bodies (hash, JSON)."""
    whole = b"".join(content for _, content in bodies)
    frame = zstandard.ZstdCompressor(level=_PACK_LEVEL, write_checksum=True).compress(whole)
    return Pack([(sha256, len(content)) for sha256, content in bodies], frame)


def add_pack(connection: sqlite3.Connection, pack: Pack) -> None:
    """Move the bodies into a new pack."""
    number = connection.execute("INSERT INTO context_packs (body) VALUES (?)", (pack.content,)).lastrowid
    start = 0
    for sha256, size in pack.bodies:
        connection.execute(
            "UPDATE context_bodies SET place = 'pack', stored = 0, body = NULL, pack = ?, start = ? WHERE sha256 = ?",
            (number, start, sha256),
        )
        start += size


def unpack(connection: sqlite3.Connection, pack: int) -> list[tuple[str, bytes]]:
    """All bodies (hash, JSON) of a pack; none when it is damaged."""
    (stored,) = connection.execute("SELECT body FROM context_packs WHERE number = ?", (pack,)).fetchone()
    content = expand(stored, MOST_PACKED)
    rows = connection.execute("SELECT sha256, start, size FROM context_bodies WHERE pack = ? ORDER BY start", (pack,))
    return [] if content is None else [(sha256, content[start : start + size]) for sha256, start, size in rows]


def repack(connection: sqlite3.Connection, pack: int, leave_out: Collection[str]) -> None:
    """Move the bodies of a pack but for some into a new one."""
    kept = [(sha256, content) for sha256, content in unpack(connection, pack) if sha256 not in leave_out]
    if kept:
        add_pack(connection, make_pack(kept))
    connection.execute("UPDATE context_bodies SET pack = NULL WHERE pack = ?", (pack,))


def read_packed(connection: sqlite3.Connection, pack: int, start: int, size: int) -> bytes | None:
    """A body of a pack; None when the pack is damaged or gone."""
    row = connection.execute("SELECT body FROM context_packs WHERE number = ?", (pack,)).fetchone()
    content = expand(row[0], MOST_PACKED) if row else None
    return None if content is None else content[start : start + size]
