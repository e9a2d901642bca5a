"""Context Memory (CONTEXT): what a supervisor, agents and a meta-review agent store, and what they get back.

Inputs and answers have the seed's fields and names; what gaiad adds to an answer is said in its docstring. Tenants are
named beside the body (`?tenant=`), so that a body holds nothing but the seed's keys.
"""

from typing import Annotated, Any, Literal

import msgspec

from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output, Tenant

RecordKind = Literal["state", "output", "review"]
UpdateType = Literal["periodic", "checkpoint", "critical"]
RequestType = Literal["full", "partial", "summary"]
Direction = Literal["new", "rising", "steady", "falling", "gone"]
SECTIONS = ("system_state", "agent_states", "hypothesis_data", "tournament_results", "feedback_history")

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
_Iteration = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Time = Annotated[str, msgspec.Meta(max_length=40)]


# ------------------------------------------------------------------------------------------------------------- inputs


class SystemStatistics(Input, frozen=True):
    """How far the system is."""

    total_hypotheses: _Count
    hypotheses_by_state: dict[str, _Count]
    pending_reviews: _Count
    tournament_progress: _Share
    agent_effectiveness: dict[str, Any]


class OrchestrationState(Input, frozen=True):
    """How the supervisor distributes work."""

    agent_weights: dict[str, float]
    resource_allocation: dict[str, Any]
    queue_statistics: dict[str, Any]
    strategic_focus: str


class CheckpointData(Input, frozen=True):
    """`in_flight_tasks` are objects with a `task_id`; the rest of a task is its supervisor's."""

    in_flight_tasks: list[dict[str, Any]] = msgspec.field(default_factory=list)
    recovery_metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class StateUpdate(Input, frozen=True):
    """The seed's StateUpdate. `timestamp` is ISO 8601, UTC unless it names a zone."""

    timestamp: _Time
    update_type: UpdateType
    system_statistics: SystemStatistics
    orchestration_state: OrchestrationState
    checkpoint_data: CheckpointData = CheckpointData()


class OutputResults(Input, frozen=True, kw_only=True):
    """`primary_output` is any JSON; `metadata.strategy`, a string, names the strategy that it is counted under."""

    primary_output: Any
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    confidence_score: _Share
    resource_consumed: Annotated[float, msgspec.Meta(ge=0.0)]


class StateData(Input, frozen=True):
    """What an agent keeps of itself between tasks."""

    internal_state: dict[str, Any] | None = None
    continuation_token: str | None = None


class AgentOutput(Input, frozen=True):
    """The seed's AgentOutput."""

    agent_type: _Name
    task_id: _Name
    timestamp: _Time
    results: OutputResults
    state_data: StateData = StateData()


class Critique(Input, frozen=True):
    """A pattern is a string or an object with a `name`, `pattern` or `description`; feedback is a string, a list of
    strings, or an object of them.
    """

    common_patterns: list[str | dict[str, Any]]
    agent_feedback: dict[_Name, str | list[str] | dict[str, Any]]
    iteration_improvements: dict[str, Any]


class ResearchOverview(Input, frozen=True):
    """What the iteration came to."""

    synthesis: str
    research_areas: list[Any]
    next_priorities: list[str]


class MetaReviewStorage(Input, frozen=True):
    """The seed's MetaReviewStorage. Storing one ends its iteration: later records belong to the next."""

    iteration_number: _Iteration
    timestamp: _Time
    critique: Critique
    research_overview: ResearchOverview


ContextRecord = StateUpdate | AgentOutput | MetaReviewStorage


class RollbackRequest(Input, frozen=True):
    """Make an earlier version of `system` or `agent:NAME` the current one."""

    component: _Name
    version: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    tenant: Tenant = DEFAULT_TENANT


# ------------------------------------------------------------------------------------------------------------ queries


class RecordQuery(Input, frozen=True):
    """Which records, newest first. Times are UTC ISO 8601, `since` inclusive, `until` exclusive; 0 and "" are open."""

    tenant: Tenant = DEFAULT_TENANT
    since: _Time = ""
    until: _Time = ""
    first_iteration: _Count = 0
    last_iteration: _Count = 0
    agent_type: _Text = ""
    task_id: _Text = ""
    hypothesis_id: _Text = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class StateQuery(Input, frozen=True):
    """What of the state. `as_of` is the state as it was known then; `component` names sections of the answer, commas
    between them, for request_type partial.
    """

    tenant: Tenant = DEFAULT_TENANT
    request_type: RequestType = "summary"
    as_of: _Time = ""
    since: _Time = ""
    until: _Time = ""
    first_iteration: _Count = 0
    last_iteration: _Count = 0
    agent_type: _Text = ""
    component: _Text = ""
    hypothesis_id: _Text = ""


# ------------------------------------------------------------------------------------------------------------ answers


class Acknowledgement(Output, frozen=True):
    """A record is durable: its id, the SHA-256 of its JSON with sorted keys, and where that JSON is.

    `place` is `row` (the tenant's database) or `file` (bodies/ beside it). `version` is that of the state it became the
    current one of, 0 for none. `duplicate` says that the same record was stored before; nothing was stored again.
    `checkpoint_id` is the checkpoint that a checkpoint or critical update made.
    """

    id: str
    kind: RecordKind
    sha256: str
    bytes: int
    place: str
    iteration: int
    version: int
    duplicate: bool = False
    checkpoint_id: str = ""


class RecordRow(Output, frozen=True):
    """One line about a stored record."""

    id: str
    kind: RecordKind
    iteration: int
    timestamp: str
    agent_type: str
    task_id: str
    sha256: str
    bytes: int
    summary: str


class StoredRecord(Output, frozen=True):
    """A record whole, as it was stored; its bytes matched their hash."""

    row: RecordRow
    record: dict[str, Any]


class StateVersion(Output, frozen=True):
    """A version of a component's state. `restored_from` is the version that a rollback brought back, 0 for none."""

    component: str
    version: int
    timestamp: str
    sha256: str
    record_id: str
    restored_from: int


class StateContent(Output, frozen=True):
    """The seed's content; a section that was not asked for is empty."""

    system_state: dict[str, Any] = msgspec.field(default_factory=dict)
    agent_states: dict[str, Any] = msgspec.field(default_factory=dict)
    hypothesis_data: list[dict[str, Any]] = msgspec.field(default_factory=list)
    tournament_results: dict[str, Any] = msgspec.field(default_factory=dict)
    feedback_history: list[dict[str, Any]] = msgspec.field(default_factory=list)


class RetrievedState(Output, frozen=True):
    """The seed's RetrievedState. `missing` names sections that are not whole because of time or length, `damaged` what
    could not be read; the rest of the answer stands without them.
    """

    request_type: RequestType
    timestamp_range: tuple[str, str]
    content: StateContent
    complete: bool
    missing: list[str] = msgspec.field(default_factory=list)
    damaged: list[str] = msgspec.field(default_factory=list)


class FeedbackContent(Output, frozen=True):
    """The seed's feedback_content, from the newest review of the iteration.

    `general_recommendations` are the texts of iteration_improvements, `priority_improvements` the next_priorities,
    `success_patterns` the common_patterns without a `type` or of the type "success".
    """

    general_recommendations: list[str] = msgspec.field(default_factory=list)
    agent_specific: dict[str, list[str]] = msgspec.field(default_factory=dict)
    priority_improvements: list[str] = msgspec.field(default_factory=list)
    success_patterns: list[Any] = msgspec.field(default_factory=list)


class FeedbackData(Output, frozen=True):
    """The seed's FeedbackData. `iteration` is that of the review (0 for none), `revision` counts the reviews of this
    iteration, `review_id` names the one that this is.
    """

    iteration_requested: int | Literal["latest"]
    agent_type: str
    feedback_content: FeedbackContent
    iteration: int
    revision: int
    review_id: str


class ReviewQuery(Input, frozen=True):
    """`iteration` is a number, or latest."""

    tenant: Tenant = DEFAULT_TENANT
    iteration: _Iteration | Literal["latest"] = "latest"
    agent_type: _Text = ""


class TrendQuery(Input, frozen=True):
    """The last `iterations`; the effectiveness of one agent when it is named."""

    tenant: Tenant = DEFAULT_TENANT
    iterations: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    agent_type: _Text = ""


class IterationTotals(Output, frozen=True):
    """What was stored in an iteration; `bytes` are of JSON."""

    iteration: int
    states: int
    outputs: int
    reviews: int
    bytes: int
    first_at: str
    last_at: str


class PatternTrend(Output, frozen=True):
    """How often reviews named a pattern, by iteration ("3" -> 2)."""

    pattern: str
    counts: dict[str, int]
    direction: Direction


class EffectivenessTrend(Output, frozen=True):
    """An agent's outputs under one strategy ("" for none). `improvement` is the change of the mean confidence from one
    iteration to the next, by least squares; 0 with one iteration.
    """

    agent_type: str
    strategy: str
    outputs: int
    mean_confidence: float
    resource_consumed: float
    confidence_by_iteration: dict[str, float]
    improvement: float


class Trends(Output, frozen=True):
    """From kept aggregates, oldest iteration first; the most effective strategies first."""

    iterations: list[IterationTotals]
    patterns: list[PatternTrend]
    effectiveness: list[EffectivenessTrend]


class Ancestor(Output, frozen=True):
    """A hypothesis of a line. `generation` is 0 for the one asked about, -1 for its parents, 1 for its children."""

    hypothesis_id: str
    generation: int
    parents: list[str]
    first_at: str
    mentions: int
    record_id: str


class Lineage(Output, frozen=True):
    """The line of a hypothesis: ancestors, itself, descendants; at most 1,000 of them (`complete` says whether all)."""

    hypothesis_id: str
    line: list[Ancestor]
    complete: bool


class SimilarQuery(Input, frozen=True):
    """Earlier states like the record `state`, like the words in `text`, or without either like the current one."""

    tenant: Tenant = DEFAULT_TENANT
    state: _Text = ""
    text: Annotated[str, msgspec.Meta(max_length=4000)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class SimilarState(Output, frozen=True):
    """`similarity` is the cosine of the two summaries' vectors."""

    row: RecordRow
    similarity: float


# ------------------------------------------------------------------------------------- checkpoints and continuations


class CheckpointRequest(Input, frozen=True):
    """`reason` is a line for people."""

    reason: _Text = "on request"
    tenant: Tenant = DEFAULT_TENANT


class RestoreRequest(Input, frozen=True):
    """Which checkpoint; "" is the newest that is whole."""

    checkpoint_id: _Text = ""
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
    """How many bodies and bytes matched their hashes, and which newer checkpoints did not."""

    verified: bool
    bodies: int
    bytes: int
    passed_over: list[PassedOver]


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

    agent_type: _Name
    task_id: _Name
    partial_state: dict[str, Any]
    expires_in_s: Annotated[int, msgspec.Meta(ge=1, le=31_622_400)] = 2_592_000


class ContinuationRequest(Input, frozen=True):
    """The task that goes on, and the token it was given."""

    task_id: _Name
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


# ------------------------------------------------------------------------------------------------ retention and export


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
    iteration: _Iteration
    sha256: str


class TreeManifest(Input, frozen=True):
    """What an export holds. `heads` are the hashes of the current states by component."""

    format: Literal[1]
    gaiad: str
    exported_at: str
    records: list[TreeEntry]
    heads: dict[str, str]
