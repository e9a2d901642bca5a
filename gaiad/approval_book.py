"""What is written down of a command that waits for a person: its row, the audit, and the word to whoever follows.

Every step goes through here, so that none is in one of them only.
"""

import asyncio
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from council.command_review import argv_sha256
from gaiad.approval_schemas import EVENT_KIND, Approval, ApprovalState
from gaiad.clock import Clock, to_iso
from gaiad.errors import BadInput, Conflict, GaiadError
from gaiad.events import EventHub
from gaiad.ids import short
from gaiad.ledger.approvals import ASKED, EXPIRED, ApprovalLog, asked_in_audit, in_words
from gaiad.ledger.audit import AuditLog
from gaiad.logs import get_logger
from gaiad.ports import Call

_log = get_logger("gaiad.approvals")


class ApprovalBook:
    """Of all tenants; `log` is the queue itself."""

    def __init__(self, log: ApprovalLog, audit: AuditLog, hub: EventHub, clock: Clock) -> None:
        self.log = log
        self._audit = audit
        self._hub = hub
        self._clock = clock

    async def ask(self, approval: Approval, call: Call) -> Approval:
        """A new one: in the audit and durable when this returns. Raises BadInput, Unavailable."""
        body = {
            "id": approval.id,
            "argv": approval.command,
            "sha256": approval.sha256,
            "proposer": approval.proposed_by,
            "expires_at": approval.expires_at,
            "turn_id": approval.turn_id,
        }
        row = await self._audit.append(ASKED, "council", body, call)
        approval = msgspec.structs.replace(approval, audit_row=row)
        await self.log.add(call.tenant, approval)
        self.tell(call.tenant, approval)
        return approval

    async def waiting(self, name: str, call: Call) -> Approval:
        """The one called so. Raises NotFound, BadInput, and Conflict when it does not wait any more."""
        found = await self.expired(await self.log.find(call.tenant, name), call)
        if found.state != "waiting":
            raise Conflict(f"{short(found.id)} is {in_words(found)}; it cannot be decided any more")
        return found

    async def expired(self, found: Approval, call: Call) -> Approval:
        """As it is now: its time may have passed."""
        if found.state != "waiting" or self._clock.now() < datetime.fromisoformat(found.expires_at):
            return found
        try:
            return await self.decide(found, "expired", EXPIRED, call, "daemon")
        except Conflict:  # decided at this very moment
            return await self.log.find(call.tenant, found.id)

    async def check_unchanged(self, found: Approval, call: Call) -> None:
        """Raises Conflict unless arguments, hash and the audit's row of the asking agree."""
        try:
            same = argv_sha256(found.command) == found.sha256
        except BadInput:
            same = False
        if same and await asyncio.to_thread(asked_in_audit, self._audit, found, call.tenant):
            return
        note = "its stored arguments are not those that the council voted on; nothing was run"
        made = await self.log.change(call.tenant, found.id, "waiting", state="failed", note=note)
        await self.record("approval.altered", "daemon", made, call)
        raise Conflict(f"{short(found.id)}: {note}")

    async def decide(self, found: Approval, state: ApprovalState, kind: str, call: Call, by: str) -> Approval:
        """Of two at once one is taken. A decision that is not in the audit sets nothing going."""
        made = await self.change(found, call.tenant, "waiting", state=state)
        try:
            await self.record(kind, by, made, call)
        except GaiadError as error:
            note = f"it is not in the audit: {error.message}"
            await self.change(made, call.tenant, state, state="failed" if state == "running" else state, note=note)
            raise
        self.tell(call.tenant, made)
        return made

    async def ended(
        self, approval: Approval, call: Call, before: ApprovalState, state: ApprovalState, note: str
    ) -> Approval:
        """Nothing more will become of it."""
        made = await self.change(approval, call.tenant, before, state=state, note=note)
        await self.record(f"shell.{state}", "daemon", made, call)
        self.tell(call.tenant, made)
        return made

    async def change(self, approval: Approval, tenant: str, before: ApprovalState, **fields: Any) -> Approval:
        """As it is with these fields. Raises Conflict when it is not in the state `before`."""
        return await self.log.change(tenant, approval.id, before, changed_at=to_iso(self._clock.now()), **fields)

    async def record(self, kind: str, actor: str, approval: Approval, call: Call, **more: Any) -> None:
        """Words of models and programs are in it by their hash, for it cannot be unsaid."""
        body = {"id": approval.id, "argv": approval.command, "sha256": approval.sha256, **more}
        if approval.note:
            body["note_sha256"] = sha256(approval.note.encode("utf-8", "replace")).hexdigest()
        if (execution := approval.execution) is not None and kind == "shell.ran":
            body |= {"stopped": execution.stopped, "output_bytes": execution.output_bytes, "work": approval.work}
        await self._audit.append(kind, actor, body, call)

    def tell(self, tenant: str, approval: Approval) -> None:
        """To whoever follows the hub; what a command wrote is asked for, not sent around."""
        shown = msgspec.to_builtins(msgspec.structs.replace(approval, execution=None))
        self._hub.publish(EVENT_KIND, tenant, **shown)
        _log.info("approval", tenant=tenant, id=approval.id, state=approval.state)
