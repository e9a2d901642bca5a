"""Reads stored packets and pages back as the structs that go over the wire."""

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from gaiad.archive.finding.filters import (
    FOCUS_SECTIONS,
    Labels,
    PacketLabels,
    add_functions,
    check_filters,
    labels_of,
    not_hidden,
    packet_conditions,
)
from gaiad.archive.reading.derive import decode_canonical
from gaiad.archive.storing.records import expand
from gaiad.base.clock import iso_of_ms, to_iso
from gaiad.base.errors import Conflict, NotFound
from gaiad.store.database import chunks, marks
from gaiad.wire.schemas import Focus, PacketDetail, PacketFilter, PacketSummary, Page

T = TypeVar("T")
_SUMMARY = (
    "packets.packet_id, packets.revision, packets.timestamp_ms, packets.topic, packets.dialect, packets.verdict,"
    " packets.original_model, packets.current_model, packets.session_id,"
    " (SELECT count(*) FROM pages WHERE packet = packets.id), packets.size, packets.sha256, packets.summary,"
    " packets.media_type"
)
_PAGE = (
    "pages.page_id, packets.packet_id, packets.session_id, pages.sequence, pages.section, pages.path, pages.text,"
    ' pages.start, pages."end", pages.timestamp_ms, packets.topic, pages.speaker, packets.original_model,'
    " packets.current_model, packets.id"
)
_NO_CHATS = " AND NOT (packets.dialect = 'session_turn' AND packets.packet_id GLOB 'turn_*')"
_NOT_FIELDS = {"sections", "findings", "sha256", "size", "media_type"}


def list_packets(connection: sqlite3.Connection, request: PacketFilter) -> list[PacketSummary]:
    """Current revisions, by time. Raises BadInput for a filter that cannot be read."""
    check_filters(request.filters)
    add_functions(connection)
    condition, values = packet_conditions(request.filters)
    condition += "" if request.include_chats else _NO_CHATS
    direction = "ASC" if request.order == "earliest" else "DESC"
    rows = connection.execute(
        f"SELECT {_SUMMARY} FROM packets WHERE packets.current = 1 AND {condition}"
        f" ORDER BY packets.timestamp_ms {direction}, packets.id {direction} LIMIT ? OFFSET ?",
        (*values, max(0, request.limit), max(0, request.offset)),
    )
    return [_summary(row) for row in rows]


def summaries(connection: sqlite3.Connection, packet_ids: Sequence[str], hidden: Labels = ()) -> list[PacketSummary]:
    """Current revisions in the order asked for. Raises NotFound for an unknown id."""
    found: dict[str, PacketSummary] = {}
    for chunk in chunks(packet_ids):
        rows = connection.execute(
            f"SELECT {_SUMMARY} FROM packets WHERE packets.current = 1 AND packets.packet_id IN ({marks(chunk)})"
            f"{not_hidden('packets.id', hidden)}",
            chunk,
        )
        found.update((row[0], _summary(row)) for row in rows)
    return [_known(found, packet_id, "packet") for packet_id in packet_ids]


def pages(connection: sqlite3.Connection, page_ids: Sequence[str], hidden: Labels = ()) -> list[Page]:
    """In the order asked for, superseded revisions included. Raises NotFound for an unknown id."""
    found: dict[str, Page] = {}
    for chunk in chunks(page_ids):
        rows = connection.execute(
            f"SELECT {_PAGE} FROM pages JOIN packets ON packets.id = pages.packet"
            f" WHERE pages.page_id IN ({marks(chunk)}){not_hidden('packets.id', hidden)}",
            chunk,
        )
        found.update((page.page_id, page) for page in _with_labels(connection, rows.fetchall()))
    return [_known(found, page_id, "page") for page_id in page_ids]


def section_pages(connection: sqlite3.Connection, packet_id: str, focus: Focus, hidden: Labels = ()) -> list[Page]:
    """Pages of the current revision that a focus asks for (GAM 3), in reading order. Raises NotFound."""
    return _pages_of(connection, _row_id(connection, packet_id, 0, hidden), FOCUS_SECTIONS[focus])


def detail(connection: sqlite3.Connection, packet_id: str, hidden: Labels = ()) -> PacketDetail:
    """The current revision whole, and a line for each revision, newest first. Raises NotFound."""
    rowid = _row_id(connection, packet_id, 0, hidden)
    canonical, source, received_ms = connection.execute(
        "SELECT canonical, source, received_ms FROM packets WHERE id = ?", (rowid,)
    ).fetchone()
    revisions = [
        _summary(row)
        for row in connection.execute(
            f"SELECT {_SUMMARY} FROM packets WHERE packets.packet_id = ?{not_hidden('packets.id', hidden)}"
            " ORDER BY packets.revision DESC",
            (packet_id,),
        )
    ]
    packet = decode_canonical(canonical)
    fields: dict[str, Any] = {
        name: value for name, value in msgspec.to_builtins(packet).items() if name not in _NOT_FIELDS
    }
    return PacketDetail(
        packet=revisions[0],
        fields={**fields, "timestamp": to_iso(packet.timestamp)},
        integrity=[msgspec.to_builtins(finding) for finding in packet.findings],
        pages=_pages_of(connection, rowid, ()),
        source=source,
        received_at=iso_of_ms(received_ms),
        revisions=revisions,
    )


def revisions_without(connection: sqlite3.Connection, packet_id: str, quote: str, hidden: Labels = ()) -> list[int]:
    """The superseded revisions of a packet in which the quote does not occur, oldest first."""
    rows = connection.execute(
        "SELECT revision FROM packets WHERE packet_id = ? AND current = 0 AND NOT EXISTS"
        " (SELECT 1 FROM pages WHERE pages.packet = packets.id AND instr(pages.text, ?))"
        f"{not_hidden('packets.id', hidden)} ORDER BY revision",
        (packet_id, quote),
    )
    return [int(revision) for (revision,) in rows]


def original(
    connection: sqlite3.Connection, packet_id: str, revision: int = 0, hidden: Labels = ()
) -> tuple[bytes, str]:
    """(the bytes as they came, media type) of a revision; 0 is the current one. Raises NotFound, Conflict."""
    rowid = _row_id(connection, packet_id, revision, hidden)
    media_type, codec, body = connection.execute(
        "SELECT media_type, codec, body FROM packets JOIN originals ON originals.packet = packets.id"
        " WHERE packets.id = ?",
        (rowid,),
    ).fetchone()
    try:
        return expand(codec, body), media_type
    except ValueError as error:
        raise Conflict(f"packet {packet_id}: {error}; restore the last backup (gaiad restore DIR)") from error


def _row_id(connection: sqlite3.Connection, packet_id: str, revision: int, hidden: Labels) -> int:
    row = connection.execute(
        "SELECT id FROM packets WHERE packet_id = ? AND (revision = ? OR (? = 0 AND current = 1))"
        f"{not_hidden('id', hidden)}",
        (packet_id, revision, revision),
    ).fetchone()
    if row is None:
        which = f"revision {revision} of packet {packet_id!r}" if revision else f"packet {packet_id!r}"
        raise NotFound(f"no {which} in this tenant; `gaiad packets list` shows what there is")
    return int(row[0])


def _pages_of(connection: sqlite3.Connection, rowid: int, sections: tuple[str, ...]) -> list[Page]:
    wanted = f"AND pages.section IN ({marks(sections)})" if sections else ""
    rows = connection.execute(
        f"SELECT {_PAGE} FROM pages JOIN packets ON packets.id = pages.packet"
        f" WHERE pages.packet = ? {wanted} ORDER BY pages.sequence",
        (rowid, *sections),
    )
    return _with_labels(connection, rows.fetchall())


def _summary(row: tuple[Any, ...]) -> PacketSummary:
    return PacketSummary(
        packet_id=row[0],
        revision=row[1],
        timestamp=iso_of_ms(row[2]),
        topic=row[3],
        dialect=row[4],
        integrity=row[5],
        model=row[6] or row[7],
        session_id=row[8],
        pages=row[9],
        bytes=row[10],
        sha256=row[11],
        summary=row[12],
        media_type=row[13],
    )


def _with_labels(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[Page]:
    """The pages of the rows, each with what the index says of its packet."""
    labels = labels_of(connection, {row[14] for row in rows})
    return [_page(row, labels[row[14]]) for row in rows]


def _page(row: tuple[Any, ...], labels: PacketLabels) -> Page:
    return Page(
        page_id=row[0],
        packet_id=row[1],
        session_id=row[2],
        sequence=row[3],
        section=row[4],
        path=row[5],
        text=row[6],
        start=row[7],
        end=row[8],
        timestamp=iso_of_ms(row[9]),
        topic=row[10],
        speaker=row[11],
        model=row[12] or row[13],
        classification=labels["classification"],
        policy_tags=labels["policy_tag"],
    )


def _known(found: dict[str, T], name: str, kind: str) -> T:
    if name not in found:
        raise NotFound(f"no {kind} {name!r} in this tenant")
    return found[name]
