"""Deletes packets with everything that holds their words, and puts them back while that is still possible.

What is deleted is kept aside for a day in the table `forgotten`, originals and rows, so that undo can derive the rest
again; after that, or at once, it is wiped from the file. Logs and chat turns that quote a deleted packet go with it.
"""

import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

import msgspec

from gaiad.archive.finding.filters import Labels, not_hidden
from gaiad.archive.reading.conversation import MEDIA_TYPE
from gaiad.archive.reading.derive import derive
from gaiad.archive.storing import arrivals, records, sessions
from gaiad.archive.storing.records import WriteResult, unindex_pages
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, NotFound
from gaiad.store.database import chunks, marks
from gaiad.wire.schemas import ForgetReport, ForgetRequest, Forgotten

UNDO_MS = 24 * 60 * 60 * 1000
_TITLES = 10  # shown of what would go
_WORD = re.compile(r"[\w.:-]+")
_LOGS = {  # table: (key, column that may quote a packet)
    "cognition_packets": ("full_id", "body"),
    "turn_records": ("turn_id", "body"),
    "council_messages": ("full_id", "body"),
    "escalations": ("message_id", "body"),
    "approvals": ("id", "body"),
    "deliveries": ("number", "text"),
    "seeds": ("seed_id", "text"),
    "research_runs": ("research_id", "body"),
    "job_log": ("job_id || ' ' || number", "body"),
    "journal": ("run || ' ' || key", "coalesce(result, '')"),
}
_OF_TURNS = ("cognition_packets", "turn_records", "council_messages", "deliveries", "seeds")


class DeletionSet(NamedTuple):
    """What goes: packet rows and their ids, chat turns that quote them, and rows of logs by table."""

    rows: list[int]
    packet_ids: set[str]
    quoting: int
    logs: dict[str, list[Any]]


def choose(connection: sqlite3.Connection, request: ForgetRequest, hidden: Labels = ()) -> DeletionSet:
    """Everything that would go, but for packets with a `hidden` label.

    Raises BadInput unless exactly one kind is named, NotFound for what is not there.
    """
    aside = _set_aside_before(connection, request)
    rows = list(dict.fromkeys(_named(connection, request, not_hidden("id", hidden), aside)))
    calls = _calls_outside_turns(connection) if request.everything else []
    if not (rows or aside or calls):
        raise NotFound("nothing matches; `gaiad packets list` and `gaiad sessions list` show what is there")
    chosen = _with_quotes(connection, rows, aside | _ids_of(connection, rows))
    chosen.logs["cognition_packets"] = list(dict.fromkeys([*chosen.logs["cognition_packets"], *calls]))
    return chosen


def choose_late(connection: sqlite3.Connection, packet_ids: Collection[str]) -> DeletionSet:
    """What was written about deleted packets after they had gone; not of those that came back meanwhile.

    A turn that had one of them before it goes whole, whatever it says.
    """
    back = _rows_with(connection, "packet_id", [*packet_ids], "")
    gone = set(packet_ids) - _ids_of(connection, back)
    rows: list[int] = []
    if gone:
        names = PacketNames(gone)
        packets = connection.execute("SELECT turn_id, body FROM cognition_packets WHERE turn_id != ''")
        turns = {turn for turn, body in packets if names.stand_in(_readable(body))}
        for chunk in chunks([*turns]):
            found = connection.execute(f"SELECT packet FROM turns WHERE turn_id IN ({marks(chunk)})", chunk)
            rows += [row for (row,) in found]
    return _with_quotes(connection, rows, gone | _ids_of(connection, rows))


def _with_quotes(connection: sqlite3.Connection, rows: list[int], ids: set[str]) -> DeletionSet:
    """These packets with the turns and logs that quote them."""
    quoting = [row for row in _quoting_turns(connection, ids) if row not in set(rows)]
    rows = [*rows, *quoting]
    ids = ids | _ids_of(connection, quoting)
    return DeletionSet(rows, ids, len(quoting), _quoting_logs(connection, rows, ids))


def _calls_outside_turns(connection: sqlite3.Connection) -> list[str]:
    """What belongs to no turn, and need not name a packet."""
    return [full_id for (full_id,) in connection.execute("SELECT full_id FROM cognition_packets WHERE turn_id = ''")]


def report_on(connection: sqlite3.Connection, chosen: DeletionSet) -> ForgetReport:
    """What would go, for the person who decides."""
    found = [row for chunk in chunks(chosen.rows) for row in _of_rows(connection, "packet_id, topic, source", chunk)]
    pages = sum(
        connection.execute(f"SELECT count(*) FROM pages WHERE packet IN ({marks(chunk)})", chunk).fetchone()[0]
        for chunk in chunks(chosen.rows)
    )
    titles = list(dict.fromkeys(topic or packet_id for packet_id, topic, _ in found))
    return ForgetReport(
        packets=len(chosen.packet_ids) - chosen.quoting,
        pages=pages,
        quoting_turns=chosen.quoting,
        log_entries=sum(len(keys) for keys in chosen.logs.values()),
        titles=titles[:_TITLES],
        sources=sorted({source for _, _, source in found if source.startswith("/")}),
    )


def forget(
    connection: sqlite3.Connection, chosen: DeletionSet, forget_id: str, now_ms: int, zone: tzinfo, *, keep: bool
) -> WriteResult:
    """Delete what was chosen; `keep` sets the originals aside for undo. In one transaction.

    Without it, what earlier deletions of the same packets set aside goes too.
    """
    change = WriteResult()
    if not keep:
        _wipe_aside(connection, chosen.packet_ids)
    touched = {row[0] for chunk in chunks(chosen.rows) for row in _of_rows(connection, "session_id", chunk)}
    titles = {row[0] for chunk in chunks(chosen.rows) for row in _of_rows(connection, "topic", chunk)}
    _untitle_jobs(connection, titles - {""})
    for table, keys in chosen.logs.items():
        key = _LOGS[table][0]
        connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", [(one,) for one in keys])
    for row in chosen.rows:
        if keep:
            _set_aside(connection, row, forget_id, now_ms)
        change.add(_delete(connection, row))
    for session_id in sorted(touched - {""}):
        sessions.rebuild(connection, session_id, zone)
    sessions.drop_empty(connection)
    return change


def undo(connection: sqlite3.Connection, forget_id: str, config: Config, zone: tzinfo) -> tuple[int, WriteResult]:
    """Put the packets of one deletion back; how many. Raises NotFound. Logs that quoted them do not come back."""
    kept = connection.execute(
        "SELECT fields, codec, body FROM forgotten WHERE forget_id = ? ORDER BY revision", (forget_id,)
    ).fetchall()
    if not kept:
        raise NotFound(f"no deletion {forget_id!r} can be undone; `gaiad forget list` shows those that can")
    change, touched, restored = WriteResult(), set(), 0
    for fields, codec, body in kept:
        row = msgspec.msgpack.decode(fields, type=dict[str, Any])
        if records.find_by_hash(connection, row["sha256"]):
            continue  # it came in again meanwhile
        data, source, modified_ms = records.expand(codec, body), row["source"], row["modified_ms"]
        derived = derive(data, source, modified_ms, config.packets, config.archive, zone)
        change.add(records.insert(connection, derived, body, source, modified_ms, row["received_ms"])[1])
        restored += 1
        arrivals.forget_deleted(connection, [row["packet_id"]])
        if source == sessions.SOURCE:
            touched.add(row["session_id"])
    for session_id in sorted(touched):
        sessions.rebuild(connection, session_id, zone)
    connection.execute("DELETE FROM forgotten WHERE forget_id = ?", (forget_id,))
    return restored, change


def undoable(connection: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    """(forget_id, packets, at_ms, purge_ms) of each deletion that can be undone, newest first."""
    return connection.execute(
        "SELECT forget_id, count(DISTINCT packet_id), min(at_ms), min(purge_ms) FROM forgotten"
        " GROUP BY forget_id ORDER BY 3 DESC"
    ).fetchall()


def as_forgotten(row: tuple[str, int, int, int], iso: Callable[[int], str]) -> Forgotten:
    """A row of `undoable` for the wire; `iso` writes milliseconds as a time."""
    return Forgotten(forget_id=row[0], packets=row[1], forgotten_at=iso(row[2]), undo_until=iso(row[3]))


def expired(connection: sqlite3.Connection, before_ms: int) -> list[str]:
    """Packets that came before this moment, oldest first; one of a conversation only once all of that did."""
    found = connection.execute(
        "SELECT packet_id FROM packets AS p WHERE current = 1 AND received_ms < ?"
        " AND NOT EXISTS (SELECT 1 FROM packets AS q"
        " WHERE q.current = 1 AND q.session_id = p.session_id AND p.session_id != '' AND q.received_ms >= ?)"
        " ORDER BY received_ms",
        (before_ms, before_ms),
    )
    return [packet_id for (packet_id,) in found]


def purge(connection: sqlite3.Connection, now_ms: int) -> int:
    """Drop what can no longer be undone, and the words it left in the text index; how many packets."""
    dropped = connection.execute("DELETE FROM forgotten WHERE purge_ms <= ?", (now_ms,)).rowcount
    connection.execute("INSERT INTO pages_text (pages_text) VALUES ('optimize')")
    return dropped


def _set_aside_before(connection: sqlite3.Connection, request: ForgetRequest) -> set[str]:
    """Packets that were deleted before, can still be put back, and are to go for good with this request."""
    if not request.now:
        return set()
    aside = {row[0] for row in connection.execute("SELECT DISTINCT packet_id FROM forgotten")}
    return aside if request.everything else aside & {*request.packet_ids, *request.session_ids}


def _named(connection: sqlite3.Connection, request: ForgetRequest, shown: str, aside: Collection[str]) -> list[int]:
    kinds = [bool(request.packet_ids), bool(request.session_ids), bool(request.import_id), request.everything]
    if sum(kinds) != 1:
        raise BadInput("name exactly one of: packet_ids, session_ids, import_id, everything")
    if request.everything:
        return [row for (row,) in connection.execute(f"SELECT id FROM packets WHERE 1{shown}")]
    if request.session_ids:
        return _rows_with(connection, "session_id", request.session_ids, shown)
    ids = request.packet_ids or _imported(connection, request.import_id)
    found = _rows_with(connection, "packet_id", ids, shown)
    found += _rows_with(connection, "session_id", ids, f" AND media_type = '{MEDIA_TYPE}'{shown}")  # its later parts
    known = {row[0] for chunk in chunks(found) for row in _of_rows(connection, "packet_id", chunk)}
    missing = set(request.packet_ids) - known - set(aside)
    if missing:
        raise NotFound(f"no packet is called {sorted(missing)[0]!r}; `gaiad packets list` shows those there are")
    return found


def _imported(connection: sqlite3.Connection, job_id: str) -> list[str]:
    """Packets that an import brought or revised: those of its log, and those that name it, when the log is gone."""
    named = connection.execute(
        "SELECT DISTINCT p.packet_id FROM metadata m JOIN packets p ON p.id = m.packet"
        " WHERE m.key = 'import' AND m.value = ?",
        (job_id,),
    ).fetchall()
    rows = connection.execute("SELECT body FROM job_log WHERE job_id = ?", (job_id,)).fetchall()
    entries = [msgspec.json.decode(body, type=dict[str, Any]) for (body,) in rows]
    if not rows and not named and not connection.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job_id,)).fetchone():
        raise NotFound(f"no import is called {job_id!r}; `gaiad jobs list` shows them")
    logged = [entry["packet_id"] for entry in entries if entry.get("outcome") in ("accepted", "revised")]
    return list(dict.fromkeys([*logged, *(packet_id for (packet_id,) in named)]))


def _rows_with(connection: sqlite3.Connection, column: str, values: Sequence[str], shown: str) -> list[int]:
    return [
        row
        for chunk in chunks(values)
        for (row,) in connection.execute(f"SELECT id FROM packets WHERE {column} IN ({marks(chunk)}){shown}", chunk)
    ]


def _ids_of(connection: sqlite3.Connection, rows: Sequence[int]) -> set[str]:
    return {row[0] for chunk in chunks(rows) for row in _of_rows(connection, "packet_id", chunk)}


def _of_rows(connection: sqlite3.Connection, columns: str, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(f"SELECT {columns} FROM packets WHERE id IN ({marks(rows)})", rows)


def _quoting_turns(connection: sqlite3.Connection, ids: Collection[str]) -> list[int]:
    """Remembered chat turns whose text names one of the packets."""
    found = connection.execute(
        f"SELECT packet, text FROM pages JOIN packets ON packets.id = packet WHERE packets.source = '{sessions.SOURCE}'"
    )
    names = PacketNames(ids)
    return list(dict.fromkeys(packet for packet, text in found if names.stand_in(text)))


def _quoting_logs(connection: sqlite3.Connection, rows: Sequence[int], ids: Collection[str]) -> dict[str, list[Any]]:
    """Keys of log rows that belong to a chosen turn or name a chosen packet."""
    turns = {
        turn
        for chunk in chunks(rows)
        for (turn,) in connection.execute(f"SELECT turn_id FROM turns WHERE packet IN ({marks(chunk)})", chunk)
    }
    found: dict[str, list[Any]] = {}
    names = PacketNames(ids)
    for table, (key, column) in _LOGS.items():
        turn = "turn_id" if table in _OF_TURNS else "''"
        entries = connection.execute(f"SELECT {key}, {turn}, {column} FROM {table}")
        found[table] = [one for one, turn_id, text in entries if turn_id in turns or names.stand_in(_readable(text))]
    return found


def _readable(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    data = bytes(value)
    if data[:1] == b"\x78":  # zlib
        data = zlib.decompress(data)
    return data.decode("utf-8", "replace")


class PacketNames:
    """Packet ids to look for in many texts."""

    def __init__(self, ids: Collection[str]) -> None:
        self._words = {one for one in ids if _WORD.fullmatch(one)}
        self._others = [one for one in ids if one not in self._words]

    def stand_in(self, text: str) -> bool:
        return not self._words.isdisjoint(_WORD.findall(text)) or any(one in text for one in self._others)


def _untitle_jobs(connection: sqlite3.Connection, titles: Collection[str]) -> None:
    """Take titles out of what imports keep of themselves: where one stands and the questions it proposed."""
    for job_id, cursor, result in connection.execute("SELECT job_id, cursor, result FROM jobs").fetchall():
        kept = [_without(text, titles) for text in (cursor, result)]
        if kept != [cursor, result]:
            connection.execute("UPDATE jobs SET cursor = ?, result = ? WHERE job_id = ?", (*kept, job_id))


def _without(text: str | bytes | None, titles: Collection[str]) -> str | bytes | None:
    """JSON without the entries of its lists that hold a title; as it was when none does."""
    told = _readable(text) if text else ""
    if not any(msgspec.json.encode(title)[1:-1].decode() in told for title in titles):
        return text

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: clean(each) for name, each in value.items()}
        if isinstance(value, list):
            return [clean(each) for each in value if not _holds(each, titles)]
        return value

    left = msgspec.json.encode(clean(msgspec.json.decode(told)))
    return left if isinstance(text, bytes) else left.decode()


def _holds(value: Any, titles: Collection[str]) -> bool:
    if isinstance(value, str):
        return any(title in value for title in titles)
    return isinstance(value, list) and any(_holds(each, titles) for each in value)


def _set_aside(connection: sqlite3.Connection, row: int, forget_id: str, now_ms: int) -> None:
    cursor = connection.execute("SELECT * FROM packets WHERE id = ?", (row,))
    fields = dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
    original = connection.execute("SELECT codec, body FROM originals WHERE packet = ?", (row,)).fetchone()
    if original is None:
        return  # a damaged file has rows without their original; there is nothing to put back
    connection.execute(
        "INSERT INTO forgotten VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            forget_id, fields["sha256"], fields["packet_id"], fields["revision"], now_ms, now_ms + UNDO_MS,
            msgspec.msgpack.encode(fields), *original,
        ),
    )  # fmt: skip


def _wipe_aside(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """What earlier deletions keep of these packets, and of the turns that quote them."""
    names = PacketNames(ids)
    groups = {
        group
        for chunk in chunks([*ids])
        for (group,) in connection.execute(
            f"SELECT forget_id FROM forgotten WHERE packet_id IN ({marks(chunk)})", chunk
        )
    }
    for group in groups:
        kept = connection.execute(
            "SELECT sha256, packet_id, codec, body FROM forgotten WHERE forget_id = ?", (group,)
        ).fetchall()
        for sha256, packet_id, codec, body in kept:
            if packet_id in ids or names.stand_in(records.expand(codec, body).decode("utf-8", "replace")):
                connection.execute("DELETE FROM forgotten WHERE forget_id = ? AND sha256 = ?", (group, sha256))


def _delete(connection: sqlite3.Connection, row: int) -> WriteResult:
    """Take one packet row and all that hangs on it out."""
    current, path = connection.execute("SELECT current, source FROM packets WHERE id = ?", (row,)).fetchone()
    pages = connection.execute(
        "SELECT id, text, speaker, heading, active FROM pages WHERE packet = ?", (row,)
    ).fetchall()
    active = [page[:4] for page in pages if page[4]]
    unindex_pages(connection, active)
    connection.execute("DELETE FROM originals WHERE packet = ?", (row,))
    connection.execute("DELETE FROM packets WHERE id = ?", (row,))
    # The path stays known, so that a watched folder does not bring the same file back.
    connection.execute("UPDATE files SET outcome = 'forgotten', packet_id = '', reason = '' WHERE path = ?", (path,))
    return WriteResult(packets=-int(current), pages=-len(active), stale_pages=[page[0] for page in pages])
