"""Makes everything derived again from the originals, in batches, while the old rows serve.

A batch is one commit, so a stop or a crash leaves each packet either as it was or as it should be; starting over is
safe. Page ids follow from hash and sequence and stay; vectors of pages that read the same stay too.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from gaiad.archive.keeping import verify
from gaiad.archive.keeping.verify import Progress, intact_bytes
from gaiad.archive.reading.derive import Derived, derive
from gaiad.archive.storing import quarantine, records, sessions
from gaiad.archive.storing.records import WriteResult
from gaiad.base.config import Config
from gaiad.base.errors import PacketRejected
from gaiad.store.file import DatabaseFile

_BATCH = 8  # packets a commit: others wait for the writer no longer than one takes
_Ready = list[tuple[int, Derived]]


@dataclass(slots=True)
class _Tally:
    packets: int = 0
    pages_changed: int = 0
    released: int = 0
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


def reindex(
    file: DatabaseFile,
    config: Config,
    zone: tzinfo,
    changed: Callable[[WriteResult], None],
    check: Callable[[], None],
    progress: Progress,
) -> dict[str, Any]:
    """{packets, pages_changed, released, sessions, text_index, problems}; released quarantined files read well now.

    `check` raises when the caller went away; what was done up to then stays.
    """
    index_problem = file.write(_mend_text_index)
    rowids = file.read(lambda connection: verify.row_ids(connection, None))
    tally = _Tally()
    for start in range(0, len(rowids), _BATCH):
        check()
        batch = rowids[start : start + _BATCH]
        ready = _derive_batch(file, batch, config, zone, tally.problems)
        change = file.write(lambda connection, ready=ready: _rewrite_batch(connection, ready), background=True)  # type: ignore[misc]
        changed(change)
        tally.packets += len(ready)
        tally.pages_changed += len(change.stale_pages)
        progress(start + len(batch), len(rowids))
    _rebuild_sessions(file, zone, check, tally)
    tally.released = _retry_quarantine(file, config, zone, changed, check)
    index_problem = file.write(_mend_text_index) or index_problem
    return {
        "packets": tally.packets,
        "pages_changed": tally.pages_changed,
        "released": tally.released,
        "sessions": tally.sessions,
        "text_index": f"rebuilt: {index_problem}" if index_problem else "in order",
        "problems": tally.problems,
    }


def _mend_text_index(connection: sqlite3.Connection) -> str:
    problem = records.check_text_contents(connection)
    if problem:
        records.rebuild_text_index(connection)
    return problem


def _derive_batch(
    file: DatabaseFile, rowids: Sequence[int], config: Config, zone: tzinfo, problems: list[str]
) -> _Ready:
    """What can be derived; a packet that cannot keeps its rows, and the problem is reported."""
    ready: _Ready = []
    for rowid in rowids:
        try:
            original = file.read(lambda connection, rowid=rowid: verify.load(connection, rowid))  # type: ignore[misc]
            data = intact_bytes(original)
            derived = derive(data, original.source, original.modified_ms, config.packets, config.archive, zone)
        except ValueError as error:
            problems.append(str(error))
        except PacketRejected as error:
            problems.append(f"{original.label}: no longer read as a packet ({error.message}); its old rows stay")
        else:
            ready.append((rowid, derived))
    return ready


def _rewrite_batch(connection: sqlite3.Connection, ready: _Ready) -> WriteResult:
    change = WriteResult()
    for rowid, derived in ready:
        change.add(records.rewrite(connection, rowid, derived))
    return change


def _rebuild_sessions(file: DatabaseFile, zone: tzinfo, check: Callable[[], None], tally: _Tally) -> None:
    """Order, numbers and memos of every session, one commit each; one with a damaged turn keeps what it had."""
    for session_id in file.read(sessions.remembered_sessions):
        check()

        def rebuild(connection: sqlite3.Connection, session_id: str = session_id) -> None:
            sessions.rebuild(connection, session_id, zone)

        try:
            file.write(rebuild, background=True)
        except ValueError as error:
            tally.problems.append(f"session {session_id}: {error}")
        else:
            tally.sessions += 1
    file.write(sessions.drop_empty)


def _retry_quarantine(
    file: DatabaseFile,
    config: Config,
    zone: tzinfo,
    changed: Callable[[WriteResult], None],
    check: Callable[[], None],
) -> int:
    """Read every quarantined file again; a newer reader may understand it. Returns how many became packets."""
    released = 0
    for rowid in file.read(quarantine.kept_ids):
        check()
        path, body, at_ms = file.read(lambda connection, rowid=rowid: quarantine.kept(connection, rowid))  # type: ignore[misc]
        try:
            derived = derive(records.expand(records.CODEC, body), path, at_ms, config.packets, config.archive, zone)
        except (PacketRejected, ValueError):
            continue  # its row and reason stay
        change = file.write(
            lambda connection, derived=derived, body=body, path=path, at_ms=at_ms: _release(  # type: ignore[misc]
                connection, derived, body, path, at_ms
            )
        )
        changed(change)
        released += change.packets
    return released


def _release(connection: sqlite3.Connection, derived: Derived, body: bytes, path: str, at_ms: int) -> WriteResult:
    change = WriteResult()
    if records.holder(connection, derived.packet, path):
        return change
    if records.find_by_hash(connection, derived.packet.sha256) is None:
        change.add(records.insert(connection, derived, body, path, at_ms, at_ms)[1])
    change.quarantined -= quarantine.resolve(connection, path, derived.packet.sha256)
    return change
