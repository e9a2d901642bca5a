"""Finding records by time, iteration, agent, task and hypothesis; filters are a fixed list, never names from data."""

import sqlite3

from gaiad.base.errors import NotFound
from gaiad.context.bodies import Folders, read_json
from gaiad.context.records import ROW, epoch_ms, row_of
from gaiad.wire.context import RecordKind, RecordQuery, RecordRow, StateQuery, StoredRecord


def where_of(query: RecordQuery | StateQuery) -> tuple[str, list[object]]:
    """The conditions of a query on `context_records`, beginning with AND, and their values. Raises BadInput."""
    parts: list[tuple[str, object]] = []
    if query.since:
        parts.append(("at_ms >= ?", epoch_ms(query.since, "since")))
    if query.until:
        parts.append(("at_ms < ?", epoch_ms(query.until, "until")))
    if query.first_iteration:
        parts.append(("iteration >= ?", query.first_iteration))
    if query.last_iteration:
        parts.append(("iteration <= ?", query.last_iteration))
    return "".join(f" AND {condition}" for condition, _ in parts), [value for _, value in parts]


def find_records(connection: sqlite3.Connection, kind: RecordKind, query: RecordQuery) -> list[RecordRow]:
    """Those that fit, the newest by their own time first. Raises BadInput."""
    conditions, values = where_of(query)
    for column, wanted in (("agent", query.agent_type), ("task_id", query.task_id)):
        if wanted:
            conditions, values = f"{conditions} AND {column} = ?", [*values, wanted]
    source = "context_records AS r"
    if query.hypothesis_id:  # CROSS JOIN: from its mentions, which are few, to the records
        source = "context_mentions AS m CROSS JOIN context_records AS r ON r.number = m.record"
        conditions, values = f"{conditions} AND m.hypothesis = ?", [*values, query.hypothesis_id]
    found = connection.execute(
        f"SELECT {ROW}, (SELECT size FROM context_bodies AS b WHERE b.sha256 = r.sha256) FROM {source}"
        f" WHERE kind = ?{conditions} ORDER BY at_ms DESC, number DESC LIMIT ?",
        (kind, *values, query.limit),
    )
    return [row_of(row[:-1], row[-1]) for row in found]


def read_record(connection: sqlite3.Connection, folders: Folders, record_id: str) -> StoredRecord:
    """One record whole. Raises NotFound, DamagedBody."""
    row = connection.execute(
        f"SELECT {ROW}, (SELECT size FROM context_bodies AS b WHERE b.sha256 = r.sha256) FROM context_records AS r"
        " WHERE id = ?",
        (record_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"no record is called {record_id!r}; `gaiad context outputs` and `reviews` list the newest")
    found = row_of(row[:-1], row[-1])
    return StoredRecord(row=found, record=read_json(connection, folders, found.sha256))
