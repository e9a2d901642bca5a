"""What is told of governance on the wire: RFCs and their course (GCP 11), and the self-reflection stability (GCP 3.3).

An `RfcRecord` is also what governance.db stores: a field may be added with a default here, and none may be renamed.
"""

from typing import Annotated, Literal

import msgspec

from gaiad.council_schemas import VoteRecord
from gaiad.schemas import Input, Output

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
