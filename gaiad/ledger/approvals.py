"""The queue of commands that wait for a person (decision 13): one row each, kept for good.

A row changes its state in one statement that names the state it has to be in, so that of two decisions one is taken.
Arguments and hash are never changed here; who changes them in the file is found out, for the audit chain has the hash
too (`asked_in_audit`). What a decision leads to is not known here.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.ledger.audit import SELECT_ROWS, AuditLog, row_of
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.governance import Approval, ApprovalState

ASKED, APPROVED, DENIED, EXPIRED = "approval.asked", "approval.approved", "approval.denied", "approval.expired"
DECIDED = (APPROVED, DENIED, EXPIRED)


class ApprovalLog:
    """The table `approvals` of every tenant. Ids sort by time."""

    def __init__(self, databases: HomeDatabases) -> None:
        self._databases = databases

    async def add(self, tenant: str, approval: Approval) -> None:
        """Keep a new one; durable when this returns. Raises BadInput, Unavailable."""
        row = (approval.id, short(approval.id), approval.state, msgspec.json.encode(approval))

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", row)

        await self._databases.write(tenant, insert)

    async def find(self, tenant: str, name: str) -> Approval:
        """The one called `name`: its id, or the eight digits shown for it. Raises NotFound, BadInput for several."""
        found = await self._rows(tenant, "id = ?", (name,)) or await self._rows(tenant, "short_id = ?", (name,))
        if not found:
            raise NotFound(f"no approval is called {name!r}; `gaiad approvals --all` shows the newest")
        if len(found) > 1:
            choices = ", ".join(one.id for one in found)
            raise BadInput(f"{name}: {len(found)} approvals match these digits; give the full id: {choices}")
        return found[0]

    async def of_turn(self, tenant: str, turn_id: str, sha256: str) -> Approval | None:
        """The one that a turn asked for with these arguments: a turn that is taken up again asks no second time."""
        text = "CAST(body AS TEXT)"
        where = f"json_extract({text}, '$.turn_id') = ? AND json_extract({text}, '$.sha256') = ? ORDER BY id LIMIT 1"
        return next(iter(await self._rows(tenant, where, (turn_id, sha256))), None)

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

        return await self._databases.write(tenant, update)

    async def in_state(self, tenant: str, states: Sequence[ApprovalState]) -> list[Approval]:
        """All in one of these states, oldest first."""
        marks = ", ".join("?" * len(states))
        return await self._rows(tenant, f"state IN ({marks}) ORDER BY id", tuple(states))

    async def newest(self, tenant: str, limit: int) -> list[Approval]:
        """The last ones of every state, newest first."""
        return await self._rows(tenant, "true ORDER BY id DESC LIMIT ?", (limit,))

    def tenants(self) -> list[str]:
        """Those that may have one."""
        return self._databases.tenants()

    async def _rows(self, tenant: str, where: str, values: Sequence[object]) -> list[Approval]:
        def select(connection: sqlite3.Connection) -> list[Approval]:
            found = connection.execute(f"SELECT body FROM approvals WHERE {where}", values)
            return [msgspec.json.decode(row[0], type=Approval) for row in found]

        return await self._databases.read(tenant, select, [])


def in_words(approval: Approval) -> str:
    """Its state in words, for a message."""
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
