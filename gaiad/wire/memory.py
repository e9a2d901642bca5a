"""What is remembered of a conversation, on the wire and between packages: turns, pages with JIT's header, memos.

JIT's own structs (header, page and the bodies of its API) keep its camelCase; gaiad's turn, memo and session are
snake_case (decision 24). A `SessionTurn` is also what the archive stores: its JSON is the original that pages and
memos are derived from, so a field may be added with a default here, and none may be renamed.
"""

from typing import Annotated, Any, Literal

import msgspec

from gaiad.wire.schemas import Input, Output, Retriever

NOTHING_FOUND = "NOTHING_FOUND"  # of a message


class TurnMessage(Output, frozen=True, omit_defaults=True):
    """One thing said: JIT's turn of an ingested session. `role` is user, assistant, system, tool or a name.

    What has the `marker` NOTHING_FOUND says that there is no answer: the session shows it, and it becomes no page.
    """

    role: str
    content: str
    timestamp: str = ""
    marker: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class TurnBlock(Output, frozen=True, omit_defaults=True):
    """One marked block of the turn (GCP 6); THOUGHT_SEED, VERIFY and PLAN become pages too (decision 16)."""

    marker: str
    text: str
    role: str = ""


class SessionTurn(Output, frozen=True, omit_defaults=True, tag_field="gaiad_session_turn", tag=1):
    """One turn of a session, as remembered. Times are UTC ISO 8601; `started_at` "" is the present.

    `sequence` counts from 0 within the session; -1 asks for the next number. `sources` are the packet ids the answer
    relies on. Title, description, agent, classification, policy tags and `session_metadata` describe the session:
    the newest that is not empty holds, classification and policy tags add up. `tenant_id` "" is the call's tenant.
    """

    session_id: str
    turn_id: str
    messages: list[TurnMessage]
    sequence: int = -1
    tenant_id: str = ""
    started_at: str = ""
    ended_at: str = ""
    title: str = ""
    description: str = ""
    agent_id: str = ""
    persona: str = ""
    model: str = ""
    fingerprint: str = ""
    status: str = ""
    blocks: list[TurnBlock] = msgspec.field(default_factory=list)
    sources: list[str] = msgspec.field(default_factory=list)
    tags: list[str] = msgspec.field(default_factory=list)
    classification: list[str] = msgspec.field(default_factory=list)
    policy_tags: list[str] = msgspec.field(default_factory=list)
    origin_run_id: str = ""
    request_intent: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    session_metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def user(self) -> str:
        """What the user said, messages parted by an empty line."""
        return "\n\n".join(message.content for message in self.messages if message.role == "user")

    @property
    def answer(self) -> str:
        """What the assistant said."""
        return "\n\n".join(message.content for message in self.messages if message.role == "assistant")


class Memo(Output, frozen=True, omit_defaults=True):
    """What a page adds to its session so far (JIT): made by rules from the page alone, and no instruction to anyone.

    `dates` are ISO days or months. `open_questions` were open when the page was written. `text` is all of it in one
    line, "" when the page adds nothing. `sequence` is the page's number in the session.
    """

    page_id: str
    packet_id: str
    session_id: str
    sequence: int
    memo_version: int
    text: str = ""
    names: list[str] = msgspec.field(default_factory=list)
    dates: list[str] = msgspec.field(default_factory=list)
    decisions: list[str] = msgspec.field(default_factory=list)
    open_questions: list[str] = msgspec.field(default_factory=list)


class SessionSummary(Output, frozen=True):
    """JIT's Session, with how much of it is remembered.

    `first_message` is the first line of the first thing said, cut at a word; "" when nothing is remembered of it.
    """

    session_id: str
    tenant_id: str
    title: str
    description: str
    agent_id: str
    classification: list[str]
    policy_tags: list[str]
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    turns: int
    pages: int
    first_message: str = ""


class PageHeader(Output, frozen=True, rename="camel", omit_defaults=True):
    """JIT's decorated header of a page; computed when read, the page's text is undecorated. Empty fields are absent.

    `sequence` is the page's number in its session, or in its packet when that is not a remembered turn.
    """

    session_id: str
    tenant_id: str
    sequence: int
    created_at: str
    agent_id: str = ""
    memo_snapshot: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    classification: list[str] = msgspec.field(default_factory=list)
    policy_tags: list[str] = msgspec.field(default_factory=list)
    origin_run_id: str = ""
    request_intent: str = ""


class MemoryPage(Output, frozen=True, rename="camel", omit_defaults=True):
    """JIT's Page. `raw_content` is exact; `metadata` holds memo_version, the packet id and who spoke."""

    id: str
    session_id: str
    tenant_id: str
    sequence: int
    raw_content: str
    header: PageHeader
    memo: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    classification: list[str] = msgspec.field(default_factory=list)
    policy_tags: list[str] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


# ------------------------------------------------------------------------------------------- JIT's API, as it is sent


class IngestedTurn(Input, frozen=True, rename="camel"):
    """One thing said in a session that is handed over. `timestamp` is ISO 8601, UTC when it names no zone."""

    role: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    content: str
    timestamp: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class IngestSession(Input, frozen=True, rename="camel"):
    """The body of `POST /memory/ingest_session` (JIT). Without a `sessionId` it follows from what is said."""

    tenant_id: str
    turns: Annotated[list[IngestedTurn], msgspec.Meta(min_length=1, max_length=100_000)]
    agent_id: str = ""
    session_id: str = ""
    title: str = ""
    description: str = ""
    classification: list[str] = msgspec.field(default_factory=list)
    policy_tags: list[str] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class IngestedPage(Output, frozen=True, rename="camel"):
    """A page that a handed over session became."""

    id: str
    sequence: int
    header: PageHeader


class IngestedSession(Output, frozen=True, rename="camel"):
    """What JIT answers to `ingest_session`: `memo` of the whole session, the pages of this call."""

    session_id: str
    memo: str
    pages: list[IngestedPage]


PAGES_MOST, REFLECTIONS_MOST = 32, 5


class Budgets(Input, frozen=True, rename="camel"):
    """What one briefing may cost (JIT); above the caps of 32 pages and 5 reflections the caps hold.

    `max_output_tokens` counts all texts of the briefing in tokens of the model of role prime; None means no limit.
    """

    max_pages: Annotated[int, msgspec.Meta(ge=1)] = 8
    max_reflection_depth: Annotated[int, msgspec.Meta(ge=1)] = 2
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


class BuildContext(Input, frozen=True, rename="camel"):
    """The body of `POST /memory/build_context` (JIT). `mode` is which retrievers look.

    What was said in the session `sessionId` and to the agent `agentId` is preferred; nothing is left out for them.
    """

    tenant_id: str
    request: Annotated[str, msgspec.Meta(min_length=1)]
    agent_id: str = ""
    session_id: str = ""
    budgets: Budgets = Budgets()
    mode: Literal["hybrid", "bm25", "dense"] = "hybrid"


class BriefingEvidence(Output, frozen=True, rename="camel", omit_defaults=True):
    """A page that a briefing uses. `retriever_type` is the one that ranked it best; labels are the page's own."""

    page_id: str
    excerpt: str
    relevance_score: float
    retriever_type: Retriever
    classification: list[str] = msgspec.field(default_factory=list)
    policy_tags: list[str] = msgspec.field(default_factory=list)


class BriefingContext(Output, frozen=True, rename="camel"):
    """JIT's BriefingContext: what the memory has for a request, within its budgets."""

    executive_summary: str
    key_facts: list[str]
    open_questions: list[str]
    evidence: list[BriefingEvidence]
    tokens_used: int
    reflection_steps: int
    pages_used: int


Rating = Literal["useful", "not-useful"]


class FeedbackQuery(Input, frozen=True):
    """Packets of which is asked what was said for one question; "" is what was said of the packets themselves."""

    query: str
    packet_ids: list[str]


class FeedbackRow(Output, frozen=True):
    """One verdict; `query` is what was asked when it was given, "" for the packet itself. `at` is UTC ISO 8601."""

    packet_id: str
    verdict: Rating
    query: str
    at: str
