"""Which stored packets are turns of which session: rows that follow from the turns' originals.

A packet counts as a turn by its source, which only the memorizer writes: a file that claims to be one is read and
searched like any packet, and never becomes part of a conversation's history.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from gaiad.archive.reading.memo import MemoItems
from gaiad.archive.storing import memos
from gaiad.archive.storing.records import expand
from gaiad.clock import to_epoch_ms
from gaiad.memory_schemas import SessionTurn

SOURCE = "session_turn"  # no ingested file or document has a name without .xml or .json, so none has this one
_REMEMBERED = "source = 'session_turn'"  # spelled out, so that the index packets_remembered serves
_decode = msgspec.json.Decoder(SessionTurn).decode
_SESSION_COLUMNS = (
    "title, description, agent_id, classification, policy_tags, metadata, created_ms, updated_ms, turns, pages"
)


@dataclass(frozen=True, slots=True)
class KnownTurn:
    """A turn that is stored: its packet's row, and the turn as it was remembered."""

    packet: int
    turn: SessionTurn


def decode_turn(data: bytes) -> SessionTurn:
    """A turn from its original. Raises ValueError when the original is no turn."""
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a remembered turn cannot be read ({error})") from error


def next_sequence(connection: sqlite3.Connection, session_id: str) -> int:
    """The number after the session's last turn; 0 for a new session."""
    (last,) = connection.execute(
        "SELECT max(t.sequence) FROM turns t JOIN sessions s ON s.id = t.session WHERE s.session_id = ?", (session_id,)
    ).fetchone()
    return 0 if last is None else int(last) + 1


def find_turn(connection: sqlite3.Connection, turn_id: str) -> KnownTurn | None:
    """The stored turn of that id, in whatever session. Raises ValueError when its original is damaged."""
    row = connection.execute(
        "SELECT t.packet, o.codec, o.body FROM turns t JOIN originals o ON o.packet = t.packet WHERE t.turn_id = ?",
        (turn_id,),
    ).fetchone()
    return KnownTurn(row[0], decode_turn(expand(row[1], row[2]))) if row else None


def is_other_packet(connection: sqlite3.Connection, packet_id: str) -> bool:
    """Whether something that is no remembered turn has this id already."""
    row = connection.execute("SELECT 1 FROM packets WHERE packet_id = ? AND source <> ?", (packet_id, SOURCE))
    return row.fetchone() is not None


def turn_at(connection: sqlite3.Connection, session_id: str, sequence: int) -> str:
    """The id of the session's turn with that number, "" when there is none."""
    row = connection.execute(
        "SELECT t.turn_id FROM turns t JOIN sessions s ON s.id = t.session WHERE s.session_id = ? AND t.sequence = ?",
        (session_id, sequence),
    ).fetchone()
    return str(row[0]) if row else ""


def labelled(connection: sqlite3.Connection, turn: SessionTurn) -> SessionTurn:
    """The turn with the labels of its session beside its own: what is said in a labelled session is of that label."""
    row = connection.execute(
        "SELECT classification, policy_tags FROM sessions WHERE session_id = ?", (turn.session_id,)
    ).fetchone()
    if row is None:
        return turn
    classification, policy_tags = (msgspec.json.decode(labels, type=list[str]) for labels in row)
    return msgspec.structs.replace(
        turn,
        classification=list(dict.fromkeys((*classification, *turn.classification))),
        policy_tags=list(dict.fromkeys((*policy_tags, *turn.policy_tags))),
    )


def add_turn(
    connection: sqlite3.Connection, packet: int, turn: SessionTurn, items: Sequence[MemoItems], zone: tzinfo
) -> None:
    """Enter a stored packet as a turn, with the memos of its pages; a turn before the last renumbers the session.

    `items` are what its pages say, in reading order.
    """
    if turn.sequence >= next_sequence(connection, turn.session_id):
        pages = connection.execute("SELECT id FROM pages WHERE packet = ? ORDER BY sequence", (packet,)).fetchall()
        _append(connection, packet, turn, [page for (page,) in pages], items)
    else:
        rebuild(connection, turn.session_id, zone)


def rebuild(connection: sqlite3.Connection, session_id: str, zone: tzinfo) -> None:
    """Make a session's rows and memos anew from the originals of its turns. Raises ValueError for a damaged one."""
    packets = connection.execute(f"SELECT id FROM packets WHERE {_REMEMBERED} AND session_id = ?", (session_id,))
    turns = sorted(
        ((_stored_turn(connection, packet), packet) for (packet,) in packets.fetchall()), key=lambda it: it[0].sequence
    )
    found = connection.execute("SELECT id FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if found:
        memos.forget_known(connection, found[0])
        connection.execute("DELETE FROM turns WHERE session = ?", found)
        connection.execute("UPDATE sessions SET turns = 0, pages = 0 WHERE id = ?", found)
    connection.executemany("DELETE FROM turns WHERE packet = ?", [(packet,) for _, packet in turns])
    for turn, packet in turns:
        pages = connection.execute(
            "SELECT id, text, speaker, timestamp_ms FROM pages WHERE packet = ? ORDER BY sequence", (packet,)
        ).fetchall()
        said = [(text, speaker) for _, text, speaker, _ in pages]
        items = memos.read_items(said, turn, pages[0][3], zone) if pages else []
        _append(connection, packet, turn, [page[0] for page in pages], items)


def remembered_sessions(connection: sqlite3.Connection) -> list[str]:
    """Every session that has a remembered turn, read from the packets themselves: reindex starts from here."""
    rows = connection.execute(f"SELECT DISTINCT session_id FROM packets WHERE {_REMEMBERED}")
    return [str(session_id) for (session_id,) in rows]


def drop_empty(connection: sqlite3.Connection) -> None:
    """Forget sessions that have no turn."""
    connection.execute("DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)")


def not_entered(connection: sqlite3.Connection) -> int:
    """How many remembered turns stand in no session: 0 unless the file was changed from outside."""
    (count,) = connection.execute(
        f"SELECT count(*) FROM packets WHERE {_REMEMBERED}"
        " AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.packet = packets.id)"
    ).fetchone()
    return int(count)


def _stored_turn(connection: sqlite3.Connection, packet: int) -> SessionTurn:
    row = connection.execute("SELECT codec, body FROM originals WHERE packet = ?", (packet,)).fetchone()
    if row is None:
        raise ValueError(f"packet row {packet}: its original is missing; restore the last backup (gaiad restore DIR)")
    return decode_turn(expand(*row))


def _append(
    connection: sqlite3.Connection, packet: int, turn: SessionTurn, pages: Sequence[int], items: Sequence[MemoItems]
) -> None:
    """Put a turn behind the last of its session."""
    row = connection.execute(
        f"SELECT id, {_SESSION_COLUMNS} FROM sessions WHERE session_id = ?", (turn.session_id,)
    ).fetchone()
    known = row[1:] if row and row[-2] else None  # with no turns left its words are of turns that are gone
    values = _described(known, turn, len(pages))
    marks = ", ".join("?" * len(values))
    if row:
        session = row[0]
        connection.execute(f"UPDATE sessions SET ({_SESSION_COLUMNS}) = ({marks}) WHERE id = ?", (*values, session))
    else:
        session = connection.execute(
            f"INSERT INTO sessions (session_id, {_SESSION_COLUMNS}) VALUES (?, {marks})", (turn.session_id, *values)
        ).lastrowid
    connection.execute(
        "INSERT INTO turns (packet, session, turn_id, sequence, first_page) VALUES (?, ?, ?, ?, ?)",
        (packet, session, turn.turn_id, turn.sequence, known[-1] if known else 0),
    )
    memos.write_memos(connection, session, pages, items)


def _described(known: Sequence[Any] | None, turn: SessionTurn, pages: int) -> tuple[Any, ...]:
    """A session's columns after one more turn: the newest words about it hold, labels add up."""
    began, ended = _milliseconds(turn.started_at), _milliseconds(turn.ended_at or turn.started_at)
    title, description, agent, classification, policy_tags, metadata, created, updated, turns, had = known or (
        ("", "", "", "[]", "[]", "{}", began, ended, 0, 0)
    )
    return (
        turn.title or title,
        turn.description or description,
        turn.agent_id or agent,
        _text(list(dict.fromkeys((*msgspec.json.decode(classification), *turn.classification)))),
        _text(list(dict.fromkeys((*msgspec.json.decode(policy_tags), *turn.policy_tags)))),
        _text({**msgspec.json.decode(metadata), **turn.session_metadata}),
        min(created, began),
        max(updated, ended),
        turns + 1,
        had + pages,
    )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _milliseconds(moment: str) -> int:
    parsed = datetime.fromisoformat(moment)
    return to_epoch_ms(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
