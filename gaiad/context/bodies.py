"""JSON by its SHA-256, compressed: small bodies in a row, large ones in files of the tenant's folder, older ones in
packs, and what is a part of another body only by where it begins there. Each is checked when it is read.

A file is written and synced before the commit that names it. One that no row names is what a crash left: the same body
stored again takes it up. A pack holds bodies of older iterations, because they repeat each other's keys and words.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from functools import cached_property
from hashlib import sha256 as _sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import zstandard

from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.base.home import replace_file, sync_folder
from gaiad.base.logs import get_logger
from gaiad.store.database import StorageFailed, StorageFull
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.secondary import BODIES

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


_log = get_logger("gaiad.context")
MAX_BODY_BYTES = 16 << 20
"""Of one record's JSON."""
Folders = tuple[Path, ...]
"""A tenant's folder, and the one of the second place where there is one: files of bodies are in both."""
ROW_BYTES = 64 << 10
"""Larger bodies are files."""


class DamagedBody(Conflict):
    """A stored body is gone or does not match its hash; the others can be read."""

    code = "context_damaged"


@dataclass(frozen=True)
class Body:
    """JSON with sorted keys, and its hash in hexadecimal."""

    content: bytes
    sha256: str

    @cached_property
    def stored(self) -> bytes:
        """As it is kept in its row or file."""
        return compress(self.content)

    @property
    def place(self) -> Literal["row", "file"]:
        return "row" if len(self.content) <= ROW_BYTES else "file"


def body_of(value: object) -> Body:
    """`value` as JSON. Raises BadInput when it is larger than MAX_BODY_BYTES."""
    content = msgspec.json.encode(value, order="sorted")
    if len(content) > MAX_BODY_BYTES:
        raise BadInput(f"the record has {len(content)} bytes of JSON; at most {MAX_BODY_BYTES} are stored")
    return Body(content, _sha256(content).hexdigest())


def file_of(folder: Path, sha256: str) -> Path:
    """Where the file of a body is, in a tenant's folder."""
    return folder / BODIES / sha256[:2] / sha256


async def store_file(databases: HomeDatabases, tenant: str, body: Body) -> None:
    """Put a large body on the disk, in both places where there are two; nothing for a small one.

    Durable when this returns. Raises StorageFull, StorageFailed when no place takes it; nothing is left then.
    """
    if body.place == "row":
        return
    failures: list[GaiadError] = []
    folders = databases.body_folders(tenant)
    for folder in folders:
        try:
            await asyncio.to_thread(_write_file, file_of(folder, body.sha256), body)
        except (StorageFull, StorageFailed) as error:
            failures.append(error)
            if len(failures) == len(folders):
                raise
            await databases.place_failed(tenant, folder, error)


def _write_file(path: Path, body: Body) -> None:
    try:
        if path.is_file() and path.read_bytes() == body.stored:
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, body.stored)
        sync_folder(path.parent.parent)
    except OSError as error:
        kind = StorageFull if error.errno in (ENOSPC, EDQUOT) else StorageFailed
        raise kind(f"{path}: {error.strerror}; nothing was stored. Free some space and try again", 30.0) from error


def insert_body(connection: sqlite3.Connection, body: Body) -> None:
    """Name the body in the table; one that is known stays as it is."""
    content = body.stored if body.place == "row" else None
    connection.execute(
        "INSERT INTO context_bodies (sha256, size, place, stored, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (body.sha256, len(body.content), body.place, len(body.stored), content),
    )


def insert_part(connection: sqlite3.Connection, part: Body, whole: Body) -> None:
    """Name a body whose JSON is in that of `whole`; it takes no room of its own."""
    start = whole.content.index(part.content)
    connection.execute(
        "INSERT INTO context_bodies (sha256, size, place, stored, whole, start) VALUES (?, ?, 'part', 0, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (part.sha256, len(part.content), whole.sha256, start),
    )


def keep_part(connection: sqlite3.Connection, part: Body) -> None:
    """Give a part a row of its own, because the body that it is in goes."""
    connection.execute(
        "UPDATE context_bodies SET place = 'row', stored = ?, body = ?, whole = NULL, start = NULL WHERE sha256 = ?",
        (len(part.stored), part.stored, part.sha256),
    )
    connection.execute("UPDATE context_usage SET value = value + ? WHERE name = 'json'", (len(part.content),))


def read_body(connection: sqlite3.Connection, folders: Folders, sha256: str) -> bytes:
    """The JSON with this hash. Raises DamagedBody."""
    row = connection.execute(
        "SELECT place, body, whole, pack, start, size FROM context_bodies WHERE sha256 = ?", (sha256,)
    ).fetchone()
    if row is None:
        raise DamagedBody(f"body {sha256}: it is not in the database; restore the last backup")
    place, stored, whole, pack, start, size = row
    if place == "pack":
        content = read_packed(connection, pack, start, size)
    elif place == "part":
        content = read_body(connection, folders, whole)[start : start + size]
    else:
        content = expand(stored, MAX_BODY_BYTES) if place == "row" else _read_file(folders, sha256)
    if content is None or _sha256(content).hexdigest() != sha256:
        raise DamagedBody(f"body {sha256}: does not match its hash; restore the last backup")
    return content


def _read_file(folders: Folders, sha256: str) -> bytes:
    """From the first folder that has it whole. Raises DamagedBody."""
    problems = []
    for folder in folders:
        path = file_of(folder, sha256)
        try:
            content = expand(stored := path.read_bytes(), MAX_BODY_BYTES)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
            continue
        if content is not None and _sha256(content).hexdigest() == sha256:
            if problems:
                _log.warning("body_read_from_second_place", problems=problems)
                with suppress(OSError):  # the place that failed gets it back where it can
                    replace_file(file_of(folders[0], sha256), stored)
            return content
        problems.append(f"{path}: does not match its hash")
    raise DamagedBody(f"{'; '.join(problems)}; restore the last backup")


def read_json(connection: sqlite3.Connection, folders: Folders, sha256: str) -> dict[str, Any]:
    """`read_body`, decoded. Raises DamagedBody."""
    return msgspec.json.decode(read_body(connection, folders, sha256), type=dict[str, Any])
