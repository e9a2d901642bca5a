"""Context Memory: the feedback of a review, and what is counted and compared over iterations."""

from typing import Annotated, Any, Literal

import msgspec

from gaiad.wire.context import Direction, Iteration, RecordRow, Text
from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output, Tenant


class FeedbackContent(Output, frozen=True):
    """The seed's feedback_content, from the newest review of the iteration.

    `general_recommendations` are the texts of iteration_improvements, `priority_improvements` the next_priorities,
    `success_patterns` the common_patterns without a `type` or of the type "success".
    """

    general_recommendations: list[str] = msgspec.field(default_factory=list)
    agent_specific: dict[str, list[str]] = msgspec.field(default_factory=dict)
    priority_improvements: list[str] = msgspec.field(default_factory=list)
    success_patterns: list[Any] = msgspec.field(default_factory=list)


class AdviceEffect(Output, frozen=True):
    """One piece of a review's advice for an agent, and what came of it.

    `state` is active, retired or struck, `why` says why it is not active. Means are of outcomes from 0 to 1, more is
    better. `effect` is the mean since minus the mean before, `interval` its 95 % interval; None without outcomes before
    and since.
    """

    number: int
    agent_type: str
    version: int
    text: str
    review_id: str
    iteration: int
    state: Literal["active", "retired", "struck"]
    why: str
    given_at: str
    ended_at: str
    outcomes_before: int
    mean_before: float
    outcomes_after: int
    mean_after: float
    effect: float | None = None
    interval: tuple[float, float] | None = None


class FeedbackData(Output, frozen=True):
    """The seed's FeedbackData. `iteration` is that of the review (0 for none), `revision` counts the reviews of this
    iteration, `review_id` names the one that this is. `advice` is the newest of all reviews, with what came of it.
    """

    iteration_requested: int | Literal["latest"]
    agent_type: str
    feedback_content: FeedbackContent
    iteration: int
    revision: int
    review_id: str
    advice: list[AdviceEffect] = msgspec.field(default_factory=list)


class ReviewQuery(Input, frozen=True):
    """`iteration` is a number, or latest."""

    tenant: Tenant = DEFAULT_TENANT
    iteration: Iteration | Literal["latest"] = "latest"
    agent_type: Text = ""


class TrendQuery(Input, frozen=True):
    """The last `iterations`; the effectiveness of one agent when it is named."""

    tenant: Tenant = DEFAULT_TENANT
    iterations: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    agent_type: Text = ""


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
    state: Text = ""
    text: Annotated[str, msgspec.Meta(max_length=4000)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5


class SimilarState(Output, frozen=True):
    """`similarity` is the cosine of the two summaries' vectors."""

    row: RecordRow
    similarity: float


class StrikeRequest(Input, frozen=True):
    """Take the advice of this number back for good."""

    number: int
    tenant: Tenant = DEFAULT_TENANT
