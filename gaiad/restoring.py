"""Puts a backup back as a whole: memory, jobs, packets and logs of turns, the council's log, governance, the audit.

The audit is append-only, so it is not taken back: where the present one continues the backup's it stays, and notes the
restore. Only in a home where it does not (a new one) the backup's is gone on with, if the owner of this home signed it.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gaiad.approving import Approving
from gaiad.archive.archive import LocalArchive
from gaiad.archive.keeping.restore_others import Others
from gaiad.convening import Convened
from gaiad.deliberating import Deliberation
from gaiad.errors import BadInput, Conflict
from gaiad.jobs import JobRunner
from gaiad.ledger.audit import DATABASE_NAME, AuditLog
from gaiad.ledger.audit_reading import newest_event, verify_copy
from gaiad.ledger.chain import Head, Verdict
from gaiad.ledger.identity_keys import KeyFolder
from gaiad.ports import Call
from gaiad.store.file import DatabaseFile
from gaiad.trusting import IN_FORCE, look, remembered

RESTORED = "memory.restored"
_INCOMING = "audit.restoring.db"
OpenTenant = Callable[[str], DatabaseFile]


class Restorer:
    """Made by the daemon once everything is open."""

    def __init__(
        self,
        home: Path,
        owner: KeyFolder,
        archive: LocalArchive,
        runner: JobRunner,
        convened: Convened,
        deliberation: Deliberation,
        packets_of_turns: OpenTenant,
        approving: Approving,
        research_runs: OpenTenant,
    ) -> None:
        self._approving = approving
        self._home = home
        self._owner = owner
        self._archive = archive
        self._runner = runner
        self._convened = convened
        self._deliberation = deliberation
        self._by_tenant: Mapping[str, OpenTenant] = {
            "cognition": packets_of_turns,
            "council": convened.log.file,
            "turns": convened.turn_log.file,
            "approvals": approving.file,
            "seeds": deliberation.seeds.file,
            "research": research_runs,
        }

    async def restore(self, directory: Path, files: Callable[[], Mapping[str, DatabaseFile]]) -> dict[str, Any]:
        """`files` gives what a backup copies besides the memory. What was there is moved or copied aside.

        Raises NotFound, BadInput, and Conflict, also while jobs or turns run; then everything is as it was.
        """
        self._refuse_while_busy()
        with self._deliberation.initiative.person():  # it keeps still meanwhile
            others = Others(files=files, by_tenant=self._by_tenant, apart=frozenset({DATABASE_NAME}))
            report = await self._archive.restore(directory, others)
            aside = Path(report["previous"])
            words = await asyncio.to_thread(self._restore_audit, directory, aside)
            body = {"directory": str(directory), "made": report["created_at"], "previous": str(aside), "audit": words}
            await self._convened.audit.append(RESTORED, "person", body, Call())
            await self._look_again()
        return {**report, "audit": words}

    @property
    def audit_trouble(self) -> str:
        """What is wrong with the audit that is gone on with, for the status."""
        return self._convened.audit.trouble

    def _refuse_while_busy(self) -> None:
        if jobs := self._runner.running:
            raise Conflict(f"job {jobs[0]} is running; restore when it has ended, or `gaiad jobs cancel` it")
        if turns := list(self._convened.room.running):
            raise Conflict(f"turn {turns[0]} is being taken; restore when it has ended")
        if self._approving.busy:
            raise Conflict("a command that was approved is running; restore when it is verified")

    async def _look_again(self) -> None:
        """Read anew what is remembered of the files; what ran when the backup was made is as after a start."""
        await self._convened.turn_log.end_cut_off()
        await self._convened.room.look_again()
        await self._approving.settle()
        await self._deliberation.initiative.start()
        await self._runner.resume()

    def _restore_audit(self, directory: Path, aside: Path) -> str:
        """What became of the audit, in words."""
        if not (directory / DATABASE_NAME).is_file():
            return "stays: the backup has none"
        audit = self._convened.audit
        try:
            found = verify_copy(directory)
        except Conflict as error:
            return f"stays, for the backup's cannot be read: {error.message}"
        if found.ok and audit.holds(Head(found.rows, found.head_sha256)):
            return "stays: it continues the backup's"
        if why := self._distrust(directory, found):
            return f"stays, for the backup's cannot be gone on with here ({why}); it stands in {directory}"
        self._go_on_with(audit, directory, aside)
        return "the backup's is gone on with"

    def _distrust(self, directory: Path, found: Verdict) -> str:
        """Why a start on the backup's audit would be refused, or its chain is none; "" when there is no reason."""
        if not found.ok:
            return found.problem
        try:
            return look(self._home, self._owner, remembered(newest_event(directory, IN_FORCE))).problem
        except (Conflict, BadInput) as error:
            return error.message

    def _go_on_with(self, audit: AuditLog, directory: Path, aside: Path) -> None:
        incoming = self._home / _INCOMING
        try:
            shutil.copyfile(directory / DATABASE_NAME, incoming)
            audit.file.fit(incoming)
            audit.replace(incoming, aside)
        except OSError as error:
            raise BadInput(f"{incoming}: the audit cannot be copied in ({error.strerror}); free some space") from error
        finally:
            incoming.unlink(missing_ok=True)
