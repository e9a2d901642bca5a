"""Verdicts on packets as they are stored: one for each packet and question, the newest holds.

The rows lie in the tenant's own database, so they are backed up with the packets; a packet that is deleted takes its
verdicts along (a trigger of the schema).
"""

import json
import sqlite3
from collections.abc import Collection
from typing import NamedTuple

from gaiad.base.clock import from_epoch_ms, to_iso
from gaiad.wire.memory import FeedbackRow, Rating


class StoredVerdict(NamedTuple):
    """A verdict on a packet, by the packet's id."""

    packet_id: str
    query: str
    useful: bool


def knows(connection: sqlite3.Connection, packet_id: str) -> bool:
    """Whether there is such a packet."""
    return connection.execute("SELECT 1 FROM packets WHERE packet_id = ?", (packet_id,)).fetchone() is not None


def give(connection: sqlite3.Connection, packet_id: str, query: str, at_ms: int, *, useful: bool) -> None:
    """Write a verdict; an earlier one on the same packet for the same question gives way."""
    connection.execute(
        "INSERT INTO feedback (packet_id, query, useful, at_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (packet_id, query) DO UPDATE SET useful = excluded.useful, at_ms = excluded.at_ms",
        (packet_id, query, useful, at_ms),
    )


def newest(connection: sqlite3.Connection, limit: int) -> list[FeedbackRow]:
    """The last `limit` verdicts, newest first."""
    rows = connection.execute(
        "SELECT packet_id, query, useful, at_ms FROM feedback ORDER BY at_ms DESC, packet_id, query LIMIT ?", (limit,)
    )
    return [
        FeedbackRow(
            packet_id=packet_id,
            verdict="useful" if useful else "not-useful",
            query=query,
            at=to_iso(from_epoch_ms(at_ms)),
        )
        for packet_id, query, useful, at_ms in rows
    ]


def given(connection: sqlite3.Connection, query: str, packet_ids: Collection[str]) -> dict[str, Rating]:
    """The verdicts on these packets for exactly this question, by the packet's id."""
    rows = connection.execute(
        "SELECT packet_id, useful FROM feedback"
        " WHERE query = ? AND packet_id IN (SELECT value FROM json_each(?)) ORDER BY packet_id",
        (query, json.dumps(sorted(packet_ids))),
    )
    return {packet_id: "useful" if useful else "not-useful" for packet_id, useful in rows}


def judged(connection: sqlite3.Connection) -> set[str]:
    """The packets on which there is a verdict."""
    return {packet_id for (packet_id,) in connection.execute("SELECT DISTINCT packet_id FROM feedback")}


def reset(connection: sqlite3.Connection, packet_id: str, query: str | None = None, kept: Collection[str] = ()) -> int:
    """Forget the verdicts on a packet, with "" on all; with `query` only those for that question. How many it were.

    Those on the packets `kept` stay.
    """
    return connection.execute(
        "DELETE FROM feedback WHERE (:packet_id = '' OR packet_id = :packet_id) AND (:query IS NULL OR query = :query)"
        " AND packet_id NOT IN (SELECT value FROM json_each(:kept))",
        {"packet_id": packet_id, "query": query, "kept": json.dumps(sorted(kept))},
    ).rowcount


def version(connection: sqlite3.Connection) -> int:
    """Counts every change of the verdicts."""
    (value,) = connection.execute("SELECT value FROM changes WHERE name = 'feedback'").fetchone()
    return int(value)


def stored(connection: sqlite3.Connection) -> list[StoredVerdict]:
    """Every verdict."""
    rows = connection.execute("SELECT packet_id, query, useful FROM feedback ORDER BY packet_id, query")
    return [StoredVerdict(packet_id, query, bool(useful)) for packet_id, query, useful in rows]


def current_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """The row of every current packet with a verdict, by the packet's id."""
    return dict(
        connection.execute(
            "SELECT packet_id, id FROM packets WHERE current = 1 AND packet_id IN (SELECT packet_id FROM feedback)"
        ).fetchall()
    )
