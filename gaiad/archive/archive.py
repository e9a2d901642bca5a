"""The archive as the rest of gaiad sees it: tenants by name, every call inside one of them (decisions 17 to 23).

A thin shell: it finds the tenant and hands it the call. What keeps it whole is in `keeping_calls`.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.feedback_calls import FeedbackCalls
from gaiad.archive.finding import packets
from gaiad.archive.finding.hidden import hidden_ids
from gaiad.archive.keeping_calls import KeepingCalls
from gaiad.archive.open_tenants import OpenTenants
from gaiad.archive.reading.disk import path_text, stamp_of
from gaiad.archive.storing import known_files, quarantine
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.ingest_schemas import IngestOutcome
from gaiad.metrics import Metrics
from gaiad.ports import Call, Embedder
from gaiad.schemas import (
    Facets,
    Filters,
    Focus,
    PacketDetail,
    PacketFilter,
    PacketSummary,
    Page,
    SearchRequest,
    SearchResponse,
)

_SWEEP_BUDGET_S = 60.0  # for re-hashing originals in one sweep


class LocalArchive(KeepingCalls):
    """Implements ports.Archive over files under `home`/tenants. Start it, and close it on the same event loop."""

    def __init__(self, home: Path, config: Config, clock: Clock, embedder: Embedder | None, metrics: Metrics) -> None:
        super().__init__(OpenTenants(home, config, clock, embedder, metrics), clock, home, config)
        self.feedback = FeedbackCalls(self._tenants, clock)
        self._embedder = embedder

    # ---------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Open every tenant found, and `local`; finish a restore that a crash interrupted. Raises Conflict."""
        await self.finish_interrupted()
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
        return [*self.interrupted, *problems]

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

    async def search(self, request: SearchRequest, call: Call) -> SearchResponse:
        """Pages for a query; see `Searcher.search`."""
        opened = self._tenant(call)
        if call.hidden:
            request = msgspec.structs.replace(request, filters=_shown(request.filters, call))
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
        shown = msgspec.structs.replace(request, filters=_shown(request.filters, call))
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


def _shown(filters: Filters, call: Call) -> Filters:
    """The filters, and without what is hidden from the call."""
    return msgspec.structs.replace(filters, without=[*filters.without, *call.hidden])
