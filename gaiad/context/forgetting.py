"""Deletes records that quote what a person deletes, with their states, sums and checkpoints; in that one transaction.

An earlier version becomes the current one where the newest goes. Nothing of it comes back by an undo.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gaiad.context.aggregates import counted, uncount
from gaiad.context.bodies import Body, DamagedBody, Folders, file_of, keep_part, read_body, repack, unpack
from gaiad.context.export import KINDS
from gaiad.context.hypotheses import uncount_named
from gaiad.context.records import SYSTEM, agent_component
from gaiad.wire.context import RecordKind

Quotes = Callable[[str], bool]
"""Whether a text names what is deleted."""


class _Record(NamedTuple):
    number: int
    kind: RecordKind
    iteration: int
    agent: str
    sha256: str


def forget_quoting(
    folders_of: Callable[[str], Folders], connection: sqlite3.Connection, tenant: str, quotes: Quotes, *, dry_run: bool
) -> tuple[int, list[Path]]:
    """Delete what quotes; how many records, partial states and checkpoints, and the files that they leave.

    `folders_of` gives a tenant's folders. A damaged body is not looked into, and stays.
    """
    folders = folders_of(tenant)
    found = dict(_quoting(connection, folders, quotes))
    every = connection.execute("SELECT number, kind, iteration, agent, sha256 FROM context_records").fetchall()
    gone = [_Record(*row) for row in every if row[-1] in found]
    continued = [row for row in connection.execute("SELECT id, sha256 FROM context_continuations") if row[1] in found]
    manifests = connection.execute("SELECT id, body FROM context_checkpoints").fetchall()
    named = [name for name, body in manifests if quotes(text := body.decode()) or any(one in text for one in found)]
    if not dry_run and (found or named):
        connection.executemany("DELETE FROM context_checkpoints WHERE id = ?", [(name,) for name in named])
        connection.executemany("DELETE FROM context_continuations WHERE id = ?", [(name,) for name, _ in continued])
        for record in gone:
            _delete_record(connection, folders, record, found[record.sha256])
        return len(gone) + len(continued) + len(named), _delete_bodies(connection, folders, found)
    return len(gone) + len(continued) + len(named), []


def _quoting(connection: sqlite3.Connection, folders: Folders, quotes: Quotes) -> Iterator[tuple[str, bytes]]:
    """Hash and JSON of every body that quotes; a pack is unpacked once for all of its bodies."""
    names = connection.execute("SELECT sha256 FROM context_bodies WHERE place IN ('row', 'file')").fetchall()
    for (name,) in names:
        try:
            content = read_body(connection, folders, name)
        except DamagedBody:
            continue
        if quotes(content.decode()):
            yield name, content
    for (pack,) in connection.execute("SELECT number FROM context_packs").fetchall():
        yield from ((name, content) for name, content in unpack(connection, pack) if quotes(content.decode()))


def _delete_record(connection: sqlite3.Connection, folders: Folders, record: _Record, content: bytes) -> None:
    what = counted(msgspec.json.decode(content, type=KINDS[record.kind]))
    uncount(connection, record.kind, record.agent, what, record.iteration, len(content))
    connection.execute("DELETE FROM context_mentions WHERE record = ?", (record.number,))
    if what.named is not None:
        uncount_named(connection, what.named, record.number)
    connection.execute("DELETE FROM context_vectors WHERE record = ?", (record.number,))
    connection.execute("DELETE FROM context_advice WHERE review = ?", (record.number,))
    component = agent_component(record.agent) if record.kind == "output" else SYSTEM
    connection.execute("DELETE FROM context_versions WHERE component = ? AND record = ?", (component, record.number))
    connection.execute("DELETE FROM context_records WHERE number = ?", (record.number,))


def _delete_bodies(connection: sqlite3.Connection, folders: Folders, found: Mapping[str, bytes]) -> list[Path]:
    """Bodies, their parts, and their packs, which are packed again without them; files to remove."""
    parts = connection.execute("SELECT sha256, whole, start, size FROM context_bodies WHERE place = 'part'").fetchall()
    used = {name for (name,) in connection.execute("SELECT DISTINCT sha256 FROM context_versions")}
    for sha256, whole, start, size in parts:
        if whole in found and sha256 in used:
            keep_part(connection, Body(found[whole][start : start + size], sha256))
        elif whole in found:
            connection.execute("DELETE FROM context_bodies WHERE sha256 = ?", (sha256,))
    packs, files = set(), []
    for sha256 in found:
        place, pack = connection.execute(
            "SELECT place, pack FROM context_bodies WHERE sha256 = ?", (sha256,)
        ).fetchone()
        packs |= {pack} if place == "pack" else set()
        files += [file_of(folder, sha256) for folder in folders] if place == "file" else []
    for pack in packs:
        repack(connection, pack, leave_out=found)
    connection.executemany("DELETE FROM context_bodies WHERE sha256 = ?", [(sha256,) for sha256 in found])
    connection.executemany("DELETE FROM context_packs WHERE number = ?", [(pack,) for pack in packs])
    return files
