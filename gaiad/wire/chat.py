"""What a person says to the council, and what comes back, on the wire (`POST /chat`, `/cognition/...`)."""

from typing import Any, Literal

import msgspec

from gaiad.wire.council import EscalationRecord, HistoryNote, VoteRecord
from gaiad.wire.schemas import DEFAULT_TENANT, Citation, Input, Output, ResearchStatus, Tenant

TurnStatus = ResearchStatus | Literal["CANCELLED"]
ChatChannel = str
"""A chat of the table of channels (constants/channels.toml), such as "cli_chat"."""


class ChatRequest(Input, frozen=True):
    """One thing said in a session; "" begins a new one. `mtu` and `max_tokens` 0 are as set.

    `persona` "" is the session's, else its project's, else the default; `project` "" is the session's too. The same
    `idempotency_key` in the same session gives the same turn, and without a session the same session too. `now` is the
    clock for dates in words (ISO 8601); `depth` "" is as set (council.depth). `channel` is where it was said, and so
    what of the answer goes back there, and scrubbed of what (GCP 7.2, 7.3).
    """

    message: str
    session_id: str = ""
    persona: str = ""
    project: str = ""
    role: str = "prime"
    mtu: int = 0
    max_tokens: int = 0
    seed: int | None = None
    temperature: float | None = None
    depth: Literal["", "auto", "fast", "full"] = ""
    idempotency_key: str = ""
    now: str = ""
    channel: ChatChannel = "cli_chat"
    tenant: Tenant = DEFAULT_TENANT


class RedactionCount(Output, frozen=True):
    """So many items of a kind were taken out (GCP 7.3)."""

    kind: str
    count: int


class ChatBlock(Output, frozen=True, omit_defaults=True):
    """One marked block of the answer (GCP 7.1). `manner` is how its channel shows it: "show", or "log" for quietly."""

    marker: str
    text: str
    manner: str = "show"
    redactions: list[RedactionCount] = msgspec.field(default_factory=list)


class PersonaRow(Output, frozen=True):
    """A persona that may be chosen, or that the sessions of its `projects` have (GCP 3.2)."""

    name: str
    scope: str
    tone: str
    projects: list[str] = msgspec.field(default_factory=list)


class Also(Output, frozen=True):
    """An earlier packet that bears on what was said, though nobody asked for it; shown below the answer, no part of it.

    `title` is what the packet is about, "" when it does not say; `words` the sentence to show, `score` 0 to 1.
    """

    packet_id: str
    title: str
    words: str
    score: float


class ChatAnswer(Output, frozen=True):
    """A turn whole. `sources` are the packets that its answer cites, `citations` what was found there word for word.

    `timings` in milliseconds: prepare_ms (the packet, research included), queue_ms, prefill_ms, decode_ms. `engine`
    names what wrote the answer: a model's name and kind. `answered` is False when the council gives no answer and
    `answer` says what it asks or tells the person instead; `end_why` is how the turn ended.

    `redactions` were taken out of the answer on its way to the turn's channel; `redacted` are the sources whose words
    are not as stored, so that their hash is of another text than the answer has (decision 16).
    `also` is an earlier packet that may be of use, the same one never twice in a session (cognition.proactive_context).
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
    depth: str = "fast"
    depth_why: str = ""
    reduced_quorum: bool = False
    answered: bool = True
    end_why: str = ""
    votes: list[VoteRecord] = msgspec.field(default_factory=list)
    escalations: list[EscalationRecord] = msgspec.field(default_factory=list)
    redactions: list[RedactionCount] = msgspec.field(default_factory=list)
    redacted: list[str] = msgspec.field(default_factory=list)
    also: Also | None = None
    citations: list[Citation] = msgspec.field(default_factory=list)


class Rendering(Output, frozen=True):
    """What would be sent first, without sending it: the token table and the prompt (GCP 4). `notes` as of a turn, and
    what a turn would ask of models before, which a dry run does not. `stage` is the first of a turn of that `depth`.
    """

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
    notes: list[str] = msgspec.field(default_factory=list)
    depth: str = ""
    depth_why: str = ""
    stage: str = ""
    role: str = ""


class PacketRecord(Output, frozen=True):
    """A Cognition Packet as it was sent, and what came back.

    `reply` is empty when the call ended without one; `failure` says why. `aside` is set for what a role was asked
    beside a turn: a ballot, a look, a review.
    """

    packet: dict[str, Any]
    manifest: dict[str, Any]
    request: dict[str, Any]
    reply: dict[str, Any]
    session_id: str
    made_at: str = ""
    failure: str = ""
    aside: bool = False


class Replay(Output, frozen=True):
    """The prompt built again from the stored packet (decision 9), and with a model the reply beside the stored one.

    `model` wrote the prompt: the one it was sent to, also when its role has another one now. `same_model` is False when
    that one is gone and the role's had to do it; if the prompt is another then, `same_prompt` is None, for
    models write the same packet differently.

    `differs_at` is the first token that is not the same, counted from 0; -1 when all are, None when nothing was made.
    `changed_prompts` names the shipped prompt texts that are others now than when the packet was made.
    """

    packet_id: str
    same_prompt: bool | None
    prompt_sha256: str
    stored_sha256: str
    prompt: str
    same_model: bool
    model: str = ""
    changed_prompts: tuple[str, ...] = ()
    reply: str = ""
    differs_at: int | None = None
    expected: str = ""
    found: str = ""
