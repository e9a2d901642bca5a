"""Older iterations are packed and stay readable; usage is watched; nothing is ever deleted by age.

An iteration is old when its newest record is. Files of packed bodies go once the pack that holds them is on the disk.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gaiad.base.errors import Unavailable
from gaiad.context.bodies import PACK_BYTES, Body, DamagedBody, Folders, Pack, add_pack, file_of, make_pack, read_body
from gaiad.store.database import marks
from gaiad.wire.context_keeping import Usage

_ABOVE = 1.1
"""Of the quota: up to here what is not optional is still stored."""


class QuotaReached(Unavailable):
    """The tenant's quota is used up; what is stored stays."""

    code = "quota_reached"
    http_status = 507


class OldBody(NamedTuple):
    """A body of an old iteration that is not packed yet; `size` is of its JSON."""

    sha256: str
    place: str
    size: int


class Old(NamedTuple):
    """How many iterations are old, and their bodies in the order they came."""

    iterations: int
    bodies: list[OldBody]


class Batch(NamedTuple):
    """A pack that is ready, the files that it makes superfluous, and hashes of damaged bodies that are left out."""

    pack: Pack
    files: list[Path]
    damaged: list[str]


def find_old(connection: sqlite3.Connection, before_ms: int) -> Old:
    """What a cleanup would pack."""
    iterations = connection.execute("SELECT count(*) FROM context_iterations WHERE last_ms < ?", (before_ms,))
    found = connection.execute(
        "SELECT b.sha256, b.place, b.size FROM context_iterations AS i CROSS JOIN context_records AS r"
        " USING (iteration) CROSS JOIN context_bodies AS b USING (sha256) WHERE i.last_ms < ?"
        " AND r.kind IN ('state', 'output', 'review') AND b.place IN ('row', 'file') ORDER BY r.number",
        (before_ms,),
    )
    return Old(iterations.fetchone()[0], [OldBody(*row) for row in found])


def batches(bodies: Sequence[OldBody]) -> Iterator[list[OldBody]]:
    """All of them in their order, about PACK_BYTES of JSON in a batch."""
    batch: list[OldBody] = []
    for body in bodies:
        if batch and sum(one.size for one in batch) + body.size > PACK_BYTES:
            yield batch
            batch = []
        batch.append(body)
    if batch:
        yield batch


def read_batch(connection: sqlite3.Connection, folders: Folders, batch: Sequence[OldBody]) -> Batch:
    """The pack of a batch, without bodies that are damaged or gone."""
    contents: list[tuple[str, bytes]] = []
    damaged: list[str] = []
    for body in batch:
        try:
            contents.append((body.sha256, read_body(connection, folders, body.sha256)))
        except DamagedBody:
            damaged.append(body.sha256)
    moved = [one.sha256 for one in batch if one.place == "file" and one.sha256 not in damaged]
    files = [file_of(folder, sha256) for sha256 in moved for folder in folders]
    return Batch(make_pack(contents), files, damaged)


def store_pack(connection: sqlite3.Connection, pack: Pack) -> bool:
    """Put a pack in the place of its bodies; not when one of them was deleted since it was read."""
    names = [sha256 for sha256, _ in pack.bodies]
    query = f"SELECT count(*) FROM context_bodies WHERE sha256 IN ({marks(names)}) AND place IN ('row', 'file')"
    if not names or connection.execute(query, names).fetchone() != (len(names),):
        return False
    add_pack(connection, pack)
    return True


def usage(connection: sqlite3.Connection, quota_bytes: int) -> Usage:
    """What the tenant's context takes; `quota_bytes` 0 means no limit."""
    values = dict(connection.execute("SELECT name, value FROM context_usage").fetchall())
    return _usage(values["json"], values["stored"], quota_bytes)


def with_body(used: Usage, body: Body) -> Usage:
    """With one more body that was not known."""
    return _usage(used.json_bytes + len(body.content), used.stored_bytes + len(body.stored), used.quota_bytes)


def _usage(json_bytes: int, stored_bytes: int, quota_bytes: int) -> Usage:
    share = stored_bytes / quota_bytes if quota_bytes else 0.0
    return Usage(
        json_bytes=json_bytes, stored_bytes=stored_bytes, quota_bytes=quota_bytes, percent=round(share * 100, 1)
    )


def check_quota(found: Usage, size: int, *, optional: bool) -> None:
    """Raise QuotaReached when `size` more bytes do not fit; what is not optional may go a tenth above the quota."""
    limit = found.quota_bytes * (1.0 if optional else _ABOVE)
    if found.quota_bytes and found.stored_bytes + size > limit:
        what = "a periodic update" if optional else "a record"
        raise QuotaReached(
            f"Context Memory holds {found.stored_bytes} of {found.quota_bytes} bytes: {what} is refused; nothing"
            " that is stored is deleted. Raise context.quota_mib, or pack older iterations (gaiad context cleanup)",
            60.0,
        )
