"""Writes the memos of a turn's pages; runs on the writer's connection, in the turn's own commit.

What a session knows already is a set of keys beside it, so a memo costs the same in the tenth turn and the thousandth.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date, tzinfo

import msgspec

from gaiad.archive.reading.memo import MEMO_VERSION, MemoItems, implied_keys, keep_items, memo_keys, read_memo
from gaiad.clock import from_epoch_ms
from gaiad.memory_schemas import SessionTurn

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MemoItems).decode
_UNANSWERED = frozenset(("NOT_FOUND", "PARTIAL", "CLARIFY", "FAILED", "CANCELLED"))


def read_items(pages: Iterable[tuple[str, str]], turn: SessionTurn, timestamp_ms: int, zone: tzinfo) -> list[MemoItems]:
    """What each page of a turn, (text, speaker), says by itself. Pure: the writer need not wait for it."""
    answered = bool(turn.answer.strip()) and turn.status.upper() not in _UNANSWERED
    day = _day(timestamp_ms, zone)
    return [read_memo(text, day, answered=answered and speaker != "assistant") for text, speaker in pages]


def write_memos(connection: sqlite3.Connection, session: int, pages: Sequence[int], items: Sequence[MemoItems]) -> None:
    """The memos of page rows in reading order: what their items add to what the session knows; replaces old ones."""
    connection.executemany(
        "INSERT OR REPLACE INTO memos (page, memo_version, body) VALUES (?, ?, ?)",
        [
            (page, MEMO_VERSION, _encode(_fresh(connection, session, found)))
            for page, found in zip(pages, items, strict=True)
        ],
    )


def forget_known(connection: sqlite3.Connection, session: int) -> None:
    """The session knows nothing: before its memos are made anew from the first page on."""
    connection.execute("DELETE FROM session_knows WHERE session = ?", (session,))


def decode_memo(body: bytes) -> MemoItems:
    """A memo as stored."""
    return _decode(body)


def _fresh(connection: sqlite3.Connection, session: int, items: MemoItems) -> MemoItems:
    fresh: list[str] = []
    for key, item in memo_keys(items):
        if _learn(connection, session, key):
            fresh.append(item)
    for name in items.names:
        for key in implied_keys(name):
            _learn(connection, session, key)
    return keep_items(items, fresh)


def _learn(connection: sqlite3.Connection, session: int, key: str) -> bool:
    """True when the session did not know `key` before."""
    inserted = connection.execute(
        "INSERT INTO session_knows (session, key) VALUES (?, ?) ON CONFLICT DO NOTHING", (session, key)
    )
    return inserted.rowcount > 0


def _day(timestamp_ms: int, zone: tzinfo) -> date:
    moment = from_epoch_ms(timestamp_ms)
    try:
        return moment.astimezone(zone).date()
    except OverflowError:  # the first or last day of the calendar
        return moment.date()


def outdated(connection: sqlite3.Connection) -> int:
    """How many pages of turns have no memo, or one by older rules."""
    (count,) = connection.execute(
        "SELECT count(*) FROM turns t JOIN pages g ON g.packet = t.packet LEFT JOIN memos m ON m.page = g.id"
        " WHERE m.page IS NULL OR m.memo_version <> ?",
        (MEMO_VERSION,),
    ).fetchone()
    return int(count)
