"""Reads remembered sessions back: turns in order, JIT's pages with their headers, memos.

A turn is read from its original, so it comes back exactly as it was remembered. A header is put together here, from the
index metadata and the memo, and is nowhere in a page's text.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from gaiad.archive.finding.filters import Labels, PacketLabels, hidden_rows, labels_of, not_hidden
from gaiad.archive.reading.memo import MEMO_VERSION, MemoItems, memo_text, merged
from gaiad.archive.storing.records import expand
from gaiad.archive.storing.sessions import decode_memo, decode_turn
from gaiad.base.clock import from_epoch_ms, to_iso
from gaiad.base.errors import Conflict, NotFound
from gaiad.store.database import chunks, marks
from gaiad.wire.memory import Memo, MemoryPage, PageHeader, SessionSummary, SessionTurn

_PAGE = (
    "SELECT g.page_id, g.packet, k.packet_id, k.session_id, coalesce(t.first_page, 0) + g.sequence, g.timestamp_ms,"
    " g.text, g.speaker, g.section, m.body, m.memo_version"
    " FROM pages g JOIN packets k ON k.id = g.packet LEFT JOIN turns t ON t.packet = g.packet"
    " LEFT JOIN memos m ON m.page = g.id"
)
_SESSION = (
    "SELECT session_id, title, description, agent_id, classification, policy_tags, metadata, created_ms, updated_ms,"
    " turns, pages, (SELECT g.text FROM turns t JOIN pages g ON g.packet = t.packet WHERE t.session = sessions.id"
    " ORDER BY t.sequence, g.sequence LIMIT 1) FROM sessions"
)
_FIRST_CHARS = 120


class TurnShelf:
    """Reads one tenant's turns and keeps the last read decoded: a conversation asks for its own again and again.

    A turn is known by the hash of its original. Safe from any thread; callers leave what is inside a turn as it is.
    """

    def __init__(self, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _CachedTurn] = OrderedDict()
        self._bytes = 0

    def turns(
        self,
        connection: sqlite3.Connection,
        session_id: str,
        after: int,
        limit: int,
        hidden: Labels = (),
        *,
        latest: bool,
    ) -> list[SessionTurn]:
        """At most `limit` turns with numbers above `after`, in order: the first of them, or with `latest` the last."""
        direction = "DESC" if latest else "ASC"
        rows = connection.execute(
            "SELECT k.sha256, t.packet, t.turn_id FROM turns t JOIN sessions s ON s.id = t.session"
            " JOIN packets k ON k.id = t.packet WHERE s.session_id = ? AND t.sequence > ?"
            f"{not_hidden('k.id', hidden)} ORDER BY t.sequence {direction} LIMIT ?",
            (session_id, after, max(0, limit)),
        ).fetchall()
        kept = self._take(sha256 for sha256, _, _ in rows)
        found = [kept.get(row[0]) or self._read(connection, *row) for row in rows]
        return found[::-1] if latest else found

    def _take(self, hashes: Iterable[str]) -> dict[str, SessionTurn]:
        found: dict[str, SessionTurn] = {}
        with self._lock:
            for sha256 in hashes:
                if sha256 in self._kept:
                    self._kept.move_to_end(sha256)
                    found[sha256] = self._kept[sha256].turn
        return found

    def _read(self, connection: sqlite3.Connection, sha256: str, packet: int, turn_id: str) -> SessionTurn:
        row = connection.execute("SELECT codec, body FROM originals WHERE packet = ?", (packet,)).fetchone()
        try:
            if row is None:
                raise ValueError("its original is missing")
            data = expand(*row)
            turn = decode_turn(data)
        except ValueError as error:
            raise Conflict(f"turn {turn_id}: {error}; restore the last backup (gaiad restore DIR)") from error
        with self._lock:
            if sha256 not in self._kept:
                self._kept[sha256] = _CachedTurn(turn, len(data))
                self._bytes += len(data)
            while self._bytes > self._max_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return turn


class _CachedTurn(NamedTuple):
    turn: SessionTurn
    size: int


def sessions(
    connection: sqlite3.Connection, tenant: str, limit: int, offset: int, hidden: Labels = ()
) -> list[SessionSummary]:
    """Sessions, the one spoken in last first; none with a turn that is hidden."""
    rows = connection.execute(
        f"{_SESSION} WHERE 1{_shown(hidden)} ORDER BY updated_ms DESC, session_id LIMIT ? OFFSET ?",
        (max(0, limit), max(0, offset)),
    )
    return [_session(row, tenant) for row in rows]


def session(connection: sqlite3.Connection, tenant: str, session_id: str, hidden: Labels = ()) -> SessionSummary:
    """One session. Raises NotFound."""
    row = connection.execute(f"{_SESSION} WHERE session_id = ?{_shown(hidden)}", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"no session {session_id!r} in this tenant")
    return _session(row, tenant)


def session_memos(connection: sqlite3.Connection, session_id: str, hidden: Labels = ()) -> list[Memo]:
    """The memos of a session's pages in order, those that add nothing left out; none for an unknown session."""
    rows = connection.execute(
        "SELECT g.page_id, k.packet_id, t.first_page + g.sequence, m.memo_version, m.body FROM sessions s"
        " JOIN turns t ON t.session = s.id JOIN packets k ON k.id = t.packet JOIN pages g ON g.packet = t.packet"
        f" JOIN memos m ON m.page = g.id WHERE s.session_id = ?{not_hidden('k.id', hidden)}"
        " ORDER BY t.sequence, g.sequence",
        (session_id,),
    )
    return _memos(session_id, rows)


def packet_memos(connection: sqlite3.Connection, packet_id: str, hidden: Labels = ()) -> list[Memo]:
    """The memos of one turn's pages; none for a packet that is not a turn."""
    rows = connection.execute(
        "SELECT g.page_id, k.packet_id, t.first_page + g.sequence, m.memo_version, m.body, k.session_id FROM turns t"
        " JOIN packets k ON k.id = t.packet JOIN pages g ON g.packet = t.packet JOIN memos m ON m.page = g.id"
        f" WHERE t.turn_id = ?{not_hidden('k.id', hidden)} ORDER BY g.sequence",
        (packet_id,),
    ).fetchall()
    return _memos(rows[0][5], (row[:5] for row in rows)) if rows else []


def session_memo(connection: sqlite3.Connection, session_id: str, hidden: Labels = ()) -> str:
    """One memo of all that is shown of a session, in a line (JIT's `memo` of an ingested session); "" for nothing."""
    rows = connection.execute(
        "SELECT m.body FROM sessions s JOIN turns t ON t.session = s.id JOIN pages g ON g.packet = t.packet"
        f" JOIN memos m ON m.page = g.id WHERE s.session_id = ?{not_hidden('t.packet', hidden)}"
        " ORDER BY t.sequence, g.sequence",
        (session_id,),
    )
    return memo_text(merged([decode_memo(body) for (body,) in rows]))


def session_pages(
    connection: sqlite3.Connection, tenant: str, session_id: str, after: int, limit: int, hidden: Labels = ()
) -> list[MemoryPage]:
    """At most `limit` pages of the session with numbers above `after`, in order, with their headers."""
    rows = connection.execute(
        f"{_PAGE} JOIN sessions s ON s.id = t.session WHERE s.session_id = ? AND t.first_page + g.sequence > ?"
        f"{not_hidden('k.id', hidden)} ORDER BY t.sequence, g.sequence LIMIT ?",
        (session_id, after, max(0, limit)),
    ).fetchall()
    labels = labels_of(connection, {row[1] for row in rows})
    return [_memory_page(row, tenant, labels[row[1]]) for row in rows]


def page_headers(
    connection: sqlite3.Connection, tenant: str, page_ids: Sequence[str], hidden: Labels = ()
) -> list[PageHeader]:
    """The header of any page, of a turn or another packet, in the order asked for. Raises NotFound."""
    found: dict[str, PageHeader] = {}
    for chunk in chunks(page_ids):
        rows = connection.execute(
            f"{_PAGE} WHERE g.page_id IN ({marks(chunk)}){not_hidden('k.id', hidden)}", chunk
        ).fetchall()
        labels = labels_of(connection, {row[1] for row in rows})
        found.update((row[0], _header(row, tenant, labels[row[1]])) for row in rows)
    unknown = [page_id for page_id in page_ids if page_id not in found]
    if unknown:
        raise NotFound(f"no page {unknown[0]!r} in this tenant")
    return [found[page_id] for page_id in page_ids]


def _shown(hidden: Labels) -> str:
    """A condition on `sessions`: it has no turn that is hidden."""
    return f" AND id NOT IN (SELECT session FROM turns WHERE packet IN ({hidden_rows(hidden)}))" if hidden else ""


def _session(row: tuple[Any, ...], tenant: str) -> SessionSummary:
    return SessionSummary(
        session_id=row[0],
        tenant_id=tenant,
        title=row[1],
        description=row[2],
        agent_id=row[3],
        classification=msgspec.json.decode(row[4]),
        policy_tags=msgspec.json.decode(row[5]),
        metadata=msgspec.json.decode(row[6]),
        created_at=to_iso(from_epoch_ms(row[7])),
        updated_at=to_iso(from_epoch_ms(row[8])),
        turns=row[9],
        pages=row[10],
        first_message=first_words(row[11] or ""),
    )


def first_words(text: str, most: int = _FIRST_CHARS) -> str:
    """The first line of `text` in at most `most` characters: cut at a word, so that none is taken for another."""
    line = text.strip().partition("\n")[0].rstrip()
    if len(line) <= most:
        return line
    start = line[:most]
    return (start[: start.rfind(" ")] if " " in start else start[:-1]).rstrip() + "…"


def _memos(session_id: str, rows: Iterable[tuple[Any, ...]]) -> list[Memo]:
    found = []
    for page_id, packet_id, sequence, version, body in rows:
        items = decode_memo(body)
        if items == MemoItems():
            continue
        found.append(
            Memo(
                page_id=page_id,
                packet_id=packet_id,
                session_id=session_id,
                sequence=sequence,
                memo_version=version,
                text=memo_text(items),
                names=list(items.names),
                dates=list(items.dates),
                decisions=list(items.decisions),
                open_questions=list(items.open_questions),
            )
        )
    return found


def _header(row: tuple[Any, ...], tenant: str, labels: PacketLabels) -> PageHeader:
    return PageHeader(
        session_id=row[3],
        tenant_id=tenant,
        sequence=row[4],
        created_at=to_iso(from_epoch_ms(row[5])),
        agent_id=_only(labels["agent"]),
        memo_snapshot=memo_text(decode_memo(row[9])) if row[9] else "",
        tags=labels["tag"],
        classification=labels["classification"],
        policy_tags=labels["policy_tag"],
        origin_run_id=_only(labels["origin_run"]),
        request_intent=_only(labels["request_intent"]),
    )


def _only(values: Sequence[str]) -> str:
    return values[0] if values else ""


def _memory_page(row: tuple[Any, ...], tenant: str, labels: PacketLabels) -> MemoryPage:
    header = _header(row, tenant, labels)
    return MemoryPage(
        id=row[0],
        session_id=header.session_id,
        tenant_id=tenant,
        sequence=header.sequence,
        raw_content=row[6],
        header=header,
        memo=header.memo_snapshot,
        tags=header.tags,
        classification=header.classification,
        policy_tags=header.policy_tags,
        metadata={
            "memo_version": row[10] or MEMO_VERSION,
            "packet_id": row[2],
            "speaker": row[7],
            "section": row[8],
        },
    )
