"""Ports of what a council says and does: its audit, its messages, the commands it asks for and who runs them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gaiad.approval_schemas import Approval, ApprovalWish, Execution
from gaiad.config import ShellConfig
from gaiad.council_schemas import EscalationRecord, OpenEscalation, StoredMessage
from gaiad.ports import Call


class Audit(Protocol):
    """Rows in a hash chain that are never changed: what was decided, approved and governed, and by whom."""

    async def append(self, kind: str, actor: str, body: Mapping[str, Any], call: Call) -> int:
        """The number of the new row, which is durable then. `kind` is as `council.vote`, `body` what JSON can hold.

        Raises BadInput, Unavailable.
        """
        ...


class CouncilMessages(Protocol):
    """Where the council's messages stay, and what went up to a person until it is answered. All raise Unavailable."""

    async def add(self, tenant: str, message: StoredMessage) -> None:
        """Durable when this returns. Raises BadInput."""
        ...

    async def add_escalation(self, tenant: str, session_id: str, record: EscalationRecord) -> None: ...

    async def answer_escalations(self, tenant: str, session_id: str) -> None:
        """The person spoke in this session: what was open in it is answered."""
        ...

    async def open_escalations(self, limit: int) -> list[OpenEscalation]:
        """The last `limit` of every tenant, oldest first."""
        ...


class Executor(Protocol):
    """Runs one command in a sandbox (decision 13); owned by the shell channel."""

    @property
    def refusal(self) -> str:
        """Why nothing can be run, "" when it can."""
        ...

    async def run(self, argv: Sequence[str], work: Path, call: Call) -> Execution:
        """Exactly `argv`, `work` its only writable folder; nothing of it is left running when this returns.

        Raises BadInput, and Unavailable when nothing was run.
        """
        ...

    def use_config(self, config: ShellConfig) -> None: ...


class Approvals(Protocol):
    """The queue of commands that wait for a person (decision 13)."""

    @property
    def refusal(self) -> str:
        """Why no command can be run here, "" when one can."""
        ...

    async def ask(self, wish: ApprovalWish, call: Call) -> Approval:
        """Durable and in the audit when this returns. Raises BadInput, Unavailable."""
        ...
