"""Where research runs are kept: one file a tenant, the payload whole and compressed, a line for lists beside it.

A run is written once, when it ends, and never changes; it goes when somebody forgets it, or with its age. What a source
says beyond the payload's part of it is read from the archive by the packet id.
"""

import asyncio
import sqlite3
import zlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from gaiad.clock import Clock, to_iso
from gaiad.errors import Cancelled, Conflict, GaiadError, NotFound
from gaiad.ids import IdMaker, lowest
from gaiad.logs import get_logger
from gaiad.payload_schemas import ResearchAgentPayload
from gaiad.ports import Archive, Call
from gaiad.research.confidence import MEDIUM_FROM
from gaiad.research.payload.account import account_of
from gaiad.research.payload.begun_runs import BEGUN_MIGRATION, Begun, BegunRuns, RunFiles, row_of
from gaiad.research.payload.build import build_payload
from gaiad.research.payload.material import Packet, choose_packets, whole_text
from gaiad.research.payload.reviewed_runs import NOT_REVIEWED, REVIEWED_AT, REVIEWED_MIGRATION, ReviewedRuns
from gaiad.research.trail import Trail
from gaiad.run_schemas import ResearchRun, RunAccount, RunRow, SourceText
from gaiad.schemas import PacketSummary, ResearchResult
from gaiad.store.database import Migration

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
MIGRATIONS: list[Migration] = [MIGRATION_1, BEGUN_MIGRATION, REVIEWED_MIGRATION]
ID_PREFIX = "res"
_LINE = "research_id, query, started_at, status, outcome, confidence, sources, contradictions, iterations"
_ROW = f"{_LINE}, {REVIEWED_AT}"
_TO_REVIEW = f"(outcome = 'PARTIAL' OR (outcome = 'SUCCESS' AND confidence < {MEDIUM_FROM}))"
_FAST = 1  # zlib's level: most of what is gained, at a fraction of the time
_log = get_logger("gaiad.research")


class _Body(msgspec.Struct, frozen=True):
    result: ResearchResult | None
    error: str
    payload: ResearchAgentPayload
    account: RunAccount = RunAccount()  # runs of before it was kept have none


class KeptRuns:
    """Keeps the runs of all tenants and finds them again; the researcher's Recorder."""

    def __init__(self, archive: Archive, files: RunFiles, clock: Clock, ids: IdMaker) -> None:
        self._archive = archive
        self._files = files
        self._clock = clock
        self._ids = ids
        self.begun = BegunRuns(files, clock)
        self._reviewed = ReviewedRuns(files, clock)

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
            found = connection.execute(f"SELECT {_ROW}, body FROM runs WHERE research_id = ?", (research_id,))
            return [(_line(call.tenant, row), bytes(row[-1])) for row in found]

        none: list[tuple[RunRow, bytes]] = []
        found = await self._files.read(call.tenant, select, none)
        if not found:
            begun = await self.begun.find(research_id, call)
            if begun is None:
                raise _unknown(research_id)
            return self._under_way(begun, call)
        body = msgspec.json.decode(zlib.decompress(found[0][1]), type=_Body)
        run = found[0][0]
        return ResearchRun(run=run, result=body.result, error=body.error, payload=body.payload, account=body.account)

    def _under_way(self, begun: Begun, call: Call) -> ResearchRun:
        """A run that has no end yet, with the payload of one that has found nothing so far."""
        trail = Trail(begun.research_id, begun.request, call.tenant, self._clock)
        payload = build_payload(trail, {}, self._clock.zone)
        return ResearchRun(run=row_of(begun, call.tenant), result=None, error="", payload=payload)

    async def break_off(self, begun: Begun, error: GaiadError, call: Call) -> str:
        """Keep a begun run that came to no answer as what it was, unless its end is kept; as `keep`."""
        if await self.begun.find(begun.research_id, call) is None:
            return ""
        trail = Trail(begun.research_id, begun.request, call.tenant, self._clock)
        trail.broke_off("cancelled" if isinstance(error, Cancelled) else "failed", error.message)
        return await self.keep(trail, call)

    async def forget(self, research_id: str, call: Call) -> None:
        """Take a run out for good. Raises NotFound, Conflict while it is under way."""
        run = await self.run(research_id, call)
        if run.run.status == "in_progress":
            raise Conflict(f"run {research_id} is under way; `gaiad research cancel {research_id}` breaks it off first")
        await self._files.write(call.tenant, lambda connection: _delete(connection, "research_id = ?", research_id))

    async def review(self, research_id: str, call: Call, *, done: bool) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        run = await self.run(research_id, call)
        if run.run.status == "in_progress":
            raise Conflict(f"run {research_id} is under way; there is nothing to review yet")
        await self._reviewed.mark(research_id, call, done=done)

    async def prune(self, tenant: str, days: int, most: int) -> int:
        """Take out the runs that are older than `days`, and of the rest all but the newest `most`; how many.

        0 is no limit. A run to review goes with the others: who did not look at it in that time will not.
        """
        age_s = self._clock.now().timestamp()  # no run is older than ids can say
        oldest = lowest(self._clock.now() - timedelta(days=days), ID_PREFIX) if 0 < days * 86_400 < age_s else ""

        def delete(connection: sqlite3.Connection) -> int:
            query = "SELECT research_id FROM runs ORDER BY research_id DESC LIMIT 1 OFFSET ?"
            last = connection.execute(query, (most - 1,)).fetchone() if most else None
            return _delete(connection, "research_id < ?", max(oldest, last[0] if last else ""))

        return await self._files.write(tenant, delete)

    async def newest(self, call: Call, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence, but for what
        is ticked off.

        What is under way stands among them, but is nothing to review yet.
        """
        where = f"{_TO_REVIEW} AND {NOT_REVIEWED}" if to_review else "1"

        def select(connection: sqlite3.Connection) -> list[RunRow]:
            query = f"SELECT {_ROW} FROM runs WHERE {where} ORDER BY research_id DESC LIMIT ?"
            return [_line(call.tenant, row) for row in connection.execute(query, (limit,))]

        kept: list[RunRow] = await self._files.read(call.tenant, select, [])
        begun = [] if to_review else [row_of(one, call.tenant) for one in await self.begun.all(call)]
        return sorted([*kept, *begun], key=lambda row: row.research_id, reverse=True)[:limit] if begun else kept

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
        body = msgspec.json.encode(_Body(trail.result, trail.error, payload, account_of(trail)))
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
        """The run at its end, in the place of the one that was under way."""
        connection.execute("DELETE FROM begun_runs WHERE research_id = ?", self.line[:1])
        connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(self.line))})", self.line)
        connection.executemany("INSERT INTO run_sources VALUES (?, ?, ?, ?)", self.sources)


def _delete(connection: sqlite3.Connection, where: str, value: str) -> int:
    connection.execute(f"DELETE FROM run_sources WHERE {where}", (value,))
    connection.execute(f"DELETE FROM reviewed_runs WHERE {where}", (value,))
    return connection.execute(f"DELETE FROM runs WHERE {where}", (value,)).rowcount


def _source_row(research_id: str, source_id: str, packet: PacketSummary) -> tuple[str, str, str, str]:
    return research_id, source_id, packet.packet_id, packet.sha256


def _line(tenant: str, row: Sequence[object]) -> RunRow:
    names = [*_LINE.split(", "), "reviewed_at"]
    return msgspec.convert(dict(zip(names, row, strict=False)) | {"tenant": tenant}, RunRow)


def _unknown(research_id: str) -> NotFound:
    if not research_id.startswith(f"{ID_PREFIX}_"):
        return NotFound(
            f"no run is called {research_id!r}: ids begin with {ID_PREFIX}_; `gaiad research list` has them"
        )
    return NotFound(f"no run is called {research_id!r}; `gaiad research list` shows the newest")
