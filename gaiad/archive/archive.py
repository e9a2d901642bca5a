"""The archive as the rest of gaiad sees it: tenants by name, every call inside one of them (decisions 17 to 23).

A thin shell: it finds the tenant and hands it the call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.deletion import AlsoForget, Deletion, purge_forgotten
from gaiad.archive.feedback import FeedbackStore
from gaiad.archive.finding import packets, sessions
from gaiad.archive.finding.facets import timeline
from gaiad.archive.finding.filters import hidden_ids
from gaiad.archive.finding.search import similarity
from gaiad.archive.importing.importer import ImportOptions, ImportStep
from gaiad.archive.keeping import forget
from gaiad.archive.keeping.reindex import reindex
from gaiad.archive.keeping.sweep import sweep, sweep_vectors
from gaiad.archive.keeping.verify import Progress, verify
from gaiad.archive.storing import arrivals, quarantine
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.storing.sessions import rename
from gaiad.archive.tenants import TenantArchive, Tenants
from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.journal import journalled
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Embedder, RequestContext
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.ingest import IngestOutcome
from gaiad.wire.memory import Memo, MemoryPage, PageHeader, SessionSummary, SessionTurn
from gaiad.wire.schemas import (
    Facets,
    Filters,
    Focus,
    PacketDetail,
    PacketFilter,
    PacketSummary,
    Page,
    SearchRequest,
    SearchResponse,
    Timeline,
    VerifyReport,
)

_SWEEP_BUDGET_S = 60.0  # for re-hashing originals in one sweep


class LocalArchive:
    """Implements ports.Archive over the databases of a home. Start it, and close it on the same event loop."""

    def __init__(
        self,
        databases: HomeDatabases,
        config: Config,
        clock: Clock,
        embedder: Embedder | None,
        metrics: Metrics,
        also_forget: Sequence[AlsoForget] = (),
    ) -> None:
        self._tenants = Tenants(databases, config, clock, embedder, metrics)
        self._clock = clock
        self._config = config
        self._embedder = embedder
        self.feedback = FeedbackStore(self._tenants, clock)
        self.deletion = Deletion(self._tenants, clock, config, also_forget)

    # ---------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Open every tenant found, and `local`; also after `pause`. Raises Conflict."""
        await self._tenants.open_all()

    async def pause(self, reason: str) -> None:
        """Write vector indexes and let go of every tenant; calls get Unavailable with `reason` until `start`."""
        await self._tenants.close_all(reason)

    async def close(self) -> None:
        """Write vector indexes and wait for running calls."""
        try:
            await self.pause("the archive is closed")
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
        return [
            *self._tenants.problems(),
            *(problem for opened in self._tenants.all() for problem in opened.spaces.problems),
        ]

    async def check_databases(self) -> list[str]:
        """What is wrong with the files, in words; reads all of those in use."""
        for file in await self._tenants.run(self._tenants.files):
            await self._tenants.run(file.check)
        return self._tenants.problems()

    # -------------------------------------------------------------------------------------------- intake

    async def ingest_files(
        self, paths: Sequence[Path], call: RequestContext, root: Path | None = None
    ) -> list[IngestOutcome]:
        """One outcome a file, in order, each durable and lexically searchable; a bad file is an outcome, not an error.

        With `root` (a watched folder), links that lead out of it are ignored. Raises Cancelled, DeadlineExceeded.
        """
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(opened.ingest.files, paths, call, root)

    async def ingest_documents(
        self, documents: Sequence[tuple[str, bytes]], call: RequestContext
    ) -> list[IngestOutcome]:
        """The same for (name, bytes) pairs."""
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(opened.ingest.documents, documents, call)

    async def import_paths(
        self, paths: Sequence[Path], options: ImportOptions, call: RequestContext, cursor: dict[str, Any]
    ) -> AsyncIterator[ImportStep]:
        """The steps of an import behind `cursor`, each durable and lexically searchable. Raises Cancelled."""
        opened = await self._tenants.get_or_make(call.tenant)
        steps = opened.importer.run(paths, options, call, cursor)
        while (step := await self._tenants.run(next, steps, None)) is not None:
            yield step

    async def exports_among(self, paths: Sequence[Path], call: RequestContext) -> dict[Path, str]:
        """Which of `paths` are exports ("") or archives and logs that nobody reads (the reason)."""
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(opened.importer.exports_among, paths)

    async def handed_to_import(self, paths: Sequence[Path], import_id: str, call: RequestContext) -> None:
        """Note files of a watched folder as read by an import."""
        await self._tenants.run(self._tenant(call).importer.remember, paths, import_id)

    async def refuse_files(self, refused: Mapping[Path, str], call: RequestContext) -> list[IngestOutcome]:
        """Put files in quarantine with the reason for each."""
        return await self._tenants.run(self._tenant(call).importer.refuse, refused)

    async def changed_files(self, paths: Sequence[Path], call: RequestContext) -> list[Path]:
        """Those of `paths` that are regular files and do not look as they did when they were last judged."""
        opened = await self._tenants.get_or_make(call.tenant)

        return await self._tenants.run(opened.tenant.file.read, lambda connection: arrivals.changed(connection, paths))

    async def quarantined(self, call: RequestContext, limit: int = 100) -> list[dict[str, Any]]:
        """What could not be read, newest first: id, path, sha256, size, reason, line, at, kept."""
        return await self._file(call).aread(lambda connection: quarantine.newest(connection, limit))

    async def quarantined_file(self, number: int, call: RequestContext) -> tuple[dict[str, Any], bytes | None]:
        """One row of it, and the bytes that were kept. Raises NotFound."""
        return await self._file(call).aread(lambda connection: quarantine.show(connection, number))

    async def drop_quarantined(self, number: int, call: RequestContext) -> None:
        """Forget a file in quarantine and its bytes; the file itself is not touched. Raises NotFound."""
        opened = self._tenant(call)
        await self._tenants.run(opened.tenant.file.write, lambda connection: quarantine.drop(connection, number))
        opened.changed(WriteResult(quarantined=-1))

    async def drain_vectors(self, call: RequestContext) -> int:
        """Embed one slice of waiting pages of every tenant; how many pages that were, 0 when none wait.

        Raises what the embedder raises, once every tenant had its slice.
        """
        embedder, done, failed = self._embedder, 0, None
        if embedder is None:
            return 0
        for opened in self._tenants.all():
            call.check(self._clock.monotonic())
            try:
                done += await opened.spaces.drain(embedder, call, self._config.embedder.max_backlog_pages)
            except Exception as error:  # noqa: BLE001  (raised below: what one tenant lacks is not kept from the others)
                failed = failed or error
        if failed is not None:
            raise failed
        return done

    # -------------------------------------------------------------------------------------------- memory

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        """Pages for a query, or what the journal of the call has for it; see `Searcher.search`."""
        opened = self._tenant(call)
        if call.hidden:
            request = msgspec.structs.replace(request, filters=_shown(request.filters, call))
            await opened.tenant.file.aread(lambda connection: packets.pages(connection, request.page_ids, call.hidden))
        search = partial(opened.searcher.search, request, call, self._embedder)
        return await journalled(call.journal, "search", request, SearchResponse, search)

    async def facets(self, call: RequestContext) -> Facets:
        """What the tenant knows by name."""
        return await self._tenant(call).searcher.facets(call)

    async def document_frequency(self, words: Sequence[str], call: RequestContext) -> dict[str, int]:
        """How many pages contain each word; 0 for none."""
        return await self._tenant(call).searcher.document_frequency(words, call)

    async def similarity(self, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
        """The cosine of each text to the query; [] while no embedder answers in time."""
        return await similarity(self._embedder, query, texts, call)

    async def pages(self, page_ids: Sequence[str], call: RequestContext) -> list[Page]:
        """In the order asked for, superseded revisions included. Raises NotFound for an unknown or foreign id."""
        return await self._file(call).aread(lambda connection: packets.pages(connection, page_ids, call.hidden))

    async def section_pages(self, packet_id: str, focus: Focus, call: RequestContext) -> list[Page]:
        """The packet's pages for a focus (GAM 3), in reading order. Raises NotFound."""
        return await self._file(call).aread(
            lambda connection: packets.section_pages(connection, packet_id, focus, call.hidden)
        )

    async def list_packets(self, request: PacketFilter, call: RequestContext) -> list[PacketSummary]:
        """Current revisions by time. Raises BadInput."""
        shown = msgspec.structs.replace(request, filters=_shown(request.filters, call))
        return await self._file(call).aread(lambda connection: packets.list_packets(connection, shown))

    async def timeline(self, request: PacketFilter, call: RequestContext) -> Timeline:
        """Counts by month and facet under the request's filters. Raises BadInput."""
        shown = _shown(request.filters, call)
        return await self._file(call).aread(lambda connection: timeline(connection, shown))

    async def packet_summaries(self, packet_ids: Sequence[str], call: RequestContext) -> list[PacketSummary]:
        """In the order asked for. Raises NotFound."""
        return await self._file(call).aread(lambda connection: packets.summaries(connection, packet_ids, call.hidden))

    async def packet_detail(self, packet_id: str, call: RequestContext) -> PacketDetail:
        """The current revision whole. Raises NotFound."""
        return await self._file(call).aread(lambda connection: packets.detail(connection, packet_id, call.hidden))

    async def revisions_without(self, packet_id: str, quote: str, call: RequestContext) -> list[int]:
        """The superseded revisions of a packet in which the quote does not occur, oldest first."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: packets.revisions_without(connection, packet_id, quote, call.hidden)
        )

    async def original(self, packet_id: str, call: RequestContext, revision: int = 0) -> tuple[bytes, str]:
        """(bytes as they came, media type); revision 0 is the current one. Raises NotFound, Conflict when damaged."""
        return await self._file(call).aread(
            lambda connection: packets.original(connection, packet_id, revision, call.hidden)
        )

    async def hidden(self, ids: Collection[str], call: RequestContext) -> set[str]:
        """Those of these packet and page ids, of any revision, that are hidden from the call."""
        if not (ids and call.hidden):
            return set()
        return await self._file(call).aread(lambda connection: hidden_ids(connection, call.hidden, ids))

    # ------------------------------------------------------------------------------------------- sessions

    async def remember_turn(self, turn: SessionTurn, call: RequestContext) -> str:
        """Store a turn, durable and searchable by its words at once; returns its packet id, which is its turn id.

        The same turn again changes nothing. Raises BadInput, Conflict for an id or number that is taken.
        """
        return (await self.remember_turns([turn], call))[0]

    async def remember_turns(
        self, turns: Sequence[SessionTurn], call: RequestContext, *, as_session: bool = False
    ) -> list[str]:
        """Many at once, of one session or several (JIT's ingest_session); see `Memorizer.remember`."""
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(partial(opened.memorizer.remember, as_session=as_session), turns, call)

    async def session_turns(
        self, session_id: str, call: RequestContext, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        """At most `limit` turns numbered above `after`, in order, exactly as remembered; [] for an unknown session.

        `latest` takes the last ones instead of the first. Raises Conflict when an original is damaged.
        """
        opened = self._tenant(call)
        return await opened.tenant.file.aread(
            lambda connection: opened.turns.turns(connection, session_id, after, limit, call.hidden, latest=latest)
        )

    async def sessions(self, call: RequestContext, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        return await self._file(call).aread(
            lambda connection: sessions.sessions(connection, call.tenant, limit, offset, call.hidden)
        )

    async def session(self, session_id: str, call: RequestContext) -> SessionSummary:
        """One session. Raises NotFound."""
        return await self._file(call).aread(
            lambda connection: sessions.session(connection, call.tenant, session_id, call.hidden)
        )

    async def rename_session(self, session_id: str, title: str, call: RequestContext) -> SessionSummary:
        """The session with a title of the person's own, "" for none again. Raises BadInput, NotFound."""
        await self.session(session_id, call)
        await self._file(call).awrite(lambda connection: rename(connection, session_id, title))
        return await self.session(session_id, call)

    async def session_memos(self, session_id: str, call: RequestContext) -> list[Memo]:
        """What each page added to the session, in order; pages that added nothing are left out."""
        return await self._file(call).aread(
            lambda connection: sessions.session_memos(connection, session_id, call.hidden)
        )

    async def packet_memos(self, packet_id: str, call: RequestContext) -> list[Memo]:
        """The same for one turn; [] for a packet that is none."""
        return await self._file(call).aread(
            lambda connection: sessions.packet_memos(connection, packet_id, call.hidden)
        )

    async def session_memo(self, session_id: str, call: RequestContext) -> str:
        """The memos of a session merged into one line of the same size; "" when there is nothing in them."""
        return await self._file(call).aread(
            lambda connection: sessions.session_memo(connection, session_id, call.hidden)
        )

    async def session_pages(
        self, session_id: str, call: RequestContext, after: int = -1, limit: int = 200
    ) -> list[MemoryPage]:
        """JIT's pages: exact text, decorated header, memo; those numbered above `after`, in order."""
        return await self._file(call).aread(
            lambda connection: sessions.session_pages(connection, call.tenant, session_id, after, limit, call.hidden)
        )

    async def page_headers(self, page_ids: Sequence[str], call: RequestContext) -> list[PageHeader]:
        """JIT's header of any pages, in the order asked for. Raises NotFound for an unknown or foreign id."""
        return await self._file(call).aread(
            lambda connection: sessions.page_headers(connection, call.tenant, page_ids, call.hidden)
        )

    # ---------------------------------------------------------------------------------------- maintenance

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

    async def verify_packets(
        self, packet_ids: Sequence[str] | None, call: RequestContext, progress: Progress | None = None
    ) -> VerifyReport:
        """Packets (None: all), every revision, held against their originals. Raises NotFound, Cancelled."""
        opened = self._tenant(call)
        if packet_ids and call.hidden:
            await opened.tenant.file.aread(lambda connection: packets.summaries(connection, packet_ids, call.hidden))
        return await self._tenants.run(
            verify, opened.tenant.file, packet_ids, self._config, self._clock.zone, self._checker(call), progress
        )

    async def reindex(self, call: RequestContext, progress: Progress) -> dict[str, Any]:
        """Rebuild everything derived from the originals; vectors of changed pages follow by the queue."""
        opened, check = self._tenant(call), self._checker(call)
        file, zone = opened.tenant.file, self._clock.zone
        return await self._tenants.run(reindex, file, self._config, zone, opened.changed, check, progress)

    async def sweep(self, folders: Sequence[Path], call: RequestContext) -> dict[str, Any]:
        """{checked, problems, repaired}; `folders` are the tenant's watched ones. Raises Cancelled."""
        opened = self._tenant(call)

        def work() -> dict[str, Any]:
            check = self._checker(call)
            report = sweep(opened.tenant, folders, check, _SWEEP_BUDGET_S, self._clock.monotonic)
            sweep_vectors(opened.spaces.indexes(), report)
            if opened.tenant.file.read(forget.undoable):
                report.checked["purged"] = purge_forgotten(opened, self._clock)
            opened.recount()
            return report.as_dict()

        return await self._tenants.run(work)

    def _file(self, call: RequestContext) -> DatabaseFile:
        return self._tenant(call).tenant.file

    def _tenant(self, call: RequestContext) -> TenantArchive:
        call.check(self._clock.monotonic())
        return self._tenants.get(call.tenant)

    def _checker(self, call: RequestContext) -> Callable[[], None]:
        return lambda: call.check(self._clock.monotonic())


def _shown(filters: Filters, call: RequestContext) -> Filters:
    """The filters, and without what is hidden from the call."""
    return msgspec.structs.replace(filters, without=[*filters.without, *call.hidden])
