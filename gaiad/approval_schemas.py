"""Commands that wait for a person, and what came of them, on the wire and in the ledger (decision 13)."""

from typing import Annotated, Literal

import msgspec

from gaiad.council_schemas import BallotRecord
from gaiad.schemas import DEFAULT_TENANT, Input, Output

EVENT_KIND = "approvals"
"""Of the hub's events that tell how an approval stands."""

ApprovalState = Literal[
    "waiting", "denied", "expired", "running", "failed", "ran", "verified", "unverified", "reverted", "interrupted"
]
"""waiting -> denied | expired | running; running -> failed (nothing was run) | ran | interrupted (gaiad ended then);
ran -> verified | unverified (nobody could say) | reverted.
"""
ENDED: tuple[ApprovalState, ...] = (
    "denied", "expired", "failed", "verified", "unverified", "reverted", "interrupted"
)  # fmt: skip


class Execution(Output, frozen=True):
    """What a command did. `stopped` says which limit ended it, "" when it ended by itself; then `exit_status` is 0 to
    255, else None. `output` has both streams as they came, cut to what the settings allow; `took_ms` is wall time.
    """

    exit_status: int | None
    stopped: str
    output: str
    output_bytes: int
    took_ms: float


class Approval(Output, frozen=True):
    """A command that the council agreed to. `command` are its exact arguments, which `sha256` is of.

    `votes` are the ballots, `why` the proposer's reason, `told` what the person reads. `turn_id` is the turn that ended
    in it, `continuation` the one that verified it. `note` says how it came to its state, `work` where it ran.
    """

    id: str
    command: list[str]
    sha256: str
    proposed_by: str
    votes: list[BallotRecord]
    risk_level: str
    expires_at: str
    turn_id: str
    state: ApprovalState = "waiting"
    session_id: str = ""
    why: str = ""
    told: str = ""
    asked_at: str = ""
    changed_at: str = ""
    audit_row: int = 0
    note: str = ""
    work: str = ""
    execution: Execution | None = None
    continuation: str = ""


class ApprovalWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the queue: everything of an Approval that the council knows."""

    command: tuple[str, ...]
    sha256: str
    proposed_by: str
    votes: list[BallotRecord]
    risk_level: str
    turn_id: str
    session_id: str
    why: str
    told: str


class ApproveBody(Input, frozen=True):
    """`id` in full or its eight digits; `sha256` is of the arguments that the person was shown.

    With `wait` the answer comes when the command was run and verified, without it as soon as it is approved.
    """

    id: str
    sha256: str
    wait: bool = True
    tenant: str = DEFAULT_TENANT


class DenyBody(Input, frozen=True):
    id: str
    tenant: str = DEFAULT_TENANT


class ApprovalsBody(Input, frozen=True):
    """Those that wait, oldest first; with `all` the last `limit` of every state, newest first."""

    all: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    tenant: str = DEFAULT_TENANT
