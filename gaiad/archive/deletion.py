"""What a person deletes from a tenant: see what would go, delete it, put it back while that is still possible."""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from gaiad.archive.keeping import forget
from gaiad.archive.keeping.forget import DeletionSet
from gaiad.archive.storing import arrivals
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.tenants import TenantArchive, Tenants
from gaiad.base.clock import Clock, iso_of_ms, to_epoch_ms
from gaiad.base.config import Config
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import ForgetReport, ForgetRequest, Forgotten

_DAY_MS = 24 * 60 * 60 * 1000
AlsoForget = Callable[..., tuple[int, list[Path]]]
"""`also(connection, tenant, quotes, dry_run=...)`: delete what else in the tenant's file names a packet; how many
entries, and files to remove once that is durable."""


class Deletion:
    """Over the open tenants; every call stays inside `call.tenant`."""

    def __init__(self, tenants: Tenants, clock: Clock, config: Config, also: Sequence[AlsoForget]) -> None:
        self._tenants = tenants
        self._clock = clock
        self._config = config
        self._also = also

    async def forget(
        self, request: ForgetRequest, forget_id: str, call: RequestContext, gone: set[str] | None = None
    ) -> ForgetReport:
        """Delete what `request` names, or report what would go; `gone` takes up the ids. Raises BadInput, NotFound."""
        opened, now = self._tenant(call), to_epoch_ms(self._clock.now())

        def work() -> ForgetReport:
            files: list[Path] = []

            def delete(connection: sqlite3.Connection) -> tuple[ForgetReport, WriteResult]:
                chosen = forget.choose(connection, request, call.hidden)
                report = forget.report_on(connection, chosen)
                entries = self._also_forget(connection, opened, chosen, files, dry_run=request.dry_run)
                report = msgspec.structs.replace(report, log_entries=report.log_entries + entries)
                if request.dry_run:
                    return report, WriteResult()
                if gone is not None:
                    gone.update(chosen.packet_ids)
                keep = not request.now
                named = (*request.packet_ids, *request.session_ids)  # an imported conversation is a session of its own
                arrivals.remember_deleted(connection, [each for each in named if each in chosen.packet_ids])
                return report, forget.forget(connection, chosen, forget_id, now, self._clock.zone, keep=keep)

            file = opened.tenant.file
            report, change = file.read(delete) if request.dry_run else file.write(delete)
            opened.changed(change)
            for path in files:
                path.unlink(missing_ok=True)
            if request.now and not request.dry_run:
                purge_forgotten(opened, self._clock)
            undo_until = "" if request.now else iso_of_ms(now + forget.UNDO_MS)
            named = "" if request.dry_run or request.now else forget_id
            return msgspec.structs.replace(report, forget_id=named, undo_until=undo_until)

        return await self._tenants.run(work)

    async def forget_late(self, gone: Collection[str], forget_id: str, call: RequestContext, *, keep: bool) -> None:
        """Delete what was written about deleted packets since; `keep` sets turns aside for that deletion's undo."""
        opened = self._tenant(call)

        def work() -> None:
            files: list[Path] = []

            def delete(connection: sqlite3.Connection) -> WriteResult:
                chosen, now = forget.choose_late(connection, gone), to_epoch_ms(self._clock.now())
                self._also_forget(connection, opened, chosen, files, dry_run=False)
                return forget.forget(connection, chosen, forget_id, now, self._clock.zone, keep=keep)

            opened.changed(opened.tenant.file.write(delete))
            for path in files:
                path.unlink(missing_ok=True)
            if not keep:
                purge_forgotten(opened, self._clock)

        await self._tenants.run(work)

    def _also_forget(
        self,
        connection: sqlite3.Connection,
        opened: TenantArchive,
        chosen: DeletionSet,
        files: list[Path],
        *,
        dry_run: bool,
    ) -> int:
        """What else in the tenant's file quotes it; how many entries. `files` takes up those to be removed."""
        quotes, entries = forget.PacketNames(chosen.packet_ids).stand_in, 0
        for also in self._also:
            count, left = also(connection, opened.tenant.name, quotes, dry_run=dry_run)
            entries += count
            files += left
        return entries

    async def expired(self, days: int, call: RequestContext) -> list[str]:
        """Packets that came more than so many days ago, and whose conversation has had nothing new since."""
        before_ms = to_epoch_ms(self._clock.now()) - days * _DAY_MS
        return await self._tenant(call).tenant.file.aread(lambda connection: forget.expired(connection, before_ms))

    async def undo(self, forget_id: str, call: RequestContext) -> int:
        """Put a deletion's packets back; how many. Raises NotFound."""
        opened = self._tenant(call)

        def work() -> int:
            restored, change = opened.tenant.file.write(
                lambda connection: forget.undo(connection, forget_id, self._config, self._clock.zone)
            )
            opened.changed(change)
            return restored

        return await self._tenants.run(work)

    async def undoable(self, call: RequestContext) -> list[Forgotten]:
        """Deletions that can be undone, newest first."""
        rows = await self._tenant(call).tenant.file.aread(forget.undoable)
        return [forget.as_forgotten(row, iso_of_ms) for row in rows]

    def _tenant(self, call: RequestContext) -> TenantArchive:
        call.check(self._clock.monotonic())
        return self._tenants.get(call.tenant)


def purge_forgotten(opened: TenantArchive, clock: Clock) -> int:
    """Wipe what can no longer be put back from the tenant's file; how many packets. Blocks."""
    now = to_epoch_ms(clock.now())
    dropped = opened.tenant.file.write(lambda connection: forget.purge(connection, now))
    opened.tenant.file.empty_log()
    return dropped
