"""The archive as the rest of gaiad sees it: tenants by name, every call inside one of them (decisions 17 to 23).

A thin shell: it finds the tenant, hands it the call, and puts backup and restore around all of them.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.feedback_calls import FeedbackCalls
from gaiad.archive.finding import packets
from gaiad.archive.finding.hidden import hidden_ids
from gaiad.archive.keeping import backup, restore
from gaiad.archive.keeping.reindex import reindex
from gaiad.archive.keeping.restore_others import OtherFiles, Others, interrupted
from gaiad.archive.keeping.sweep import SweepReport, sweep
from gaiad.archive.keeping.verify import Progress, verify
from gaiad.archive.open_tenants import OpenTenants
from gaiad.archive.reading.disk import path_text, stamp_of
from gaiad.archive.session_calls import SessionCalls
from gaiad.archive.storing import known_files, quarantine
from gaiad.clock import Clock, to_iso
from gaiad.config import Config
from gaiad.errors import GaiadError
from gaiad.metrics import Metrics
from gaiad.ports import Call, Embedder
from gaiad.schemas import (
    Facets,
    Focus,
    IngestOutcome,
    PacketDetail,
    PacketFilter,
    PacketSummary,
    Page,
    SearchRequest,
    SearchResponse,
    VerifyReport,
)
from gaiad.store.file import DatabaseFile

_SWEEP_BUDGET_S = 60.0  # for re-hashing originals in one sweep


class LocalArchive(SessionCalls):
    """Implements ports.Archive over files under `home`/tenants. Start it, and close it on the same event loop."""

    def __init__(self, home: Path, config: Config, clock: Clock, embedder: Embedder | None, metrics: Metrics) -> None:
        super().__init__(OpenTenants(home, config, clock, embedder, metrics), clock)
        self.feedback = FeedbackCalls(self._tenants, clock)
        self._home = home
        self._config = config
        self._embedder = embedder
        self._maintenance = asyncio.Lock()
        self._interrupted = ""

    # ---------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Open every tenant found, and `local`; finish a restore that a crash interrupted. Raises Conflict."""
        await self._tenants.run(restore.finish_interrupted, self._home)
        self._interrupted = await self._tenants.run(interrupted, self._home)
        await self._tenants.open_all()

    async def close(self) -> None:
        """Write vector indexes, wait for running calls, close the files."""
        try:
            await self._tenants.close_all("the archive is closed")
        finally:
            await self._tenants.end()

    def tenants(self) -> list[str]:
        """The open tenants by name."""
        return self._tenants.names()

    def use_config(self, config: Config) -> None:
        """Search by new settings; limits of packets and pages hold from the next start."""
        for opened in self._tenants.all():
            opened.use_config(config)

    def degraded(self) -> list[str]:
        """What does not work as it should, in words."""
        problems = [problem for opened in self._tenants.all() for problem in opened.spaces.problems]
        return [self._interrupted, *problems] if self._interrupted else problems

    # -------------------------------------------------------------------------------------------- intake

    async def ingest_files(self, paths: Sequence[Path], call: Call, root: Path | None = None) -> list[IngestOutcome]:
        """One outcome a file, in order, each durable and lexically searchable; a bad file is an outcome, not an error.

        With `root` (a watched folder), links that lead out of it are ignored. Raises Cancelled, DeadlineExceeded.
        """
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(opened.ingest.files, paths, call, root)

    async def ingest_documents(self, documents: Sequence[tuple[str, bytes]], call: Call) -> list[IngestOutcome]:
        """The same for (name, bytes) pairs."""
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(opened.ingest.documents, documents, call)

    async def changed_files(self, paths: Sequence[Path], call: Call) -> list[Path]:
        """Those of `paths` that are regular files and do not look as they did when they were last judged."""
        opened = await self._tenants.get_or_make(call.tenant)

        def compare() -> list[Path]:
            names = [path_text(path) for path in paths]
            known = opened.tenant.file.read(lambda connection: known_files.load(connection, names))
            changed = []
            for path, name in zip(paths, names, strict=True):
                stamp, row = stamp_of(path), known.get(name)
                if stamp is not None and (row is None or not row.holds(stamp)):
                    changed.append(path)
            return changed

        return await self._tenants.run(compare)

    async def quarantined(self, call: Call, limit: int = 100) -> list[dict[str, Any]]:
        """What could not be read, newest first: path, sha256, size, reason, line, at, kept."""
        return await self._tenant(call).tenant.file.aread(lambda connection: quarantine.newest(connection, limit))

    async def drain_vectors(self, call: Call) -> int:
        """Embed one slice of waiting pages of every tenant; how many pages that were, 0 when none wait.

        Raises what the embedder raises.
        """
        embedder, done = self._embedder, 0
        if embedder is None:
            return 0
        for opened in self._tenants.all():
            call.check(self._clock.monotonic())
            done += await opened.spaces.drain(embedder, call, self._config.embedder.max_backlog_pages)
        return done

    async def counts(self, tenants: Sequence[str] | None = None) -> dict[str, int]:
        """packets, pages, vectors, queue (pages without a vector) and quarantined, of all tenants or those named."""
        chosen = self._tenants.all(tenants)
        counts = [opened.counts() for opened in chosen]
        waiting = await asyncio.to_thread(lambda: sum(opened.spaces.pending_count() for opened in chosen))
        return {
            "packets": sum(count.packets for count in counts),
            "pages": sum(count.pages for count in counts),
            "vectors": sum(opened.spaces.count() for opened in chosen),
            "queue": waiting,
            "quarantined": sum(count.quarantined for count in counts),
        }

    # -------------------------------------------------------------------------------------------- memory

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        """Pages for a query; see `Searcher.search`."""
        opened = self._tenant(call)
        if call.hidden:
            filters = msgspec.structs.replace(request.filters, without=[*request.filters.without, *call.hidden])
            request = msgspec.structs.replace(request, filters=filters)
            await opened.tenant.file.aread(lambda connection: packets.pages(connection, request.page_ids, call.hidden))
        return await opened.searcher.search(request, call, self._embedder)

    async def facets(self, call: Call) -> Facets:
        """What the tenant knows by name."""
        return await self._tenant(call).searcher.facets(call)

    async def document_frequency(self, words: Sequence[str], call: Call) -> dict[str, int]:
        """On how many pages each word stands; 0 when nowhere."""
        return await self._tenant(call).searcher.document_frequency(words, call)

    async def pages(self, page_ids: Sequence[str], call: Call) -> list[Page]:
        """In the order asked for, superseded revisions included. Raises NotFound for an unknown or foreign id."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.pages(connection, page_ids, call.hidden)
        )

    async def section_pages(self, packet_id: str, focus: Focus, call: Call) -> list[Page]:
        """The packet's pages for a focus (GAM 3), in reading order. Raises NotFound."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.section_pages(connection, packet_id, focus, call.hidden)
        )

    async def list_packets(self, request: PacketFilter, call: Call) -> list[PacketSummary]:
        """Current revisions by time. Raises BadInput."""
        filters = msgspec.structs.replace(request.filters, without=[*request.filters.without, *call.hidden])
        shown = msgspec.structs.replace(request, filters=filters)
        return await self._tenant(call).tenant.file.aread(lambda connection: packets.list_packets(connection, shown))

    async def packet_summaries(self, packet_ids: Sequence[str], call: Call) -> list[PacketSummary]:
        """In the order asked for. Raises NotFound."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.summaries(connection, packet_ids, call.hidden)
        )

    async def packet_detail(self, packet_id: str, call: Call) -> PacketDetail:
        """The current revision whole. Raises NotFound."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.detail(connection, packet_id, call.hidden)
        )

    async def original(self, packet_id: str, call: Call, revision: int = 0) -> tuple[bytes, str]:
        """(bytes as they came, media type); revision 0 is the current one. Raises NotFound, Conflict when damaged."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.original(connection, packet_id, revision, call.hidden)
        )

    async def hidden(self, ids: Collection[str], call: Call) -> set[str]:
        """Those of these packet and page ids, of any revision, that are hidden from the call."""
        if not (ids and call.hidden):
            return set()
        return await self._tenant(call).tenant.file.aread(lambda connection: hidden_ids(connection, call.hidden, ids))

    # --------------------------------------------------------------------------------------- maintenance

    async def verify_packets(
        self, packet_ids: Sequence[str] | None, call: Call, progress: Progress | None = None
    ) -> VerifyReport:
        """Packets (None: all), every revision, held against their originals. Raises NotFound, Cancelled."""
        opened = self._tenant(call)
        if packet_ids and call.hidden:
            await self.packet_summaries(packet_ids, call)
        return await self._tenants.run(
            verify, opened.tenant.file, packet_ids, self._config, self._clock.zone, self._checker(call), progress
        )

    async def reindex(self, call: Call, progress: Progress) -> dict[str, Any]:
        """Everything derived, anew from the originals; vectors of changed pages follow by the queue."""
        opened = self._tenant(call)
        return await self._tenants.run(
            reindex,
            opened.tenant.file,
            self._config,
            self._clock.zone,
            opened.changed,
            self._checker(call),
            progress,
        )

    async def sweep(self, folders: Sequence[Path], call: Call) -> dict[str, Any]:
        """{checked, problems, repaired}; `folders` are the tenant's watched ones. Raises Cancelled."""
        opened = self._tenant(call)

        def work() -> dict[str, Any]:
            report = sweep(opened.tenant, folders, self._checker(call), _SWEEP_BUDGET_S, self._clock.monotonic)
            for index in opened.spaces.indexes():
                report.checked["vectors"] = report.checked.get("vectors", 0) + index.count
                _mend_vectors(index, report)
            opened.recount()
            return report.as_dict()

        return await self._tenants.run(work)

    async def backup(self, directory: Path, others: Mapping[str, DatabaseFile] | None = None) -> dict[str, Any]:
        """A consistent copy of every tenant in a new folder, and of `others` by their name there.

        Raises Conflict, BadInput.
        """
        async with self._maintenance:
            counts = await self.counts()
            return await self._tenants.run(
                backup.write_backup,
                directory,
                [opened.tenant for opened in self._tenants.all()],
                others or {},
                to_iso(self._clock.now()),
                counts,
            )

    async def restore(self, directory: Path, others: Others | None = None) -> dict[str, Any]:
        """Put a backup in place of what is there, which goes to before-restore-<time> in the home; nothing is deleted.

        Tenants that the backup does not have are gone from use, and so is what `others` keep of them. Calls meanwhile
        get Unavailable. Raises NotFound, BadInput, Conflict; then everything is as it was.
        """
        async with self._maintenance:
            manifest = await self._tenants.run(backup.read_manifest, directory)
            files = OtherFiles(self._home, directory, manifest, others or Others())
            aside = self._home / f"before-restore-{self._clock.now().strftime('%Y%m%dT%H%M%S%f')}"
            await self._tenants.run(files.prepare)
            try:
                await self._tenants.run(restore.stage, self._home, directory, manifest)
                await self._tenants.run(files.exchange, aside)
                await self._exchange_tenants(aside)
            except GaiadError:
                await self._tenants.run(files.undo)
                raise
            await self._tenants.run(files.finish)
            self._interrupted = ""
        return {
            "directory": str(directory),
            "tenants": manifest.tenants,
            "counts": manifest.counts,
            "created_at": manifest.created_at,
            "previous": str(aside),
        }

    async def _exchange_tenants(self, aside: Path) -> None:
        try:
            await self._tenants.close_all("a restore is running")
            await asyncio.to_thread(restore.exchange, self._home, aside)
        except GaiadError:
            await self._tenants.open_all()
            raise
        try:
            await self._tenants.open_all()
        except GaiadError:
            await self._tenants.close_all("a restore failed")
            await asyncio.to_thread(restore.undo, self._home, aside)
            await self._tenants.open_all()
            raise

    def _checker(self, call: Call) -> Callable[[], None]:
        return lambda: call.check(self._clock.monotonic())


def _mend_vectors(index: VectorIndex, report: SweepReport) -> None:
    """Load an index anew from file and database when it disagrees with them."""
    problems = index.check()
    if not problems:
        return
    index.load()
    left = index.check()
    report.repaired += [f"{problem}: loaded anew from the database" for problem in problems if problem not in left]
    report.problems += left
