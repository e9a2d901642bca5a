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

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Iteration = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Text = Annotated[str, msgspec.Meta(max_length=200)]
Time = Annotated[str, msgspec.Meta(max_length=40)]


class SystemStatistics(Input, frozen=True):
    """How far the system is."""

    total_hypotheses: Count
    hypotheses_by_state: dict[str, Count]
    pending_reviews: Count
    tournament_progress: Share
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

    timestamp: Time
    update_type: UpdateType
    system_statistics: SystemStatistics
    orchestration_state: OrchestrationState
    checkpoint_data: CheckpointData = CheckpointData()


class OutputResults(Input, frozen=True, kw_only=True):
    """`primary_output` is any JSON; `metadata.strategy`, a string, names the strategy that it is counted under."""

    primary_output: Any
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    confidence_score: Share
    resource_consumed: Annotated[float, msgspec.Meta(ge=0.0)]


class StateData(Input, frozen=True):
    """What an agent keeps of itself between tasks."""

    internal_state: dict[str, Any] | None = None
    continuation_token: str | None = None


class AgentOutput(Input, frozen=True):
    """The seed's AgentOutput."""

    agent_type: Name
    task_id: Name
    timestamp: Time
    results: OutputResults
    state_data: StateData = StateData()


class Critique(Input, frozen=True):
    """A pattern is a string or an object with a `name`, `pattern` or `description`; feedback is a string, a list of
    strings, or an object of them.
    """

    common_patterns: list[str | dict[str, Any]]
    agent_feedback: dict[Name, str | list[str] | dict[str, Any]]
    iteration_improvements: dict[str, Any]


class ResearchOverview(Input, frozen=True):
    """What the iteration came to."""

    synthesis: str
    research_areas: list[Any]
    next_priorities: list[str]


class MetaReviewStorage(Input, frozen=True):
    """The seed's MetaReviewStorage. Storing one ends its iteration: later records belong to the next."""

    iteration_number: Iteration
    timestamp: Time
    critique: Critique
    research_overview: ResearchOverview


ContextRecord = StateUpdate | AgentOutput | MetaReviewStorage


class RollbackRequest(Input, frozen=True):
    """Make an earlier version of `system` or `agent:NAME` the current one."""

    component: Name
    version: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    tenant: Tenant = DEFAULT_TENANT


class RecordQuery(Input, frozen=True):
    """Which records, newest first. Times are UTC ISO 8601, `since` inclusive, `until` exclusive; 0 and "" are open."""

    tenant: Tenant = DEFAULT_TENANT
    since: Time = ""
    until: Time = ""
    first_iteration: Count = 0
    last_iteration: Count = 0
    agent_type: Text = ""
    task_id: Text = ""
    hypothesis_id: Text = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class StateQuery(Input, frozen=True):
    """What of the state. `as_of` is the state as it was known then; `component` names sections of the answer, commas
    between them, for request_type partial.
    """

    tenant: Tenant = DEFAULT_TENANT
    request_type: RequestType = "summary"
    as_of: Time = ""
    since: Time = ""
    until: Time = ""
    first_iteration: Count = 0
    last_iteration: Count = 0
    agent_type: Text = ""
    component: Text = ""
    hypothesis_id: Text = ""


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
