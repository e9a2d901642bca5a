"""The queue of commands that wait for a person (decision 13): one row each, in one file a tenant, kept for good.

A row changes its state in one statement that names the state it has to be in, so that of two decisions one is taken.
Arguments and hash are never changed here; who changes them in the file is found out, for the audit chain has the hash
too (`asked_in_audit`). What a decision leads to is not known here.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.approval_schemas import Approval, ApprovalState
from gaiad.errors import BadInput, Conflict, NotFound
from gaiad.ids import short
from gaiad.ledger.audit import SELECT_ROWS, AuditLog, row_of
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.store.database import Migration
from gaiad.store.file import DatabaseFile

ASKED, APPROVED, DENIED, EXPIRED = "approval.asked", "approval.approved", "approval.denied", "approval.expired"
DECIDED = (APPROVED, DENIED, EXPIRED)
_APPLICATION_ID = 0x67616970  # "gaip"
MIGRATION_1: Migration = """
CREATE TABLE approvals (
    id       TEXT PRIMARY KEY,
    short_id TEXT NOT NULL,
    state    TEXT NOT NULL,
    body     BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX approvals_by_short_id ON approvals (short_id);
CREATE INDEX approvals_by_state ON approvals (state, id);
"""


class ApprovalLog:
    """Files `<folder>/<tenant>.db`, opened at first use; safe from any thread. Ids sort by time."""

    def __init__(self, folder: Path) -> None:
        self._files = TenantFiles(folder, [MIGRATION_1], _APPLICATION_ID)

    async def add(self, tenant: str, approval: Approval) -> None:
        """Keep a new one; durable when this returns. Raises BadInput, Unavailable."""
        row = (approval.id, short(approval.id), approval.state, msgspec.json.encode(approval))

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", row)

        await self._files.write(tenant, insert)

    async def find(self, tenant: str, name: str) -> Approval:
        """The one called `name`: its id, or the eight digits shown for it. Raises NotFound, BadInput for several."""
        found = await self._rows(tenant, "id = ?", (name,)) or await self._rows(tenant, "short_id = ?", (name,))
        if not found:
            raise NotFound(f"no approval is called {name!r}; `gaiad approvals --all` shows the newest")
        if len(found) > 1:
            choices = ", ".join(one.id for one in found)
            raise BadInput(f"{name}: {len(found)} approvals show these digits; name one in full: {choices}")
        return found[0]

    async def change(self, tenant: str, approval_id: str, before: ApprovalState, **fields: Any) -> Approval:
        """Set fields (a new `state` among them) of one that is in the state `before`; the approval as it is then.

        Raises NotFound, and Conflict when it is in another state: somebody else was first.
        """

        def update(connection: sqlite3.Connection) -> Approval:
            row = connection.execute("SELECT body FROM approvals WHERE id = ?", (approval_id,)).fetchone()
            if row is None:
                raise NotFound(f"no approval is called {approval_id!r}")
            stored = msgspec.json.decode(row[0], type=Approval)
            if stored.state != before:
                raise Conflict(f"{short(approval_id)} is {in_words(stored)}; it is not decided twice")
            made = msgspec.structs.replace(stored, **fields)
            values = (made.state, msgspec.json.encode(made), approval_id)
            connection.execute("UPDATE approvals SET state = ?, body = ? WHERE id = ?", values)
            return made

        return await self._files.write(tenant, update)

    async def in_state(self, tenant: str, states: Sequence[ApprovalState]) -> list[Approval]:
        """All in one of these states, oldest first."""
        marks = ", ".join("?" * len(states))
        return await self._rows(tenant, f"state IN ({marks}) ORDER BY id", tuple(states))

    async def newest(self, tenant: str, limit: int) -> list[Approval]:
        """The last ones of every state, newest first."""
        return await self._rows(tenant, "true ORDER BY id DESC LIMIT ?", (limit,))

    def tenants(self) -> list[str]:
        """Those that ever had one."""
        return self._files.tenants()

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's file, for a restore. Raises BadInput, Conflict."""
        return self._files.file(tenant)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies, by the path under the home."""
        return self._files.files()

    async def close(self) -> None:
        """Finish what is being written."""
        await self._files.close()

    async def _rows(self, tenant: str, where: str, values: Sequence[object]) -> list[Approval]:
        def select(connection: sqlite3.Connection) -> list[Approval]:
            found = connection.execute(f"SELECT body FROM approvals WHERE {where}", values)
            return [msgspec.json.decode(row[0], type=Approval) for row in found]

        return await self._files.read(tenant, select, [])


def in_words(approval: Approval) -> str:
    """How it stands, for a message."""
    said = {
        "waiting": "waiting for its approval",
        "denied": "denied already",
        "expired": f"expired since {approval.expires_at}",
        "running": "approved already and running",
    }
    return said.get(approval.state, f"approved already and {approval.state}")


def asked_in_audit(audit: AuditLog, approval: Approval, tenant: str) -> bool:
    """Whether the audit has the asking for this approval with this very hash in this tenant, and no decision on it.

    So neither a row that was changed nor one that came back from a backup is run. Blocks.
    """

    def select(connection: sqlite3.Connection) -> tuple[tuple[Any, ...] | None, bool]:
        asked = connection.execute(f"{SELECT_ROWS} WHERE number = ?", (approval.audit_row,)).fetchone()
        marks = ", ".join("?" * len(DECIDED))
        where = f"kind IN ({marks}) AND number > ? AND instr(body, ?) > 0"
        values = (*DECIDED, approval.audit_row, approval.id)
        return asked, connection.execute(f"SELECT 1 FROM audit WHERE {where} LIMIT 1", values).fetchone() is not None

    values, decided = audit.file.read(select)
    if decided:
        return False
    row = row_of(values) if values else None
    if row is None or (row.kind, row.tenant) != (ASKED, tenant):
        return False
    try:
        body = msgspec.json.decode(row.body)
    except msgspec.DecodeError:
        return False
    return isinstance(body, dict) and (body.get("id"), body.get("sha256")) == (approval.id, approval.sha256)
