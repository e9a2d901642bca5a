"""What a person says to the council, and what comes back, on the wire (`POST /chat`, `/cognition/...`)."""

from typing import Any, Literal

import msgspec

from gaiad.schemas import DEFAULT_TENANT, Input, Output, ResearchStatus, Tenant

TurnStatus = ResearchStatus | Literal["CANCELLED"]


class ChatRequest(Input, frozen=True):
    """One thing said in a session; "" begins a new one. `mtu` and `max_tokens` 0 are as set.

    `persona` "" is the session's, else its project's, else the default. The same `idempotency_key` in the same session
    gives the same turn. `now` fixes the clock for dates in words (ISO 8601).
    """

    message: str
    session_id: str = ""
    persona: str = ""
    project: str = ""
    role: str = "prime"
    mtu: int = 0
    max_tokens: int = 0
    seed: int | None = None
    temperature: float = 0.7
    idempotency_key: str = ""
    now: str = ""
    tenant: Tenant = DEFAULT_TENANT


class ChatBlock(Output, frozen=True):
    """One marked block of the answer (GCP 7.1)."""

    marker: str
    text: str


class HistoryNote(Output, frozen=True):
    """Whether the turn looked into the archive and why (GAM, Integration Point 2), and which packets it used."""

    sought: bool
    why: str
    status: str = ""
    packets: list[str] = msgspec.field(default_factory=list)


class ChatAnswer(Output, frozen=True):
    """A turn whole. `sources` are the packet ids its context came from.

    `timings` in milliseconds: prepare_ms (the packet, research included), queue_ms, prefill_ms, decode_ms. `engine`
    names what wrote the answer: a model's name and kind.
    """

    session_id: str
    turn_id: str
    packet_id: str
    blocks: list[ChatBlock]
    answer: str
    sources: list[str]
    status: str
    engine: str
    persona: str
    history: HistoryNote
    timings: dict[str, float]
    tokens: dict[str, int]
    notes: list[str] = msgspec.field(default_factory=list)


class Rendering(Output, frozen=True):
    """What would be sent, without sending it: the token table and the prompt (GCP 4)."""

    packet_id: str
    mtu: int
    model: str
    tokenizer: str
    fields: list[dict[str, Any]]
    total_tokens: int
    reserve_tokens: int
    dropped: list[str]
    prompt: str
    exact: bool = True


class PacketRecord(Output, frozen=True):
    """A Cognition Packet as it was sent, and what came back.

    `reply` is empty when the call ended without one; `failure` says why.
    """

    packet: dict[str, Any]
    manifest: dict[str, Any]
    request: dict[str, Any]
    reply: dict[str, Any]
    session_id: str
    made_at: str = ""
    failure: str = ""


class Replay(Output, frozen=True):
    """The prompt built again from the stored packet (decision 9), and with a model the reply beside the stored one.

    `differs_at` is the first token that is not the same, counted from 0; -1 when all are, None when nothing was made.
    """

    packet_id: str
    same_prompt: bool
    prompt_sha256: str
    stored_sha256: str
    prompt: str
    same_model: bool
    reply: str = ""
    differs_at: int | None = None
    expected: str = ""
    found: str = ""
