"""The Cognition Packet and what is said about its making (GCP 2 and 4): plain structs, no logic.

A packet carries every text that its prompt is made of, so that the same packet always renders to the same prompt
(decision 9). Its meta header (ids, time, confidence, risk, retries) is for logs and the router; no model sees it.
"""

from typing import Literal

import msgspec

DEFAULT_MTU = 4096
SUMMARY_TAG = "⚠SUMMARY"

RiskLevel = Literal["low", "med", "high"]
Field = Literal[
    "identity", "persona", "role", "feedback", "task_instruction", "history", "context", "user_prompt", "work",
    "template",
]  # fmt: skip
Method = Literal["whole", "trimmed", "extractive", "lite", "prime", "carried"]
"""How a field came to fit; "carried": with the summary that an earlier packet of the session was given."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One side of an earlier turn. With `summary` the text begins with SUMMARY_TAG and is not what was said."""

    turn_id: str
    role: Literal["user", "assistant"]
    text: str
    summary: bool = False


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was retrieved. `before_turn` is the turn whose question it is before, "" for the present one.

    `timestamp` and `topic` are the Transmission Packet's own, "" when it has none. `own` is set for what one of gaiad's
    models wrote in a chat: it is not evidence.
    """

    packet_id: str
    page_id: str
    text: str
    timestamp: str = ""
    topic: str = ""
    before_turn: str = ""
    summary: bool = False
    own: bool = False


class WorkItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an earlier stage of this turn wrote: its marker (PLAN, RESPONSE, INTERRUPT ...), its text, who wrote it.

    With `summary` the text begins with SUMMARY_TAG and is not what was written.
    """

    marker: str
    text: str
    role: str
    summary: bool = False


class CognitionPacket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What accompanies one model call (GCP 4). `packet_id` is GCP's eight digits for show; it is found by `full_id`.

    `turn_id` is the turn it is made for. `timestamp` is UTC in ISO 8601, `mtu` tokens. `task_instruction` and
    `role_text` are the texts the key and the role had at the time, `work` what earlier stages of the turn wrote, in
    their order. `feedback` is what reviews advise the role (CONTEXT), `feedback_from` version and review of each line.
    `work` and what follows it stand in the JSON only when there is something in them (GCP 4.1.1).
    """

    packet_id: str
    full_id: str
    turn_id: str
    parent_id: str | None
    timestamp: str
    mtu: int
    identity: str
    persona: str
    role: str
    role_text: str
    task_instruction_key: str
    task_instruction: str
    history: list[HistoryEntry]
    context: list[ContextItem]
    user_prompt: str
    work: list[WorkItem] = []
    feedback: str = ""
    feedback_from: str = ""
    confidence: float | None = None
    risk_level: RiskLevel | None = None
    retry_count: int | None = None


class FieldReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the token table: the tokens a field may have, came with and has now, and how it got there."""

    field: Field
    limit: int
    original_tokens: int
    tokens: int
    method: Method


class PromptManifest(msgspec.Struct, frozen=True, kw_only=True):
    """How a packet was made. `total_tokens` is the whole prompt as the model counts it; the fields add up to it.

    `tokenizer` and `model` are fingerprints. `reserve_tokens` is the room for the reply, beside the MTU. `dropped` has
    the turn ids of history and page ids of context that did not fit. `prompt_sha256` is over the rendered prompt.
    `prompts` has version and digest of each shipped prompt text behind it; empty in packets from before it was kept.
    """

    packet_id: str
    mtu: int
    model: str
    tokenizer: str
    fields: list[FieldReport]
    total_tokens: int
    reserve_tokens: int
    dropped: list[str]
    prompt_sha256: str
    prompts: dict[str, str] = {}
