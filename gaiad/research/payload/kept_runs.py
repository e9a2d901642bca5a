"""Where research runs are kept: one file a tenant, the payload whole and compressed, a line for lists beside it.

A run is written once, when it ends, and never changes. What a source says beyond the payload's part of it is read from
the archive by the packet id.
"""

import asyncio
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import GaiadError, NotFound
from gaiad.ids import IdMaker
from gaiad.logs import get_logger
from gaiad.payload_schemas import ResearchAgentPayload, ResearchRun, RunRow, SourceText
from gaiad.ports import Archive, Call
from gaiad.research.confidence import MEDIUM_FROM
from gaiad.research.payload.build import build_payload
from gaiad.research.payload.material import Packet, choose_packets, whole_text
from gaiad.research.trail import Trail
from gaiad.schemas import PacketSummary, ResearchResult
from gaiad.store.database import Migration

T = TypeVar("T")
APPLICATION_ID = 0x67616972  # "gair"
MIGRATION_1: Migration = """
CREATE TABLE runs (
    research_id    TEXT PRIMARY KEY,
    query          TEXT NOT NULL,
    started_at     TEXT NOT NULL,
    status         TEXT NOT NULL,
    outcome        TEXT NOT NULL,
    confidence     REAL NOT NULL,
    sources        INTEGER NOT NULL,
    contradictions INTEGER NOT NULL,
    iterations     INTEGER NOT NULL,
    body           BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_to_review ON runs (research_id)
WHERE outcome = 'PARTIAL' OR (outcome = 'SUCCESS' AND confidence < 0.5);
CREATE TABLE run_sources (
    research_id TEXT NOT NULL REFERENCES runs (research_id),
    source_id   TEXT NOT NULL,
    packet_id   TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    PRIMARY KEY (research_id, source_id)
) WITHOUT ROWID;
"""
MIGRATIONS: list[Migration] = [MIGRATION_1]
ID_PREFIX = "res"
_LINE = "research_id, query, started_at, status, outcome, confidence, sources, contradictions, iterations"
_TO_REVIEW = f"(outcome = 'PARTIAL' OR (outcome = 'SUCCESS' AND confidence < {MEDIUM_FROM}))"
_FAST = 1  # zlib's level: most of what is gained, at a fraction of the time
_log = get_logger("gaiad.research")


class RunFiles(Protocol):
    """One database file a tenant, made with `MIGRATIONS` and `APPLICATION_ID`."""

    async def write(self, tenant: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the tenant's writer; durable when this returns. Raises BadInput, Conflict, Unavailable."""
        ...

    async def read(self, tenant: str, work: Callable[[sqlite3.Connection], T], without: T) -> T:
        """Run `work` in one snapshot; `without` is the result when the tenant has no file."""
        ...


class _Body(msgspec.Struct, frozen=True):
    result: ResearchResult | None
    error: str
    payload: ResearchAgentPayload


class KeptRuns:
    """Keeps the runs of all tenants and finds them again; the researcher's Recorder."""

    def __init__(self, archive: Archive, files: RunFiles, clock: Clock, ids: IdMaker) -> None:
        self._archive = archive
        self._files = files
        self._clock = clock
        self._ids = ids

    def new_id(self) -> str:
        """Sorts by the time at which the run began."""
        return self._ids.make(ID_PREFIX)

    async def keep(self, trail: Trail, call: Call) -> str:
        """Build the run's payload and keep it; why it could not be kept, "" when it is durable."""
        quiet = Call(tenant=call.tenant, priority=call.priority, turn_id=call.turn_id)  # of a cancelled run too
        try:
            packets = await self._packets(choose_packets(trail), quiet)
            rows = await asyncio.to_thread(self._rows_of, trail, packets)
            await self._files.write(call.tenant, rows.insert)
        except GaiadError as error:
            _log.error("run_not_kept", research=trail.research_id, error=error.message)
            return error.message
        except Exception as error:  # noqa: BLE001  (a defect here must not cost the answer: told with it, and logged)
            _log.exception("run_not_kept", research=trail.research_id)
            return f"unexpected {type(error).__name__}: {error}"
        return ""

    async def run(self, research_id: str, call: Call) -> ResearchRun:
        """The run as it was kept. Raises NotFound."""

        def select(connection: sqlite3.Connection) -> list[tuple[RunRow, bytes]]:
            found = connection.execute(f"SELECT {_LINE}, body FROM runs WHERE research_id = ?", (research_id,))
            return [(_line(call.tenant, row), bytes(row[-1])) for row in found]

        none: list[tuple[RunRow, bytes]] = []
        found = await self._files.read(call.tenant, select, none)
        if not found:
            raise _unknown(research_id)
        body = msgspec.json.decode(zlib.decompress(found[0][1]), type=_Body)
        return ResearchRun(run=found[0][0], result=body.result, error=body.error, payload=body.payload)

    async def newest(self, call: Call, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        where = _TO_REVIEW if to_review else "1"

        def select(connection: sqlite3.Connection) -> list[RunRow]:
            query = f"SELECT {_LINE} FROM runs WHERE {where} ORDER BY research_id DESC LIMIT ?"
            return [_line(call.tenant, row) for row in connection.execute(query, (limit,))]

        return await self._files.read(call.tenant, select, [])

    async def source(self, research_id: str, source_id: str, call: Call) -> SourceText:
        """The whole text of a run's source, as the archive has it now. Raises NotFound."""

        def select(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT packet_id, sha256 FROM run_sources WHERE research_id = ? AND source_id = ?"
            return connection.execute(query, (research_id, source_id)).fetchall()

        none: list[tuple[str, str]] = []
        found = await self._files.read(call.tenant, select, none)
        if not found:
            await self.run(research_id, call)
            raise NotFound(f"run {research_id} has no source {source_id!r}; `gaiad research show` lists them")
        packet_id, sha256 = found[0]
        packets = await self._packets([packet_id], call)
        if packet_id not in packets:
            raise NotFound(f"packet {packet_id!r} of {source_id} is no longer in the archive")
        packet = packets[packet_id]
        text = whole_text(packet.pages)
        return SourceText(
            source_id=source_id,
            packet_id=packet_id,
            content=text,
            content_length=len(text),
            changed=packet.summary.sha256 != sha256,
        )

    async def _packets(self, packet_ids: Sequence[str], call: Call) -> dict[str, Packet]:
        """Each with its pages; those that the archive no longer has are left out."""
        found = await asyncio.gather(*(self._packet(packet_id, call) for packet_id in packet_ids))
        return {packet.summary.packet_id: packet for packet in found if packet}

    async def _packet(self, packet_id: str, call: Call) -> Packet | None:
        try:
            (summary,) = await self._archive.packet_summaries([packet_id], call)
            return Packet(summary, tuple(await self._archive.section_pages(packet_id, "full_context", call)))
        except NotFound:
            return None

    def _rows_of(self, trail: Trail, packets: dict[str, Packet]) -> "_Rows":
        payload = build_payload(trail, packets, self._clock.zone)
        body = msgspec.json.encode(_Body(trail.result, trail.error, payload))
        meta = payload.metadata
        line = (
            trail.research_id,
            trail.request.query,
            to_iso(trail.started_at),
            trail.status,
            trail.result.status if trail.result else "",
            trail.result.confidence if trail.result else 0.0,
            meta.total_sources_gathered,
            meta.contradictions_found,
            meta.iteration_count,
            zlib.compress(body, _FAST),
        )
        return _Rows(
            line,
            [
                _source_row(trail.research_id, one.source_id, packets[str(one.file_path)].summary)
                for one in payload.sources
            ],
        )


class _Rows(msgspec.Struct, frozen=True):
    line: tuple[object, ...]
    sources: list[tuple[str, str, str, str]]

    def insert(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(self.line))})", self.line)
        connection.executemany("INSERT INTO run_sources VALUES (?, ?, ?, ?)", self.sources)


def _source_row(research_id: str, source_id: str, packet: PacketSummary) -> tuple[str, str, str, str]:
    return research_id, source_id, packet.packet_id, packet.sha256


def _line(tenant: str, row: Sequence[object]) -> RunRow:
    names = _LINE.split(", ")
    return msgspec.convert(dict(zip(names, row, strict=False)) | {"tenant": tenant}, RunRow)


def _unknown(research_id: str) -> NotFound:
    if not research_id.startswith(f"{ID_PREFIX}_"):
        return NotFound(
            f"no run is called {research_id!r}: ids begin with {ID_PREFIX}_; `gaiad research list` has them"
        )
    return NotFound(f"no run is called {research_id!r}; `gaiad research list` shows the newest")
