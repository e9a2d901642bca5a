"""Everything that is open for one tenant: its file, its way in, its search, its vectors, and its counts.

The counts `status` shows are kept in memory: read once at opening, moved by every commit.
"""

import asyncio
import threading
from dataclasses import dataclass

from gaiad.archive.dense.vector_queue import VectorSpaces
from gaiad.archive.finding.search import Searcher
from gaiad.archive.finding.sessions import TurnShelf
from gaiad.archive.storing import quarantine
from gaiad.archive.storing.ingest import Ingest
from gaiad.archive.storing.memorizer import Memorizer
from gaiad.archive.storing.records import Change
from gaiad.archive.storing.tenant import Tenant
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.metrics import Metrics
from gaiad.ports import Embedder


@dataclass(frozen=True, slots=True)
class Counts:
    """Current packets, searched pages, unresolved quarantine rows."""

    packets: int
    pages: int
    quarantined: int


class TenantArchive:
    """Made by `LocalArchive` on an open tenant; `open` before use, `close` after."""

    def __init__(self, tenant: Tenant, config: Config, clock: Clock, metrics: Metrics) -> None:
        self.tenant = tenant
        self.spaces = VectorSpaces(tenant, config.archive.exact_scan_max, clock)
        self.searcher = Searcher(tenant, self.spaces, config, clock)
        self.ingest = Ingest(tenant, config, clock, metrics, self.changed)
        self.turns = TurnShelf()
        self.memorizer = Memorizer(tenant, config, clock, metrics, self.changed)
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = Counts(0, 0, 0)

    def open(self, embedder: Embedder | None) -> None:
        """Load counts and vector indexes. Blocks."""
        self.recount()
        self.spaces.open(embedder)

    def recount(self) -> None:
        """Read the counts from the database: at opening, and whenever a sweep makes sure of them. Blocks."""
        counts = self.tenant.file.read(
            lambda connection: Counts(
                packets=connection.execute("SELECT count(*) FROM packets WHERE current = 1").fetchone()[0],
                pages=connection.execute(
                    "SELECT (SELECT count(*) FROM pages) - (SELECT count(*) FROM pages WHERE active = 0)"
                ).fetchone()[0],
                quarantined=quarantine.open_count(connection),
            )
        )
        with self._lock:
            self._counts = counts

    def use_config(self, config: Config) -> None:
        """Search by new weights and limits from now on; what a search began with it keeps."""
        self.searcher = Searcher(self.tenant, self.spaces, config, self._clock)

    def changed(self, change: Change) -> None:
        """Take up what a commit did. Not for the writer's thread: dead vectors are taken out of the indexes."""
        with self._lock:
            self._counts = Counts(
                packets=self._counts.packets + change.packets,
                pages=self._counts.pages + change.pages,
                quarantined=self._counts.quarantined + change.quarantined,
            )
        if change.stale_pages:
            self.spaces.forget(change.stale_pages)

    def counts(self) -> Counts:
        """Cheap; no disk."""
        with self._lock:
            return self._counts

    async def close(self) -> None:
        """Write vector indexes and close the file; searches that run end first."""
        try:
            await self.spaces.close()
        finally:
            await asyncio.to_thread(self.tenant.file.close)
