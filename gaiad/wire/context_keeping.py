"""Context Memory: checkpoints, continuations, retention and export."""

from typing import Annotated, Any, Literal

import msgspec

from gaiad.wire.context import Iteration, Name, RecordKind, Text
from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output, Tenant


class CheckpointRequest(Input, frozen=True):
    """`reason` is a line for people."""

    reason: Text = "on request"
    tenant: Tenant = DEFAULT_TENANT


class RestoreRequest(Input, frozen=True):
    """Which checkpoint; "" is the newest that is whole."""

    checkpoint_id: Text = ""
    tenant: Tenant = DEFAULT_TENANT


class CheckpointEntry(Output, frozen=True):
    """A state in a checkpoint: which version of which component, with the hash and size of its JSON."""

    component: str
    version: int
    sha256: str
    bytes: int


class CheckpointManifest(Output, frozen=True):
    """What a checkpoint holds. `last_record` is the number of the newest record before it, `versions` counts those of
    all components; `in_flight_tasks` are the supervisor's, `completed` counts outputs by agent. `damaged` could not be
    read and is left out.
    """

    checkpoint_id: str
    created_at: str
    reason: str
    iteration: int
    last_record: int
    versions: int
    entries: list[CheckpointEntry]
    in_flight_tasks: list[dict[str, Any]]
    recovery_metadata: dict[str, Any]
    completed: dict[str, int]
    system_configuration: dict[str, Any]
    damaged: list[str] = msgspec.field(default_factory=list)


class CheckpointRow(Output, frozen=True):
    """A checkpoint that was made; `sha256` is of its manifest, `bytes` what its states come to."""

    checkpoint_id: str
    created_at: str
    reason: str
    iteration: int
    components: int
    bytes: int
    sha256: str
    damaged: list[str] = msgspec.field(default_factory=list)


class PassedOver(Output, frozen=True):
    """A checkpoint that was not used, and why."""

    checkpoint_id: str
    problem: str


class VerificationResult(Output, frozen=True):
    """How many bodies and bytes matched their hashes, and which newer checkpoints did not.

    `damaged` says what was not whole when the checkpoint was made. Where no checkpoint is whole, `verified` is false,
    and it says of each damaged component what stands in for it.
    """

    verified: bool
    bodies: int
    bytes: int
    passed_over: list[PassedOver]
    damaged: list[str] = msgspec.field(default_factory=list)


class CompletedWork(Output, frozen=True):
    """Outputs by agent at the checkpoint, and the tasks in flight then that have an output now."""

    outputs_by_agent: dict[str, int]
    finished_since: list[str]


class RecoveryState(Output, frozen=True):
    """The seed's RecoveryState, of the newest checkpoint that is whole. `active_tasks` were in flight and have no
    output yet; `resume_points` are the states of the checkpoint by component.
    """

    checkpoint_id: str
    checkpoint_timestamp: str
    system_configuration: dict[str, Any]
    active_tasks: list[dict[str, Any]]
    completed_work: CompletedWork
    resume_points: dict[str, msgspec.Raw]
    recovery_metadata: dict[str, Any]
    data_integrity: VerificationResult


class RestoredState(Output, frozen=True):
    """What a restore did: components and the version each is at now. `before` is the checkpoint made first."""

    checkpoint_id: str
    before: str
    restored: dict[str, int]
    passed_over: list[PassedOver]


class ContinuationStorage(Input, frozen=True):
    """Partial state of a task; its token is good for `expires_in_s` seconds."""

    agent_type: Name
    task_id: Name
    partial_state: dict[str, Any]
    expires_in_s: Annotated[int, msgspec.Meta(ge=1, le=31_622_400)] = 2_592_000


class ContinuationRequest(Input, frozen=True):
    """The task that goes on, and the token it was given."""

    task_id: Name
    continuation_token: Annotated[str, msgspec.Meta(max_length=500)]


class Continuation(Output, frozen=True):
    """A token, to be handed back as it is."""

    continuation_token: str
    expires_at: str


class ContinuedState(Output, frozen=True):
    """The partial state that a token stands for."""

    agent_type: str
    task_id: str
    stored_at: str
    expires_at: str
    partial_state: dict[str, Any]


class CleanupRequest(Input, frozen=True):
    """Pack the iterations older than context.active_days; `dry_run` only says what would be packed."""

    dry_run: bool = False
    tenant: Tenant = DEFAULT_TENANT


class CleanupReport(Output, frozen=True):
    """Old iterations, the bodies packed (or, of a dry run, to be packed), their JSON, and what it takes packed.

    `damaged` are hashes of bodies that could not be read; they were left as they are.
    """

    dry_run: bool
    iterations: int
    bodies: int
    json_bytes: int
    stored_bytes: int
    damaged: list[str]


class Usage(Output, frozen=True):
    """What a tenant's Context Memory takes; `percent` is of the quota, 0 without one (`quota_bytes` 0)."""

    json_bytes: int
    stored_bytes: int
    quota_bytes: int
    percent: float


class TreeRequest(Input, frozen=True):
    """A folder of the seed's tree: to be written, or read. Absolute."""

    directory: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    tenant: Tenant = DEFAULT_TENANT


class TreeReport(Output, frozen=True):
    """How many records were written or read; `known` were there before."""

    directory: str
    states: int
    outputs: int
    reviews: int
    known: int = 0


class TreeEntry(Input, frozen=True):
    """A record of an export: its file, in the order it was stored."""

    path: str
    id: str
    kind: RecordKind
    iteration: Iteration
    sha256: str


class TreeManifest(Input, frozen=True):
    """What an export holds. `heads` are the hashes of the current states by component."""

    format: Literal[1]
    gaiad: str
    exported_at: str
    records: list[TreeEntry]
    heads: dict[str, str]
