"""What keeps the archive whole: its counts, verification, indexing anew, sweeps, backup and restore (decision 23).

The part of `LocalArchive` that deals in all there is and not in what a question is about.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.finding import packets
from gaiad.archive.keeping import backup, restore
from gaiad.archive.keeping.reindex import reindex
from gaiad.archive.keeping.restore_others import OtherFiles, Others, interrupted
from gaiad.archive.keeping.sweep import SweepReport, sweep
from gaiad.archive.keeping.verify import Progress, verify
from gaiad.archive.open_tenants import OpenTenants
from gaiad.archive.session_calls import SessionCalls
from gaiad.clock import Clock, to_iso
from gaiad.config import Config
from gaiad.errors import GaiadError
from gaiad.ports import Call
from gaiad.schemas import VerifyReport
from gaiad.store.file import DatabaseFile

_SWEEP_BUDGET_S = 60.0  # for re-hashing originals in one sweep


class KeepingCalls(SessionCalls):
    """Over the open tenants and the files under `home`.

    `interrupted` tells of a restore that a crash broke off, as long as that matters.
    """

    def __init__(self, tenants: OpenTenants, clock: Clock, home: Path, config: Config) -> None:
        super().__init__(tenants, clock)
        self._home = home
        self._config = config
        self._maintenance = asyncio.Lock()
        self.interrupted: list[str] = []

    async def finish_interrupted(self) -> None:
        """Finish a restore that a crash interrupted, before any tenant is opened. Raises Conflict."""
        await self._tenants.run(restore.finish_interrupted, self._home)
        left = await self._tenants.run(interrupted, self._home)
        self.interrupted = [left] if left else []

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
        self, packet_ids: Sequence[str] | None, call: Call, progress: Progress | None = None
    ) -> VerifyReport:
        """Packets (None: all), every revision, held against their originals. Raises NotFound, Cancelled."""
        opened = self._tenant(call)
        if packet_ids and call.hidden:
            await opened.tenant.file.aread(lambda connection: packets.summaries(connection, packet_ids, call.hidden))
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
            self.interrupted = []
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
