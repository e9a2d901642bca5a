"""One database file a tenant in one folder, opened at first use: what every log of this package keeps its rows in.

Forgetting a tenant is deleting a file, and no query can reach into another tenant's rows. The tables are the log's.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from gaiad.errors import BadInput
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

T = TypeVar("T")


class TenantFiles:
    """Files `<folder>/<tenant>.db`; safe from any thread. Looking at a tenant without a file makes none."""

    def __init__(self, folder: Path, migrations: Sequence[Migration], application_id: int) -> None:
        self._folder = folder
        self._migrations = migrations
        self._application_id = application_id
        self._files: dict[str, DatabaseFile] = {}
        self._opening = threading.Lock()

    async def write(self, tenant: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the tenant's writer; durable when this returns. Raises BadInput, Conflict, Unavailable."""
        return await asyncio.to_thread(lambda: self.file(tenant).write(work))

    async def read(self, tenant: str, work: Callable[[sqlite3.Connection], T], without: T) -> T:
        """Run `work` in one snapshot of the tenant's file; `without` is the result when there is no file."""
        return await asyncio.to_thread(self._read, tenant, work, without)

    def tenants(self) -> list[str]:
        """Those that have a file, in order of their names."""
        return sorted(path.stem for path in self._folder.glob("*.db"))

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's file, opened, made when there is none. Raises BadInput, Conflict."""
        with self._opening:
            if tenant not in self._files:
                self._files[tenant] = DatabaseFile.open(
                    self._path(tenant), self._migrations, self._application_id, readers=1
                )
            return self._files[tenant]

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home: every tenant's file, opened for it."""
        return {f"{self._folder.name}/{tenant}.db": self.file(tenant) for tenant in self.tenants()}

    async def close(self) -> None:
        """Finish what is being written."""
        with self._opening:
            files, self._files = list(self._files.values()), {}
        for file in files:
            await asyncio.to_thread(file.close)

    def _read(self, tenant: str, work: Callable[[sqlite3.Connection], T], without: T) -> T:
        return self.file(tenant).read(work) if self._path(tenant).exists() else without

    def _path(self, tenant: str) -> Path:
        """Raises BadInput for a name that is none of a file in the folder."""
        if not tenant or tenant.startswith(".") or "/" in tenant or "\0" in tenant:
            raise BadInput(f"tenant {tenant!r}: use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
        return self._folder / f"{tenant}.db"
