"""Which stored packets are turns of which session: rows that follow from the turns' originals.

A packet counts as a turn by its source, which only the memorizer writes: a file that claims to be one is read and
searched like any packet, and never becomes part of a conversation's history.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Any

import msgspec

from gaiad.archive.reading.memo import MEMO_VERSION, MemoItems, implied_keys, keep_items, memo_keys, read_memo
from gaiad.archive.storing.records import expand
from gaiad.base.clock import from_epoch_ms, to_epoch_ms
from gaiad.base.errors import BadInput, NotFound
from gaiad.wire.memory import SessionTurn

_encode = msgspec.msgpack.Encoder().encode
_decode_memos = msgspec.msgpack.Decoder(MemoItems).decode
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
    """The session knows nothing: before its memos are made again from the first page on."""
    connection.execute("DELETE FROM session_knows WHERE session = ?", (session,))


def decode_memo(body: bytes) -> MemoItems:
    """A memo as stored."""
    return _decode_memos(body)


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


SOURCE = "session_turn"  # no ingested file or document has a name without .xml or .json, so none has this one
_REMEMBERED = "source = 'session_turn'"  # spelled out, so that the index packets_remembered serves
_decode = msgspec.json.Decoder(SessionTurn).decode
_SESSION_COLUMNS = (
    "title, description, agent_id, classification, policy_tags, metadata, created_ms, updated_ms, turns, pages"
)


_TITLE_CHARS = 200
_NAMED = "named"  # in a session's metadata: the title that the person gave it, which no turn changes


@dataclass(frozen=True, slots=True)
class KnownTurn:
    """A turn that is stored: its packet's row, and the turn as it was remembered."""

    packet: int
    turn: SessionTurn


def decode_turn(data: bytes) -> SessionTurn:
    """A turn from its original. Raises ValueError when the original is not a turn."""
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
    """Whether something that is not a remembered turn has this id already."""
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
    """Make a session's rows and memos again from the originals of its turns. Raises ValueError for a damaged one."""
    packets = connection.execute(f"SELECT id FROM packets WHERE {_REMEMBERED} AND session_id = ?", (session_id,))
    turns = sorted(
        ((_stored_turn(connection, packet), packet) for (packet,) in packets.fetchall()), key=lambda it: it[0].sequence
    )
    found = connection.execute("SELECT id FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if found:
        forget_known(connection, found[0])
        connection.execute("DELETE FROM turns WHERE session = ?", found)
        connection.execute("UPDATE sessions SET turns = 0, pages = 0 WHERE id = ?", found)
    connection.executemany("DELETE FROM turns WHERE packet = ?", [(packet,) for _, packet in turns])
    for turn, packet in turns:
        pages = connection.execute(
            "SELECT id, text, speaker, timestamp_ms FROM pages WHERE packet = ? ORDER BY sequence", (packet,)
        ).fetchall()
        said = [(text, speaker) for _, text, speaker, _ in pages]
        items = read_items(said, turn, pages[0][3], zone) if pages else []
        _append(connection, packet, turn, [page[0] for page in pages], items)


def remembered_sessions(connection: sqlite3.Connection) -> list[str]:
    """Every session that has a remembered turn, read from the packets themselves: reindex starts from here."""
    rows = connection.execute(f"SELECT DISTINCT session_id FROM packets WHERE {_REMEMBERED}")
    return [str(session_id) for (session_id,) in rows]


def rename(connection: sqlite3.Connection, session_id: str, title: str) -> None:
    """Give a session a title of the person's own; "" takes it away. Raises BadInput, NotFound."""
    title = " ".join(title.split())
    if len(title) > _TITLE_CHARS:
        raise BadInput(f"the title has {len(title)} characters; give at most {_TITLE_CHARS}")
    row = connection.execute("SELECT metadata FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"no session {session_id!r} in this tenant; `gaiad sessions list` shows them")
    metadata = {name: value for name, value in msgspec.json.decode(row[0]).items() if name != _NAMED}
    metadata |= {_NAMED: title} if title else {}
    connection.execute(
        "UPDATE sessions SET title = ?, metadata = ? WHERE session_id = ?", (title, _text(metadata), session_id)
    )


def drop_empty(connection: sqlite3.Connection) -> None:
    """Forget sessions that have no turn."""
    connection.execute("DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id)")


def not_entered(connection: sqlite3.Connection) -> int:
    """How many remembered turns belong to no session: 0 unless the file was changed from outside."""
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
    named = msgspec.json.decode(row[6]).get(_NAMED, "") if row else ""
    values = _described(known, turn, len(pages), named)
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
    write_memos(connection, session, pages, items)


def _described(known: Sequence[Any] | None, turn: SessionTurn, pages: int, named: str) -> tuple[Any, ...]:
    """A session's columns after one more turn: the newest words about it hold, labels add up.

    `named` is the title that the person gave it, "" for none.
    """
    began, ended = _milliseconds(turn.started_at), _milliseconds(turn.ended_at or turn.started_at)
    title, description, agent, classification, policy_tags, metadata, created, updated, turns, had = known or (
        ("", "", "", "[]", "[]", "{}", began, ended, 0, 0)
    )
    return (
        named or turn.title or title,
        turn.description or description,
        turn.agent_id or agent,
        _text(list(dict.fromkeys((*msgspec.json.decode(classification), *turn.classification)))),
        _text(list(dict.fromkeys((*msgspec.json.decode(policy_tags), *turn.policy_tags)))),
        _text({**msgspec.json.decode(metadata), **turn.session_metadata, **({_NAMED: named} if named else {})}),
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
