"""Structs on the wire and between packages: frozen, keyword-only, unknown keys in input are errors.

gaiad's own names are snake_case; endpoints a seed defines spell theirs in camelCase. All times are UTC, ISO 8601.
"""

from typing import Annotated, Any, Literal

import msgspec

Tenant = str
DEFAULT_TENANT: Tenant = "local"

Retriever = Literal["bm25", "dense", "page_id", "metadata"]
SearchMode = Literal["hybrid", "bm25", "dense", "page_id", "metadata"]
Focus = Literal["technical_content", "behavioral_state", "full_context"]
IntegrityVerdict = Literal["verified", "unverifiable", "broken"]
ResearchStatus = Literal["SUCCESS", "PARTIAL", "NOT_FOUND", "CLARIFY"]


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something a caller sends."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Something gaiad says."""


# --------------------------------------------------------------------------------------------------------- search


class MetricRange(Input, frozen=True):
    """A behavioural metric by name, bounds inclusive; None is open."""

    name: str
    minimum: float | None = None
    maximum: float | None = None


class Filters(Input, frozen=True):
    """Exact filters. Times are UTC ISO 8601, `since` inclusive, `until` exclusive; text matches ignore case.

    A model or topic is part of the name, or after "=" the whole name; `people` are whole names of those who spoke.
    `without` are labels (classifications, policy tags, tags) that no packet may have; alone they choose nothing.
    """

    since: str = ""
    until: str = ""
    models: list[str] = []
    topics: list[str] = []
    tags: list[str] = []
    people: list[str] = []
    metrics: list[MetricRange] = []
    packet_ids: list[str] = []
    session_ids: list[str] = []
    dialects: list[str] = []
    without: list[str] = []


class SearchRequest(Input, frozen=True):
    """One search. `page_ids` are for mode page_id; `adjacent` adds that many neighbours on either side of a hit.

    `boosts` are preferences that reorder and never exclude; `phrases` must be in the page as written. What
    gaiad wrote in chats is left out unless `include_chats` is set or pages are asked for by id.
    """

    query: str = ""
    mode: SearchMode = "hybrid"
    limit: int = 10
    tenant: Tenant = DEFAULT_TENANT
    filters: Filters = Filters()
    phrases: list[str] = []
    page_ids: list[str] = []
    focus: Focus = "full_context"
    adjacent: int = 0
    explain: bool = False
    order: Literal["relevance", "earliest", "latest"] = "relevance"
    boosts: Filters = Filters()
    people: list[str] = []
    include_chats: bool = False


class RetrieverScore(Output, frozen=True):
    """A retriever's own rank (from 1) and raw score for a page: BM25, or cosine for dense."""

    rank: int
    score: float


class Explanation(Output, frozen=True):
    """Why a page ranks where it does: each retriever's view, and what each boost added to the fused score."""

    retrievers: dict[str, RetrieverScore]
    boosts: dict[str, float]
    matched_terms: list[str]


class Hit(Output, frozen=True):
    """A page found. `score` is the fused score (comparable within one response only); labels are its packet's (JIT)."""

    page_id: str
    packet_id: str
    session_id: str
    score: float
    excerpt: str
    timestamp: str
    topic: str
    retrievers: list[Retriever]
    section: str = ""
    speaker: str = ""
    model: str = ""
    explanation: Explanation | None = None
    adjacent: list["Hit"] = []
    classification: list[str] = []
    policy_tags: list[str] = []


class SearchResponse(Output, frozen=True):
    """`degraded` names what could not take part (say, the embedder) and why."""

    hits: list[Hit]
    took_ms: float
    degraded: list[str] = []


class Page(Output, frozen=True):
    """A stored page. `start` and `end` are the byte span in the packet's original; `text` is exact and undecorated."""

    page_id: str
    packet_id: str
    session_id: str
    sequence: int
    section: str
    path: str
    text: str
    start: int
    end: int
    timestamp: str
    topic: str = ""
    speaker: str = ""
    model: str = ""
    classification: list[str] = []
    policy_tags: list[str] = []


class Facets(Output, frozen=True):
    """What the archive knows by name; the query interface recognises these. Counts are packets but for `pages`."""

    models: dict[str, int] = {}
    topics: dict[str, int] = {}
    tags: dict[str, int] = {}
    people: dict[str, int] = {}
    packets: int = 0
    pages: int = 0
    first: str = ""
    last: str = ""


class PacketSummary(Output, frozen=True):
    """One line about a packet. `media_type` is how it is written: application/xml or application/json."""

    packet_id: str
    revision: int
    timestamp: str
    topic: str
    dialect: str
    integrity: IntegrityVerdict
    model: str
    session_id: str
    pages: int
    bytes: int
    sha256: str
    summary: str = ""
    media_type: str = ""


class PacketDetail(Output, frozen=True):
    """A packet whole: its summary line, canonical fields, integrity findings and pages."""

    packet: PacketSummary
    fields: dict[str, Any]
    integrity: list[dict[str, Any]]
    pages: list[Page]
    source: str
    received_at: str
    revisions: list[PacketSummary] = []


class Timeline(Output, frozen=True):
    """How many packets fall in each month ("2025-11", UTC, oldest first), and by what; counts most frequent first.

    `topics` are those that several packets share; `people` are names, not roles such as "assistant".
    """

    packets: int
    months: dict[str, int]
    dialects: dict[str, int]
    models: dict[str, int]
    topics: dict[str, int]
    tags: dict[str, int]
    people: dict[str, int]


class ForgetRequest(Input, frozen=True):
    """What to delete: exactly one of the four kinds. `now` leaves nothing to undo; `dry_run` only reports."""

    packet_ids: list[str] = []
    session_ids: list[str] = []
    import_id: str = ""
    everything: bool = False
    now: bool = False
    dry_run: bool = False
    tenant: Tenant = DEFAULT_TENANT


class ForgetReport(Output, frozen=True):
    """What a deletion takes: packets, their pages, chat turns and log entries that quote them.

    `titles` are some of the packets; `sources` the files they came from, of which `removed_files` lay in the inbox and
    were deleted. `forget_id` undoes it until `undo_until` ("" when it cannot be undone).
    """

    packets: int
    pages: int
    quoting_turns: int
    log_entries: int
    titles: list[str]
    sources: list[str]
    removed_files: list[str] = []
    forget_id: str = ""
    undo_until: str = ""


class Forgotten(Output, frozen=True):
    """A deletion that can still be undone."""

    forget_id: str
    packets: int
    forgotten_at: str
    undo_until: str


class PacketFilter(Input, frozen=True):
    """Which packets to list, newest first; turns of gaiad's own chats unless `include_chats` is false."""

    tenant: Tenant = DEFAULT_TENANT
    filters: Filters = Filters()
    order: Literal["earliest", "latest"] = "latest"
    limit: int = 50
    offset: int = 0
    include_chats: bool = True


class VerifyReport(Output, frozen=True):
    """A packet (or all) held against its stored original: hashes, pages, spans."""

    checked: int
    ok: int
    problems: list[str]


# ------------------------------------------------------------------------------------------------------- research


class ResearchRequest(Input, frozen=True):
    """A question to the archive. `now` fixes the clock for dates in words (ISO 8601); "" is the real one.

    Its budgets are JIT's: rounds of search and reflection (maxReflectionDepth), pages quoted (maxPages, at most 32) and
    tokens of the answer (maxOutputTokens, by a cautious estimate). 0 is the setting, of tokens no limit.
    """

    query: str
    tenant: Tenant = DEFAULT_TENANT
    max_iterations: int = 0
    filters: Filters = Filters()
    now: str = ""
    max_pages: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_output_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0


class Citation(Output, frozen=True):
    """`quote` is the stored text of the page from `start` to `end` (characters); `sha256` is of the quote in UTF-8.

    `redacted` is set where the quote was scrubbed on its way out; `sha256` is of what is stored all the same.
    """

    packet_id: str
    page_id: str
    start: int
    end: int
    sha256: str
    quote: str
    timestamp: str = ""
    topic: str = ""
    speaker: str = ""
    redacted: bool = False
    classification: list[str] = []
    policy_tags: list[str] = []


class ResearchResult(Output, frozen=True):
    """GAM 4 to 6: what the archive answers, from which packets, how sure, after how many iterations.

    `degraded` names what could not take part in the search, and why; `note` says it too. `research_id` names the kept
    run (`gaiad research show`), "" when it was not kept.
    """

    status: ResearchStatus
    answer: str
    source_packets: list[str]
    citations: list[Citation]
    confidence: float
    confidence_band: Literal["LOW", "MEDIUM", "HIGH"]
    iterations_used: int
    max_iterations: int
    note: str
    suggestions: list[str]
    engine: str
    took_ms: float
    kind: str = "factual"
    missing_aspects: list[str] = []
    sources: list[PacketSummary] = []
    parameters: dict[str, Any] = {}
    degraded: list[str] = []
    research_id: str = ""


# --------------------------------------------------------------------------------------------------------- errors


class ErrorBody(Output, frozen=True):
    """Every error on the wire."""

    code: str
    message: str
    retry_after_s: float | None = None
