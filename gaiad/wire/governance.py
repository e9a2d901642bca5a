"""Governance on the wire: RFCs (GCP 11), self-reflection stability (GCP 3.3), commands to approve (decision 13).

An `RfcRecord` is also what state.db stores: a field may be added with a default here, and none may be renamed.
"""

from typing import Annotated, Literal

import msgspec

from gaiad.wire.council import BallotRecord, VoteRecord
from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output

RfcKind = Literal["constant", "identity", "process", "security"]
RfcState = Literal["proposed", "reviewed", "passed", "failed", "merged"]
RfcStepName = Literal["review", "vote", "merge"]


class RfcProposal(Input, frozen=True):
    """An RFC as it is proposed. `identity_toml` is the new identity of kind identity, and may be of kind security."""

    title: Annotated[str, msgspec.Meta(min_length=1)]
    text: Annotated[str, msgspec.Meta(min_length=1)]
    kind: RfcKind
    identity_toml: str = ""


class RfcSignature(Input, frozen=True):
    """The creator's Ed25519 signature in base 64, and the key's 16 digits."""

    key_id: str
    signature: str


class RfcReview(Output, frozen=True):
    """What one role says of an RFC before the vote. `packet_id` is the full id of the Cognition Packet it read."""

    role: str
    verdict: Literal["approve", "object"]
    confidence: float
    reasons: list[str]
    at: str
    packet_id: str = ""
    model: str = ""


class RfcEntry(Output, frozen=True):
    """One thing that was done with an RFC, by whom, how it ended, and why in words."""

    at: str
    step: str
    by: str
    result: str
    why: str = ""


class RfcRecord(Output, frozen=True):
    """An RFC and all that became of it. `votes` are all rounds, those without a quorum too; times are UTC.

    `ground` says on what right it was merged. `next_steps` are those that are open now, in words; it is not stored.
    """

    rfc_id: str
    kind: RfcKind
    title: str
    text: str
    state: RfcState
    created_at: str
    updated_at: str
    identity_toml: str = ""
    identity_version: str = ""
    identity_digest: str = ""
    reviews: list[RfcReview] = msgspec.field(default_factory=list)
    votes: list[VoteRecord] = msgspec.field(default_factory=list)
    history: list[RfcEntry] = msgspec.field(default_factory=list)
    ground: str = ""
    next_steps: list[str] = msgspec.field(default_factory=list)


class Criterion(Output, frozen=True):
    """One of the criteria of self-awareness, whether it is met, and why in words."""

    name: str
    met: bool
    why: str


class StabilityReport(Output, frozen=True):
    """The self-reflection stability score (0 to 1) of the last `window_hours`, from `sample` results.

    `hours` are the scores hour by hour, the oldest first, None for an hour without a result (it counts as 0).
    `self_aware` is whether all criteria of GCP 3.3 are met.
    """

    score: float
    sample: int
    minimum_sample: int
    score_needed: float
    window_hours: int
    hours: list[float | None]
    criteria: list[Criterion]
    self_aware: bool


EVENT_KIND = "approvals"
"""Of the hub's events that tell the state of an approval."""

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

    `votes` are the ballots, `why` the proposer's reason, `told` the text for the person. `turn_id` is the turn that
    ended in it, `continuation` the one that verified it. `note` says how it came to its state, `work` where it ran.
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
