"""Older iterations are packed and stay readable; usage is watched; nothing is ever deleted by age.

An iteration is old when its newest record is. Files of packed bodies go once the pack that holds them is on the disk.
"""

import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from gaiad.base.errors import Unavailable
from gaiad.context.bodies import DamagedBody, file_of, read_body
from gaiad.context.packs import PACK_BYTES, add_pack
from gaiad.wire.context_keeping import CleanupReport, Usage

_ABOVE = 1.1
"""Of the quota: up to here what is not optional is still stored."""
_OLD = """
SELECT r.sha256 FROM context_records AS r JOIN context_iterations AS i USING (iteration) WHERE i.last_ms < ?1
UNION SELECT v.sha256 FROM context_versions AS v JOIN context_records AS r ON r.number = v.record
JOIN context_iterations AS i USING (iteration) WHERE i.last_ms < ?1
"""


class QuotaReached(Unavailable):
    """The tenant's quota is used up; what is stored stays."""

    code = "quota_reached"
    http_status = 507


class Packed(NamedTuple):
    """What one step did: bodies, their JSON bytes, what they take now; which could not be read, and files to remove."""

    bodies: int
    json_bytes: int
    stored_bytes: int
    damaged: list[str]
    files: list[Path]


def packable(connection: sqlite3.Connection, before_ms: int) -> CleanupReport:
    """What a cleanup would pack."""
    old = connection.execute("SELECT count(*) FROM context_iterations WHERE last_ms < ?", (before_ms,)).fetchone()[0]
    bodies, size = connection.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM context_bodies WHERE place <> 'pack' AND sha256 IN ({_OLD})",
        (before_ms,),
    ).fetchone()
    return CleanupReport(dry_run=True, iterations=old, bodies=bodies, json_bytes=size, stored_bytes=0, damaged=[])


def pack_some(connection: sqlite3.Connection, folder: Path, before_ms: int, leave: Collection[str]) -> Packed:
    """Pack the next bodies of old iterations, about PACK_BYTES of JSON; `leave` are hashes of damaged ones."""
    found = connection.execute(
        "SELECT sha256, place, size FROM context_bodies AS b WHERE place <> 'pack'"
        f" AND sha256 IN ({_OLD}) ORDER BY (SELECT min(number) FROM context_records AS r WHERE r.sha256 = b.sha256)",
        (before_ms,),
    )
    bodies: list[tuple[str, bytes]] = []
    damaged: list[str] = []
    files: list[Path] = []
    total = 0
    for sha256, place, size in found.fetchall():
        if total and total + size > PACK_BYTES:
            break
        if sha256 in leave:
            continue
        try:
            bodies.append((sha256, read_body(connection, folder, sha256)))
        except DamagedBody:
            damaged.append(sha256)
            continue
        total += size
        files += [file_of(folder, sha256)] if place == "file" else []
    stored = add_pack(connection, bodies) if bodies else 0
    return Packed(len(bodies), total, stored, damaged, files)


def usage(connection: sqlite3.Connection, quota_bytes: int) -> Usage:
    """What the tenant's context takes; `quota_bytes` 0 means no limit."""
    values = dict(connection.execute("SELECT name, value FROM context_usage").fetchall())
    share = values["stored"] / quota_bytes if quota_bytes else 0.0
    return Usage(
        json_bytes=values["json"], stored_bytes=values["stored"], quota_bytes=quota_bytes, percent=round(share * 100, 1)
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
