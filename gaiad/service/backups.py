"""Backup and restore of a home as a whole: every tenant's database and the daemon's.

The audit is append-only, so a restore does not take it back: where the present one continues the backup's it stays, and
notes the restore. Only in a home where it does not (a new one) the backup's is continued, if the owner of this home
signed it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict
from gaiad.base.ports import RequestContext, Work
from gaiad.identity.keys import KeyFolder
from gaiad.identity.trust import IN_FORCE, look, remembered
from gaiad.ledger.audit import AuditLog, copy_audit, newest_event, verify_copy
from gaiad.ledger.chain import ChainHead
from gaiad.store.backup import exchange, prepare_restore, read_manifest, write_backup
from gaiad.store.home_databases import STATE_DATABASE, HomeDatabases

RESTORED = "memory.restored"


class BackupService:
    """`busy` says why nothing can be restored now, "" when it can; `quiet` keeps the council still meanwhile.

    `look_again` are called after a restore, in order: what is remembered of the files is read again.
    """

    def __init__(
        self,
        databases: HomeDatabases,
        owner: KeyFolder,
        archive: LocalArchive,
        audit: AuditLog,
        clock: Clock,
        *,
        busy: Callable[[], str],
        quiet: Callable[[], AbstractContextManager[object]],
        look_again: Sequence[Work],
    ) -> None:
        self._databases = databases
        self._home = databases.home
        self._owner = owner
        self._archive = archive
        self._audit = audit
        self._clock = clock
        self._busy = busy
        self._quiet = quiet
        self._look_again = look_again
        self._one_at_a_time = asyncio.Lock()

    async def backup(self, directory: Path) -> dict[str, Any]:
        """A consistent copy of every database in a new folder, taken while others read and write.

        Raises Conflict, BadInput.
        """
        _refuse_within(self._home, directory)
        async with self._one_at_a_time:
            counts = await self._archive.counts()
            now = to_iso(self._clock.now())
            manifest = await asyncio.to_thread(write_backup, directory, self._databases, now, counts)
        return {
            "directory": str(directory),
            "bytes": sum(file.size for file in manifest.files),
            "tenants": manifest.tenants,
            "counts": counts,
        }

    async def restore(self, directory: Path) -> dict[str, Any]:
        """Put a backup in place of what is there, which moves to before-restore-<time> in the home.

        Raises NotFound, BadInput, and Conflict, also while jobs or turns run; then everything is as it was.
        """
        if busy := self._busy():
            raise Conflict(busy)
        async with self._one_at_a_time:
            with self._quiet():
                manifest = await asyncio.to_thread(read_manifest, directory)
                await asyncio.to_thread(prepare_restore, self._home, directory, manifest)
                aside = self._home / f"before-restore-{self._clock.now().strftime('%Y%m%dT%H%M%S%f')}"
                words = await self._exchange(directory, aside)
                body = {"directory": str(directory), "made": manifest.created_at, "previous": str(aside)}
                await self._audit.append(RESTORED, "person", {**body, "audit": words}, RequestContext())
                for look in self._look_again:
                    await look()
        return {
            "directory": str(directory),
            "tenants": manifest.tenants,
            "counts": manifest.counts,
            "created_at": manifest.created_at,
            "previous": str(aside),
            "audit": words,
        }

    async def _exchange(self, directory: Path, aside: Path) -> str:
        """What became of the audit, in words."""
        keep, words = await asyncio.to_thread(self._judge_audit, directory)

        def keep_audit(copy: Path) -> None:
            if keep:
                copy_audit(self._home / STATE_DATABASE, copy)

        await self._archive.pause("a restore is running")
        try:
            await asyncio.to_thread(exchange, self._databases, aside, keep_audit)
        finally:
            await self._archive.start()
        if not keep:
            await asyncio.to_thread(self._audit.begin_again)
        return words

    def _judge_audit(self, directory: Path) -> tuple[bool, str]:
        """Whether this home keeps its audit, and why in words."""
        try:
            found = verify_copy(directory)
        except Conflict as error:
            return True, f"stays, for the backup's cannot be read: {error.message}"
        if found.ok and self._audit.holds(ChainHead(found.rows, found.head_sha256)):
            return True, "stays: it continues the backup's"
        problem = found.problem if not found.ok else self._distrust(directory)
        if problem:
            return True, f"stays, for the backup's cannot be continued here ({problem}); it is still in {directory}"
        return False, "the backup's is continued"

    def _distrust(self, directory: Path) -> str:
        """Why a start on the backup's audit would be refused; "" when it would not."""
        try:
            return look(self._home, self._owner, remembered(newest_event(directory, IN_FORCE))).problem
        except (Conflict, BadInput) as error:
            return error.message


def _refuse_within(home: Path, directory: Path) -> None:
    if directory.resolve().is_relative_to(home.resolve()):
        raise BadInput(f"{directory} is inside the home {home} and would be lost with it; choose a folder elsewhere")
