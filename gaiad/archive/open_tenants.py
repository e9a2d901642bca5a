"""The tenants that are open, by name, and the threads their blocking work runs in.

A tenant is opened at the start or when something is first written for it. While none are open, every call is told why.
"""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from gaiad.archive.storing.tenant import check_tenant_name, open_tenant
from gaiad.archive.tenant_archive import TenantArchive
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.errors import NotFound, Unavailable
from gaiad.metrics import Metrics
from gaiad.ports import Embedder
from gaiad.schemas import DEFAULT_TENANT

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 4
_RETRY_AFTER_S = 2.0


class OpenTenants:
    """Over the files under `home`/tenants."""

    def __init__(self, home: Path, config: Config, clock: Clock, embedder: Embedder | None, metrics: Metrics) -> None:
        self._home = home
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

    def all(self, names: Collection[str] | None = None) -> list[TenantArchive]:
        """All that are open, or those of `names` that are."""
        return [opened for name, opened in list(self._open.items()) if names is None or name in names]

    def get(self, name: str) -> TenantArchive:
        """Raises NotFound for one that holds nothing, Unavailable while tenants are closed."""
        opened = self._open.get(name)
        if opened is None:
            self._refuse_closed()
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
        root = self._home / "tenants"
        found = await asyncio.to_thread(lambda: sorted(file.parent.name for file in root.glob("*/archive.db")))
        for name in dict.fromkeys([DEFAULT_TENANT, *found]):
            await self.run(self._open_one, name)
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
        """Wait for running work; none is taken any more."""
        await asyncio.to_thread(self._threads.shutdown)

    def _open_one(self, name: str) -> TenantArchive:
        with self._opening:
            if name in self._open:
                return self._open[name]
            tenant = open_tenant(self._home, name, self._config.archive.readers)
            opened = TenantArchive(tenant, self._config, self._clock, self._metrics)
            try:
                opened.open(self._embedder)
            except BaseException:
                tenant.file.close()
                raise
            self._open[name] = opened
            return opened

    def _refuse_closed(self) -> None:
        if self._closed_because:
            raise Unavailable(f"{self._closed_because}; try again shortly", _RETRY_AFTER_S)
