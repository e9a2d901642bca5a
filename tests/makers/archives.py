"""An archive on a home whose databases nobody else has open."""

import asyncio
from pathlib import Path

from gaiad.archive.archive import LocalArchive
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Embedder
from gaiad.store.backup import Manifest, exchange, prepare_restore, read_manifest, write_backup
from gaiad.store.home_databases import HomeDatabases


class OwnArchive(LocalArchive):
    """Closing it closes the databases too."""

    def __init__(self, home: Path, config: Config, clock: Clock, embedder: Embedder | None = None) -> None:
        self.databases = HomeDatabases(home)
        super().__init__(self.databases, config, clock, embedder, Metrics())

    async def close(self) -> None:
        await super().close()
        self.databases.close()

    async def backup(self, directory: Path) -> Manifest:
        """Every database of the home, in a new folder."""
        counts = await self.counts()
        return await asyncio.to_thread(write_backup, directory, self.databases, "2025-12-01T12:00:00Z", counts)

    async def restore(self, directory: Path) -> Path:
        """Put a backup in place; where the databases from before are."""
        home = self.databases.home
        aside = home / f"before-restore-{len(list(home.glob('before-restore-*')))}"
        prepare_restore(home, directory, read_manifest(directory))
        await self.pause("a restore is running")
        try:
            await asyncio.to_thread(exchange, self.databases, aside, lambda _: None)
        finally:
            await self.start()
        return aside


def open_tenant(home: Path, name: str = "local") -> Tenant:
    """A tenant without an archive around it."""
    databases = HomeDatabases(home)
    return Tenant(name, databases.folder(name), databases.file(name))
