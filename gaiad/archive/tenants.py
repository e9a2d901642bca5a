"""The tenants the archive has open, by name, and the threads their blocking work runs in.

A tenant is opened at the start or when something is first written for it. While none are open, every call raises
with the reason.
The counts `status` shows are kept in memory: read once at opening, moved by every commit.
"""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from gaiad.archive.dense.vector_queue import VectorSpaces
from gaiad.archive.finding.search import Searcher
from gaiad.archive.finding.sessions import TurnShelf
from gaiad.archive.importing.importer import Importer
from gaiad.archive.storing import quarantine
from gaiad.archive.storing.ingest import Ingest
from gaiad.archive.storing.memorizer import Memorizer
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.errors import Conflict, GaiadError, NotFound, Unavailable
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Embedder
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import IN_USE, HomeDatabases, check_tenant_name
from gaiad.wire.schemas import DEFAULT_TENANT

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 4
_RETRY_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Current packets, searched pages, unresolved quarantine rows."""

    packets: int
    pages: int
    quarantined: int


class TenantArchive:
    """Everything the archive has open for one tenant. `open` before use, `close` after; the file is the caller's."""

    def __init__(self, tenant: Tenant, config: Config, clock: Clock, metrics: Metrics) -> None:
        self.tenant = tenant
        self.spaces = VectorSpaces(tenant, config.archive.exact_scan_max, clock)
        self.searcher = Searcher(tenant, self.spaces, config, clock)
        self.ingest = Ingest(tenant, config, clock, metrics, self.changed)
        self.importer = Importer(tenant, config, clock, self.ingest, self.changed)
        self.turns = TurnShelf()
        self.memorizer = Memorizer(tenant, config, clock, metrics, self.changed)
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = Counts(0, 0, 0)
        self._marked = False

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
        self._mark(counts)

    def use_config(self, config: Config) -> None:
        """Search by new weights and limits from now on; what a search began with it keeps."""
        self.searcher = Searcher(self.tenant, self.spaces, config, self._clock)

    def changed(self, change: WriteResult) -> None:
        """Take up what a commit did. Not for the writer's thread: dead vectors are taken out of the indexes."""
        with self._lock:
            self._counts = Counts(
                packets=self._counts.packets + change.packets,
                pages=self._counts.pages + change.pages,
                quarantined=self._counts.quarantined + change.quarantined,
            )
            counts = self._counts
        self._mark(counts)
        if change.stale_pages:
            self.spaces.forget(change.stale_pages)

    def _mark(self, counts: Counts) -> None:
        """So that a file that goes missing is not taken for a tenant that holds nothing yet."""
        if counts.packets and not self._marked:
            (self.tenant.root / IN_USE).touch(mode=0o600)
            self._marked = True

    def counts(self) -> Counts:
        """Cheap; no disk."""
        with self._lock:
            return self._counts

    async def close(self) -> None:
        """Write vector indexes; searches that run end first."""
        await self.spaces.close()


class Tenants:
    """Over the databases of a home."""

    def __init__(
        self, databases: HomeDatabases, config: Config, clock: Clock, embedder: Embedder | None, metrics: Metrics
    ) -> None:
        self._databases = databases
        self._config = config
        self._clock = clock
        self._embedder = embedder
        self._metrics = metrics
        self._open: dict[str, TenantArchive] = {}
        self._opening = threading.Lock()
        self._closed_because = "the archive is not open"
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="archive")

    def names(self) -> list[str]:
        return sorted(self._open)

    def problems(self) -> list[str]:
        """What is damaged, in words."""
        return self._databases.problems()

    def files(self) -> list[DatabaseFile]:
        """All databases in use; blocks."""
        return list(self._databases.files().values())

    def all(self, names: Collection[str] | None = None) -> list[TenantArchive]:
        """All that are open, or those of `names` that are."""
        return [opened for name, opened in list(self._open.items()) if names is None or name in names]

    def get(self, name: str) -> TenantArchive:
        """Raises NotFound for one that holds nothing, Unavailable while tenants are closed."""
        opened = self._open.get(name)
        if opened is None:
            self._refuse_closed()
            if name in self._databases.damaged:
                raise Conflict(self._databases.damaged[name])
            raise NotFound(f"tenant {check_tenant_name(name)!r} holds nothing yet; ingest a packet into it first")
        return opened

    async def get_or_make(self, name: str) -> TenantArchive:
        """The tenant, made when it is new. Raises BadInput for a name that cannot be one, Unavailable."""
        check_tenant_name(name)
        self._refuse_closed()
        opened = self._open.get(name)
        return opened if opened is not None else await self.run(self._open_one, name)

    async def open_all(self) -> None:
        """Open the default tenant and every one found."""
        await asyncio.to_thread(self._databases.check_tenants)
        for name in dict.fromkeys([DEFAULT_TENANT, *self._databases.tenants()]):
            try:
                await self.run(self._open_one, name)
            except GaiadError as error:
                self._databases.damaged[name] = error.message
        self._closed_because = ""

    async def close_all(self, reason: str) -> None:
        """Close every tenant; calls get Unavailable with `reason` until `open_all`. Raises what a close raised."""
        self._closed_because = reason
        closing, self._open = list(self._open.values()), {}
        results = await asyncio.gather(*(opened.close() for opened in closing), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work in a thread, as part of what goes on here. Raises Unavailable after `end`."""
        try:
            future = self._threads.submit(contextvars.copy_context().run, functools.partial(work, *args, **kwargs))
        except RuntimeError as error:  # shut down by `end`
            raise Unavailable("the archive is closed") from error
        return await asyncio.wrap_future(future)

    async def end(self) -> None:
        """Wait for running work; none is taken any longer."""
        await asyncio.to_thread(self._threads.shutdown)

    def _open_one(self, name: str) -> TenantArchive:
        with self._opening:
            if name in self._open:
                return self._open[name]
            tenant = Tenant(name=name, root=self._databases.folder(name), file=self._databases.file(name))
            opened = TenantArchive(tenant, self._config, self._clock, self._metrics)
            opened.open(self._embedder)
            self._open[name] = opened
            return opened

    def _refuse_closed(self) -> None:
        if self._closed_because:
            raise Unavailable(f"{self._closed_because}; try again shortly", _RETRY_AFTER_S)
