"""What is remembered of a conversation, on the wire and between packages: turns, pages with JIT's header, memos.

JIT's own structs (header and page) keep its camelCase; gaiad's turn, memo and session are snake_case (decision 24).
A `SessionTurn` is also what the archive stores: its JSON is the original that pages and memos are derived from, so a
field may be added with a default here, and none may be renamed.
"""

from typing import Any

import msgspec

from gaiad.schemas import Output


class TurnMessage(Output, frozen=True, omit_defaults=True):
    """One thing said: JIT's turn of an ingested session. `role` is user, assistant, system, tool or a name."""

    role: str
    content: str
    timestamp: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class TurnBlock(Output, frozen=True, omit_defaults=True):
    """One marked block of the turn (GCP 6); THOUGHT_SEED, VERIFY and PLAN become pages too (decision 16)."""

    marker: str
    text: str
    role: str = ""


class SessionTurn(Output, frozen=True, omit_defaults=True, tag_field="gaiad_session_turn", tag=1):
    """One turn of a session, as remembered. Times are UTC ISO 8601; `started_at` "" is the present.

    `sequence` counts from 0 within the session; -1 asks for the next number. `sources` are the packet ids the answer
    stands on. Title, description, agent, classification, policy tags and `session_metadata` describe the session:
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
    """JIT's Session, with how much of it is remembered."""

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


class PageHeader(Output, frozen=True, rename="camel", omit_defaults=True):
    """JIT's decorated header of a page; computed when read, the page's text is undecorated. Empty fields are absent.

    `sequence` is the page's number in its session, or in its packet when that is no remembered turn.
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
