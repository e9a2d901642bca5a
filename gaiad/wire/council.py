"""The council on the wire: who is there, what was said, how a turn went, what was delivered of it (GCP 6 and 8).

A `TurnRecord` is also what the turn log stores: a field may be added with a default here, and none may be renamed.
Messages of the council themselves have GCP 8.1's form, which is council's (`council/envelope.py`).
"""

from typing import Any, Literal

import msgspec

from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output

DeliveryState = Literal["waiting", "delivered", "refused"]


class Parcel(Output, frozen=True):
    """One message of a block on its way out: the `piece` numbered from 0 of the `block` numbered from 0 of a turn.

    `address` is a place in the channel; what is sent there stays in order. `after` is what it answers, in the
    outside's own ids, "" for nothing.
    """

    id: str
    tenant: str
    channel: str
    address: str
    turn_id: str
    block: int
    piece: int
    marker: str
    text: str
    after: str = ""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A parcel that is not delivered; `tried` when an earlier attempt may have come through unseen."""

    parcel: Parcel
    tried: bool


class Receipt(Output, frozen=True):
    """What became of one block of a turn in one channel. `state` is waiting until every piece is out.

    `outside_ids` are the outside's names of the messages, in order; `at` is the last change, UTC; `attempts` of all
    pieces together; `reason` why it waits or was refused, "" when it is delivered.
    """

    channel: str
    address: str
    block: int
    marker: str
    pieces: int
    state: DeliveryState
    at: str
    attempts: int = 0
    outside_ids: list[str] = msgspec.field(default_factory=list)
    reason: str = ""


HOUSE = "_house"
"""Where messages are that concern the whole daemon and no tenant: heartbeats, governance."""


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the council as the log keeps it. `full_id` sorts by time; `body` is the envelope's JSON."""

    full_id: str
    type: str
    turn_id: str
    body: bytes


class StageRecord(Output, frozen=True):
    """One stage call of a turn. `verdict` is how it ended (ok, missing, lost, success, ...), `why` why it was made.

    `packet_id` is the Cognition Packet's full id, "" when none was sent. `tokens` were written, `cached_tokens` of the
    `prompt_tokens` were read before. Times in milliseconds: `ms` all of it, `overhead_ms` what no model took.
    """

    stage: str
    role: str
    packet_id: str
    tokens: int
    cached_tokens: int
    ms: float
    verdict: str
    why: str = ""
    model: str = ""
    stands_in_for: str = ""
    task_instruction: str = ""
    prompt_tokens: int = 0
    prompt_sha256: str = ""
    seed: int = 0
    fingerprint: str = ""
    started_at: str = ""
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    overhead_ms: float = 0.0
    confidence: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)


class BallotRecord(Output, frozen=True):
    """One role's ballot. `uncounted` says why it is outside the round (late, second), "" when it is in it."""

    role: str
    vote: str
    confidence: float
    reason: str
    uncounted: str = ""


class VoteRecord(Output, frozen=True):
    """A round of voting. `subject` is what was proposed, `reason` the decision in words."""

    proposal_id: str
    matter: str
    subject: str
    passed: bool
    may_proceed: bool
    reduced_quorum: bool
    reason: str
    ballots: list[BallotRecord] = msgspec.field(default_factory=list)


class EscalationRecord(Output, frozen=True):
    """What went up (GCP 8.4), from whom to whom, and why in words.

    `session_id` is where an answer to it is given; it is given while nobody has answered, "" otherwise.
    """

    message_id: str
    raised_by: str
    to: str
    triggers: list[str]
    why: str
    turn_id: str = ""
    at: str = ""
    session_id: str = ""


class OpenEscalation(msgspec.Struct, frozen=True, kw_only=True):
    """What went up to the person and nobody has answered yet; `session_id` is where an answer would be given."""

    tenant: str
    session_id: str
    record: EscalationRecord


class HistoryNote(Output, frozen=True):
    """Whether the turn looked into the archive and why (GAM, Integration Point 2), and which packets it used.

    `status` is that of the research, "" when it brought nothing of use; `research_id` names the kept run (`gaiad
    research show`), "" without one.
    """

    sought: bool
    why: str
    status: str = ""
    packets: list[str] = msgspec.field(default_factory=list)
    research_id: str = ""


Rating = Literal["", "up", "down"]


class TurnRecord(Output, frozen=True):
    """A turn as it went. `depth_why` is the row of the truth table that chose the depth; `end_why` how it ended.

    `history` is how it looked back, None for a turn that came to no answer or was taken before this was kept. `rating`
    is what the person thinks of its answer, "" for nothing.

    `blocks` are what came of it, marker by marker, retracted ones marked so in `notes`. `deliveries` are what was sent
    of it to channels outside; they are in a log of their own and are added when a turn is shown.
    """

    turn_id: str
    session_id: str
    depth: str
    stages: list[StageRecord]
    votes: list[VoteRecord]
    status: str
    depth_why: str = ""
    end_why: str = ""
    reduced_quorum: bool = False
    message: str = ""
    persona: str = ""
    started_at: str = ""
    ended_at: str = ""
    risk_level: str = "low"
    escalations: list[EscalationRecord] = msgspec.field(default_factory=list)
    blocks: list[dict[str, Any]] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    deliveries: list[Receipt] = msgspec.field(default_factory=list)
    history: HistoryNote | None = None
    rating: Rating = ""


class RateRequest(Input, frozen=True):
    """What the person thinks of a turn's answer; "" takes it back. The turn by its id or the eight digits shown."""

    turn: str
    rating: Rating
    tenant: str = DEFAULT_TENANT


class RoleState(Output, frozen=True):
    """One role now. `state` is ready, sleeping or inactive (GCP 8.5); `last_heartbeat` is UTC, "" before the first.

    `can_vote` is whether its ballot would count now: active, with a model that writes.
    """

    role: str
    model: str
    state: str
    last_heartbeat: str
    can_vote: bool
    kind: str = ""
    stages: list[str] = msgspec.field(default_factory=list)
    reason: str = ""


class RunningTurn(Output, frozen=True):
    """A turn that is being taken, and the stage it is at."""

    turn_id: str
    session_id: str
    depth: str
    stage: str
    role: str


class OpenProposal(Output, frozen=True):
    """A PROPOSAL that is voted on; `closes_at` is UTC."""

    proposal_id: str
    matter: str
    proposer: str
    subject: str
    closes_at: str
    ballots: int = 0


class CouncilStatus(Output, frozen=True):
    """The council at a glance. `quorum` is whether two distinct active roles can vote; `depth` is the setting.

    `escalations` are the last ones that went to the person and nobody has answered in their session since. `abilities`
    say what nobody can do, by the figures of the models, and what is being measured.
    """

    quorum: bool
    roles: list[RoleState]
    depth: str
    turns: list[RunningTurn]
    open_proposals: list[OpenProposal]
    escalations: list[EscalationRecord]
    initiative: dict[str, Any] = msgspec.field(default_factory=dict)
    abilities: list[str] = msgspec.field(default_factory=list)


class SeedRecord(Output, frozen=True):
    """A thought for later (THOUGHT_SEED). `state` is open, taken, proposed, passed, failed or dropped; times are UTC.

    `turn_id` is the turn that wrote it, `proposal` what it was developed into, `proposal_id` the PROPOSAL that was
    voted on. `reason` says how it came to its state; `failures` counts the runs that failed on it.
    """

    seed_id: str
    text: str
    state: str
    turn_id: str
    added_at: str
    changed_at: str
    proposal: str = ""
    proposal_id: str = ""
    reason: str = ""
    failures: int = 0
