"""Research runs on the wire: the payload (PAYLOAD) in the names the seed spells, and the runs that were kept.

Decoding checks types, not sums: the seed's own example does not add up. What gaiad writes does
(`gaiad.research.payload.build`). An absent optional field is UNSET, so that a payload comes back as it went in.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gaiad.wire.schemas import DEFAULT_TENANT, Input, Output, ResearchResult, Tenant

CONTENT_MAX = 10_000
"""Characters of a source's content that a payload holds; the rest is fetched by the source's id."""

Number = int | float  # what stood there as an integer stays one
SourceType = Literal["web", "storage", "database", "structured_data", "sub_agent"]
PayloadStatus = Literal["in_progress", "complete", "failed", "cancelled"]
FactType = Literal["statistic", "quote", "claim", "date", "definition", "relationship", "other"]
Reliability = Literal["high", "medium", "low", "unknown"]
ComparisonType = Literal["corroboration", "contradiction", "complementary", "independent"]
Severity = Literal["major", "minor", "clarification"]
ActivityType = Literal["search", "storage_search", "database_query", "comparison", "analysis", "synthesis"]
LearningType = Literal["fact", "pattern", "contradiction", "gap", "validation", "insight"]
Importance = Literal["critical", "high", "medium", "low"]


def wire_name(name: str) -> str:
    """`related_fact_ids` as the seed writes it: `relatedFactIDs`."""
    first, *rest = name.split("_")
    return re.sub(r"Id(s?)$", r"ID\1", first + "".join(word.capitalize() for word in rest))


class PayloadPart(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name, forbid_unknown_fields=True):
    """A part of a payload. Times are ISO 8601; scores run from 0 to 1."""


class ResearchMetadata(PayloadPart, frozen=True, kw_only=True):
    """The run at a glance."""

    research_id: str
    research_goal: str
    started_at: str
    last_updated_at: str
    status: PayloadStatus
    iteration_count: int
    total_sources_gathered: int
    contradictions_found: int
    completeness_score: Number


class ResearchPlan(PayloadPart, frozen=True, kw_only=True):
    """What was planned first, and what it became."""

    initial_plan: str
    current_plan: str
    research_questions: list[str]
    sources_identified: list[SourceType]
    search_terms: list[str]
    strategic_approach: str
    last_modified: str


class ExtractedFact(PayloadPart, frozen=True, kw_only=True):
    """One claim of a source, in its own words."""

    fact_id: str
    fact_text: str
    fact_type: FactType
    confidence: Number
    related_fact_ids: list[str]
    supporting_evidence: str | UnsetType = UNSET
    context_snippet: str | UnsetType = UNSET


class SourceRecord(PayloadPart, frozen=True, kw_only=True):
    """One source; a Transmission Packet is one of type `storage`, its `file_path` the packet id."""

    source_id: str
    source_type: SourceType
    url: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    author: str | UnsetType = UNSET
    published_date: str | UnsetType = UNSET
    storage_provider: str | UnsetType = UNSET
    file_path: str | UnsetType = UNSET
    file_type: str | UnsetType = UNSET
    database_query: str | UnsetType = UNSET
    database_name: str | UnsetType = UNSET
    result_count: int | UnsetType = UNSET
    accessed_at: str
    content: str
    content_format: Literal["text", "html", "json", "csv", "markdown"]
    content_length: int
    extracted_facts: list[ExtractedFact]
    reliability: Reliability
    reliability_reasoning: str
    compared_with: list[str]
    contradicts: list[str]
    corroborates: list[str]
    gathering_iteration: int
    search_query: str | UnsetType = UNSET
    relevance_score: Number


class CorroborationDetails(PayloadPart, frozen=True, kw_only=True):
    shared_facts: list[str]
    strength_level: Literal["strong", "moderate", "weak"]
    explanation: str


class ContradictionDetails(PayloadPart, frozen=True, kw_only=True):
    contradiction_id: str
    conflicting_fact_ids: list[str]
    severity_level: Severity


class Comparison(PayloadPart, frozen=True, kw_only=True):
    """Two sources held against each other."""

    comparison_id: str
    source_a: str
    source_b: str
    compared_at: str
    comparison_type: ComparisonType
    corroboration_details: CorroborationDetails | UnsetType = UNSET
    contradiction_details: ContradictionDetails | UnsetType = UNSET
    comparison_notes: str


class ContradictionRecord(PayloadPart, frozen=True, kw_only=True):
    """Two facts that cannot both hold."""

    contradiction_id: str
    description: str
    severity: Severity
    sources_involved: list[str]
    conflicting_facts: list[str]
    possible_explanations: list[str]
    resolution: str | UnsetType = UNSET
    resolution_iteration: int | UnsetType = UNSET
    impact_on_findings: str
    status: Literal["open", "resolved", "acknowledged"]


class Activity(PayloadPart, frozen=True, kw_only=True):
    """One thing done; gaiad writes one for each search."""

    activity_id: str
    activity_type: ActivityType
    description: str
    tool: str
    parameters: dict[str, Any]
    started_at: str
    completed_at: str
    success: bool
    result_summary: str
    sources_created: list[str] | UnsetType = UNSET
    error_message: str | UnsetType = UNSET


class Learning(PayloadPart, frozen=True, kw_only=True):
    """One thing learned, or found to be missing."""

    learning_id: str
    learning_type: LearningType
    description: str
    confidence: Number
    supporting_sources: list[str]
    related_learnings: list[str]
    iteration_discovered: int


class CompletenessCriteria(PayloadPart, frozen=True, kw_only=True):
    """The seed's six; `gaiad.research.payload.iterations` says how gaiad measures them."""

    questions_answered: Number
    source_diversity: Number
    source_quantity: Number
    contradictions_resolved: Number
    fact_corroboration: Number
    confidence_in_findings: Number


class CompletenessAssessment(PayloadPart, frozen=True, kw_only=True):
    is_complete: bool
    completeness_score: Number
    reasoning: str
    gaps_identified: list[str]
    confidence_level: Number
    criteria_evaluated: CompletenessCriteria


class IterationRecord(PayloadPart, frozen=True, kw_only=True):
    """One round of search and reflection."""

    iteration_number: int
    started_at: str
    completed_at: str
    duration_seconds: Number
    activities_performed: list[Activity]
    learnings: list[Learning]
    sources_gathered: list[str]
    comparisons_performed: list[str]
    questions_answered: list[str]
    new_questions_raised: list[str]
    completeness_assessment: CompletenessAssessment
    next_steps: str
    summary: str


class SourceCitation(PayloadPart, frozen=True, kw_only=True):
    """The seed's Citation: a source, and what of it is meant."""

    source_id: str
    specific_text: str | UnsetType = UNSET
    relevance: Number
    citation_format: str | UnsetType = UNSET


class Finding(PayloadPart, frozen=True, kw_only=True):
    """A key finding and what supports it."""

    finding_id: str
    title: str
    description: str
    category: str
    importance: Importance
    confidence: Number
    supporting_sources: list[SourceCitation]
    related_findings: list[str]
    contradictory_evidence: str | UnsetType = UNSET


class ContradictionSummary(PayloadPart, frozen=True, kw_only=True):
    """A contradiction as the synthesis tells it."""

    contradiction_id: str
    description: str
    severity: Severity
    sources: list[str]
    possible_explanations: list[str]
    resolution: str | UnsetType = UNSET
    impact_on_findings: str


class ResearchSynthesis(PayloadPart, frozen=True, kw_only=True):
    """What came of it."""

    executive_summary: str
    findings: list[Finding]
    contradictions: list[ContradictionSummary]
    confidence_assessment: str
    limitations: list[str]
    recommendations: list[str]
    key_takeaways: list[str]
    bibliography: list[SourceCitation]
    generated_at: str


class ResearchAgentPayload(PayloadPart, frozen=True, kw_only=True):
    """The whole trail of one run."""

    metadata: ResearchMetadata
    plan: ResearchPlan
    sources: list[SourceRecord]
    comparisons: list[Comparison]
    contradictions: list[ContradictionRecord]
    iterations: list[IterationRecord]
    synthesis: ResearchSynthesis


class SettleContradiction(Input, frozen=True):
    """What a person says about one contradiction of a kept run; `resolution` says how, or why it stays."""

    contradiction_id: str
    status: Literal["open", "resolved", "acknowledged"]
    resolution: Annotated[str, msgspec.Meta(max_length=4000)] = ""
    tenant: Tenant = DEFAULT_TENANT


class ImportResearch(Input, frozen=True):
    """A run that another researcher made, as its payload tells it."""

    payload: ResearchAgentPayload
    tenant: Tenant = DEFAULT_TENANT


class RunRow(Output, frozen=True):
    """One line about a kept run. `outcome` is the answer's status, "" when the run failed or was cancelled.

    `reviewed_at` says when somebody ticked it off (`gaiad research review --done`), "" when nobody did.
    """

    research_id: str
    tenant: Tenant
    query: str
    started_at: str
    status: PayloadStatus
    outcome: str
    confidence: float
    sources: int
    contradictions: int
    iterations: int
    reviewed_at: str = ""


class RunAccount(Output, frozen=True):
    """What a run took. Pages are different ones; tokens of calls are as the model counts them, 0 without a model.

    `answer_tokens` is a cautious estimate of what the answer takes of whoever reads it on.
    """

    rounds: int = 0
    searches: int = 0
    pages_found: int = 0
    pages_quoted: int = 0
    packets_cited: int = 0
    model_calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    answer_tokens: int = 0
    took_ms: float = 0.0


class ResearchRun(Output, frozen=True):
    """A kept run whole. `result` is None, and `error` says why, when it came to no answer.

    Of a run under way (`in_progress`) neither is there yet.
    """

    run: RunRow
    result: ResearchResult | None
    error: str
    payload: ResearchAgentPayload
    account: RunAccount = RunAccount()


class SourceText(Output, frozen=True, rename=wire_name):
    """The whole text of a source, fetched by its id. `changed` says that the packet was revised since the run."""

    source_id: str
    packet_id: str
    content: str
    content_length: int
    changed: bool
