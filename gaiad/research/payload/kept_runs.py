"""Where research runs are kept: the payload whole and compressed, a line for lists beside it.

A run is written once, when it ends; what changes is what a person says about its contradictions. It goes when somebody
forgets it, or with its age. What a source says beyond the payload's part is read from the archive by the packet id.
"""

import asyncio
import sqlite3
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import Cancelled, Conflict, GaiadError, NotFound
from gaiad.base.ids import IdMaker, lowest
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.payload.build import build_payload
from gaiad.research.payload.changes import imported_row, settled
from gaiad.research.payload.iterations import account_of
from gaiad.research.payload.material import Packet, choose_packets, whole_text
from gaiad.research.reflect import MEDIUM_FROM
from gaiad.research.trail import Trail
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs, UnfinishedJob, end_job
from gaiad.wire.research import (
    ResearchAgentPayload,
    ResearchRun,
    RunAccount,
    RunRow,
    SettleContradiction,
    SourceText,
)
from gaiad.wire.schemas import PacketSummary, ResearchRequest, ResearchResult

KIND = "research"


class PendingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run under way or interrupted. `attempts` counts its starts; `unreadable` says why `request` is not known."""

    research_id: str
    request: ResearchRequest
    started_at: str
    attempts: int = 1
    hidden: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    unreadable: str = ""


class PendingRuns:
    """Those of all tenants."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def all(self, call: RequestContext) -> list[PendingRun]:
        """The tenant's, oldest first."""
        return [pending_run(job) for job in await self._jobs.unfinished(call.tenant, (KIND,))]

    async def find(self, research_id: str, call: RequestContext) -> PendingRun | None:
        """The run of this id, None when it is not under way."""
        return next((one for one in await self.all(call) if one.research_id == research_id), None)


def payload_of(request: ResearchRequest, call: RequestContext) -> dict[str, Any]:
    """What the job of a run holds."""
    return {
        "request": msgspec.to_builtins(request),
        "hidden": sorted(call.hidden),
        "guarded": sorted(call.guarded),
    }


def pending_run(unfinished: UnfinishedJob) -> PendingRun:
    """The run of a job."""
    job, payload = unfinished.job, unfinished.payload
    asked, unreadable = payload.get("request"), ""
    try:
        request = msgspec.convert(asked, ResearchRequest)
    except msgspec.ValidationError as error:
        query = asked.get("query") if isinstance(asked, dict) else None
        request, unreadable = ResearchRequest(query=query if isinstance(query, str) else ""), str(error)
    return PendingRun(
        research_id=job.job_id,
        request=request,
        started_at=job.created_at,
        attempts=unfinished.attempts,
        hidden=frozenset(payload.get("hidden", ())),
        guarded=frozenset(payload.get("guarded", ())),
        unreadable=unreadable,
    )


def row_of(pending: PendingRun, tenant: str) -> RunRow:
    """The run as a line of a list."""
    return RunRow(
        research_id=pending.research_id,
        tenant=tenant,
        query=pending.request.query,
        started_at=pending.started_at,
        status="in_progress",
        outcome="",
        confidence=0.0,
        sources=0,
        contradictions=0,
        iterations=0,
    )


ID_PREFIX = "res"
_LINE = "research_id, query, started_at, status, outcome, confidence, sources, contradictions, iterations"
_ROW = f"{_LINE}, reviewed_at"
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

    def __init__(self, archive: Archive, databases: HomeDatabases, clock: Clock) -> None:
        self._archive = archive
        self._databases = databases
        self._clock = clock
        self._ids = IdMaker(clock)
        self.pending = PendingRuns(Jobs(databases, clock))

    def new_id(self) -> str:
        """Sorts by the time at which the run began."""
        return self._ids.make(ID_PREFIX)

    async def keep(self, trail: Trail, call: RequestContext) -> str:
        """Build the run's payload and keep it; why it could not be kept, "" when it is durable."""
        quiet = RequestContext(
            tenant=call.tenant, priority=call.priority, turn_id=call.turn_id
        )  # of a cancelled run too
        try:
            packets = await self._packets(choose_packets(trail), quiet)
            rows = await asyncio.to_thread(self._rows_of, trail, packets)
            await self._databases.write(call.tenant, rows.insert)
        except GaiadError as error:
            _log.error("run_not_kept", research=trail.research_id, error=error.message)
            return error.message
        except Exception as error:  # noqa: BLE001  (a defect here must not cost the answer: told with it, and logged)
            _log.exception("run_not_kept", research=trail.research_id)
            return f"unexpected {type(error).__name__}: {error}"
        return ""

    async def run(self, research_id: str, call: RequestContext) -> ResearchRun:
        """The run as it was kept. Raises NotFound."""

        def select(connection: sqlite3.Connection) -> list[tuple[RunRow, bytes]]:
            found = connection.execute(f"SELECT {_ROW}, body FROM research_runs WHERE research_id = ?", (research_id,))
            return [(_line(call.tenant, row), bytes(row[-1])) for row in found]

        none: list[tuple[RunRow, bytes]] = []
        found = await self._databases.read(call.tenant, select, none)
        if not found:
            pending = await self.pending.find(research_id, call)
            if pending is None:
                raise _unknown(research_id)
            return self._under_way(pending, call)
        body = msgspec.json.decode(zlib.decompress(found[0][1]), type=_Body)
        run = found[0][0]
        return ResearchRun(run=run, result=body.result, error=body.error, payload=body.payload, account=body.account)

    def _under_way(self, pending: PendingRun, call: RequestContext) -> ResearchRun:
        """A run that has no end yet, with the payload of one that has found nothing so far."""
        trail = Trail(pending.research_id, pending.request, call.tenant, self._clock)
        payload = build_payload(trail, {}, self._clock.zone)
        return ResearchRun(run=row_of(pending, call.tenant), result=None, error="", payload=payload)

    async def break_off(self, pending: PendingRun, error: GaiadError, call: RequestContext) -> str:
        """Keep a pending run that came to no answer as what it was, unless its end is kept; as `keep`."""
        if await self.pending.find(pending.research_id, call) is None:
            return ""
        trail = Trail(pending.research_id, pending.request, call.tenant, self._clock)
        trail.broke_off("cancelled" if isinstance(error, Cancelled) else "failed", error.message)
        return await self.keep(trail, call)

    async def forget(self, research_id: str, call: RequestContext) -> None:
        """Take a run out for good. Raises NotFound, Conflict while it is under way."""
        run = await self.run(research_id, call)
        if run.run.status == "in_progress":
            raise Conflict(f"run {research_id} is still running; cancel it first: gaiad research cancel {research_id}")
        await self._databases.write(call.tenant, lambda connection: _delete(connection, "=", research_id))

    async def review(self, research_id: str, call: RequestContext, *, done: bool) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        run = await self.run(research_id, call)
        if run.run.status == "in_progress":
            raise Conflict(f"run {research_id} is under way; there is nothing to review yet")
        mark = "UPDATE research_runs SET reviewed_at = ? WHERE research_id = ? AND (reviewed_at = '') = ?"
        values = (to_iso(self._clock.now()) if done else "", research_id, done)
        await self._databases.write(call.tenant, lambda connection: connection.execute(mark, values).rowcount)

    async def settle(self, research_id: str, asked: SettleContradiction, call: RequestContext) -> None:
        """Mark a contradiction of a kept run. Raises NotFound, BadInput, Conflict while it is under way."""
        if (await self.run(research_id, call)).run.status == "in_progress":
            raise Conflict(f"run {research_id} is under way; its contradictions are not known yet")

        def change(connection: sqlite3.Connection) -> None:
            found = connection.execute(
                "SELECT body FROM research_runs WHERE research_id = ?", (research_id,)
            ).fetchone()
            if found is None:
                raise _unknown(research_id)
            body = msgspec.json.decode(zlib.decompress(found[0]), type=_Body)
            body = msgspec.structs.replace(body, payload=settled(body.payload, asked))
            written = zlib.compress(msgspec.json.encode(body), _FAST)
            connection.execute("UPDATE research_runs SET body = ? WHERE research_id = ?", (written, research_id))

        await self._databases.write(call.tenant, change)

    async def take_in(self, payload: ResearchAgentPayload, call: RequestContext) -> str:
        """Keep a run that another researcher made; its id, the same for the same run. Raises BadInput."""
        row = imported_row(payload, ID_PREFIX, call.tenant)
        error = f"imported: run {payload.metadata.research_id} of another researcher"
        body = zlib.compress(msgspec.json.encode(_Body(None, error, payload)), _FAST)
        line = (*(getattr(row, name) for name in _LINE.split(", ")), body)
        marks = ", ".join("?" * len(line))
        insert = f"INSERT OR IGNORE INTO research_runs ({_LINE}, body) VALUES ({marks})"
        await self._databases.write(call.tenant, lambda connection: connection.execute(insert, line).rowcount)
        return row.research_id

    async def prune(self, tenant: str, days: int, most: int) -> int:
        """Take out the runs that are older than `days`, and of the rest all but the newest `most`; how many.

        0 is no limit. A run to review goes with the others: who did not look at it in that time will not.
        """
        age_s = self._clock.now().timestamp()  # no run is older than ids can say
        oldest = lowest(self._clock.now() - timedelta(days=days), ID_PREFIX) if 0 < days * 86_400 < age_s else ""

        def delete(connection: sqlite3.Connection) -> int:
            query = "SELECT research_id FROM research_runs ORDER BY research_id DESC LIMIT 1 OFFSET ?"
            last = connection.execute(query, (most - 1,)).fetchone() if most else None
            return _delete(connection, "<", max(oldest, last[0] if last else ""))

        return await self._databases.write(tenant, delete)

    async def newest(self, call: RequestContext, limit: int, *, to_review: bool = False) -> list[RunRow]:
        """The last runs, newest first; `to_review` those that are PARTIAL or answered with low confidence, but for what
        is ticked off.

        What is under way stands among them, but is nothing to review yet.
        """
        where = f"{_TO_REVIEW} AND reviewed_at = ''" if to_review else "1"

        def select(connection: sqlite3.Connection) -> list[RunRow]:
            query = f"SELECT {_ROW} FROM research_runs WHERE {where} ORDER BY research_id DESC LIMIT ?"
            return [_line(call.tenant, row) for row in connection.execute(query, (limit,))]

        kept: list[RunRow] = await self._databases.read(call.tenant, select, [])
        pending = [] if to_review else [row_of(one, call.tenant) for one in await self.pending.all(call)]
        return sorted([*kept, *pending], key=lambda row: row.research_id, reverse=True)[:limit] if pending else kept

    async def source(self, research_id: str, source_id: str, call: RequestContext) -> SourceText:
        """The whole text of a run's source, as the archive has it now. Raises NotFound."""

        def select(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            query = "SELECT packet_id, sha256 FROM research_sources WHERE research_id = ? AND source_id = ?"
            return connection.execute(query, (research_id, source_id)).fetchall()

        none: list[tuple[str, str]] = []
        found = await self._databases.read(call.tenant, select, none)
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

    async def _packets(self, packet_ids: Sequence[str], call: RequestContext) -> dict[str, Packet]:
        """Each with its pages; those that the archive no longer has are left out."""
        found = await asyncio.gather(*(self._packet(packet_id, call) for packet_id in packet_ids))
        return {packet.summary.packet_id: packet for packet in found if packet}

    async def _packet(self, packet_id: str, call: RequestContext) -> Packet | None:
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
            to_iso(self._clock.now()),
            line,
            [
                _source_row(trail.research_id, one.source_id, packets[str(one.file_path)].summary)
                for one in payload.sources
            ],
        )


class _Rows(msgspec.Struct, frozen=True):
    ended_at: str
    line: tuple[object, ...]
    sources: list[tuple[str, str, str, str]]

    def insert(self, connection: sqlite3.Connection) -> None:
        """The run at its end, in the place of the one that was under way."""
        marks = ", ".join("?" * len(self.line))
        connection.execute(f"INSERT INTO research_runs ({_LINE}, body) VALUES ({marks})", self.line)
        end_job(connection, str(self.line[0]), self.ended_at)
        connection.executemany("INSERT INTO research_sources VALUES (?, ?, ?, ?)", self.sources)


def _delete(connection: sqlite3.Connection, comparison: Literal["=", "<"], research_id: str) -> int:
    """Runs by their id, with the jobs that made them: those hold the question too."""
    ended = "kind = ? AND state NOT IN ('queued', 'running')"
    connection.execute(f"DELETE FROM jobs WHERE {ended} AND job_id {comparison} ?", (KIND, research_id))
    return connection.execute(f"DELETE FROM research_runs WHERE research_id {comparison} ?", (research_id,)).rowcount


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
