"""Packs: bodies of older iterations, compressed together (zstd), for they repeat each other's keys and words."""

import sqlite3
from collections.abc import Sequence

import zstandard

_LEVEL = 12
PACK_BYTES = 256 << 10
"""Of JSON in a pack; a larger body is a pack of its own. Reading one body unpacks the pack it is in."""


def add_pack(connection: sqlite3.Connection, bodies: Sequence[tuple[str, bytes]]) -> int:
    """Move bodies (hash, content) into a new pack; the bytes that it takes."""
    content = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(b"".join(body for _, body in bodies))
    number = connection.execute("INSERT INTO context_packs (body) VALUES (?)", (content,)).lastrowid
    start = 0
    for sha256, body in bodies:
        connection.execute(
            "UPDATE context_bodies SET place = 'pack', body = NULL, pack = ?, start = ? WHERE sha256 = ?",
            (number, start, sha256),
        )
        start += len(body)
    return len(content)


def read_packed(connection: sqlite3.Connection, pack: int, start: int, size: int) -> bytes | None:
    """A body of a pack; None when the pack is damaged or gone."""
    row = connection.execute("SELECT body FROM context_packs WHERE number = ?", (pack,)).fetchone()
    if row is None:
        return None
    try:
        return zstandard.ZstdDecompressor().decompress(row[0])[start : start + size]
    except zstandard.ZstdError:
        return None
