"""JSON by its SHA-256, compressed: small bodies in a row, large ones in files of the tenant's folder, older ones in
packs, and what is a part of another body only by where it begins there. Each is checked when it is read.

A file is written and synced before the commit that names it. One that no row names is what a crash left: the same body
stored again takes it up.
"""

import sqlite3
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from functools import cached_property
from hashlib import sha256 as _sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from gaiad.base.errors import BadInput, Conflict
from gaiad.base.home import replace_file, sync_folder
from gaiad.context.packs import compress, expand, read_packed
from gaiad.store.database import StorageFailed, StorageFull
from gaiad.store.home_databases import BODIES

MAX_BODY_BYTES = 16 << 20
"""Of one record's JSON."""
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


def write_file(folder: Path, body: Body) -> None:
    """Put a large body on the disk, durable when this returns; nothing for a small one. Blocks.

    Raises StorageFull, StorageFailed; nothing is left then.
    """
    path = file_of(folder, body.sha256)
    if body.place == "row" or (path.is_file() and path.read_bytes() == body.stored):
        return
    try:
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


def read_body(connection: sqlite3.Connection, folder: Path, sha256: str) -> bytes:
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
        content = read_body(connection, folder, whole)[start : start + size]
    else:
        content = expand(_read_file(folder, sha256) if place == "file" else stored, MAX_BODY_BYTES)
    if content is None or _sha256(content).hexdigest() != sha256:
        where = file_of(folder, sha256) if place == "file" else f"body {sha256}"
        raise DamagedBody(f"{where}: does not match its hash; restore the last backup")
    return content


def _read_file(folder: Path, sha256: str) -> bytes:
    try:
        return file_of(folder, sha256).read_bytes()
    except OSError as error:
        raise DamagedBody(f"{file_of(folder, sha256)}: {error.strerror}; restore the last backup") from error


def read_json(connection: sqlite3.Connection, folder: Path, sha256: str) -> dict[str, Any]:
    """`read_body`, decoded. Raises DamagedBody."""
    return msgspec.json.decode(read_body(connection, folder, sha256), type=dict[str, Any])
