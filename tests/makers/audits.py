"""The audit of a home whose database nobody else has open."""

from pathlib import Path

from gaiad.base.clock import Clock
from gaiad.ledger.audit import AuditLog
from gaiad.store.home_databases import HomeDatabases


class _OwnAudit(AuditLog):
    def close(self) -> None:
        super().close()
        self.file.close()


def open_audit(home: Path, clock: Clock) -> AuditLog:
    """Closing it closes state.db too."""
    return _OwnAudit.open(HomeDatabases(home).state, clock)
