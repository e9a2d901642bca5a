"""What a caller asks a model for text with, and what comes back on the wire (`POST /generate`)."""

from typing import Any, Literal

import msgspec

from gaiad.schemas import DEFAULT_TENANT, Input, Output, Tenant


class ChatTurn(Input, frozen=True):
    """One message of a conversation that a model is asked to continue."""

    role: Literal["system", "user", "assistant"]
    content: str


class GenerateBody(Input, frozen=True):
    """Ask a model for text: `model` by name or `role`, `messages` or a `prompt` as it stands.

    At most one of `grammar` (GBNF) and `schema` (JSON Schema) gives the reply its form. `stream` sends the text as it
    comes, as server-sent events. `timeout_s` 0 is no limit; `seed` null draws one.
    """

    model: str = ""
    role: str = ""
    messages: list[ChatTurn] = msgspec.field(default_factory=list)
    prompt: str = ""
    max_tokens: int = 512
    seed: int | None = None
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    stop: list[str] | str = msgspec.field(default_factory=list)
    grammar: str = ""
    schema: dict[str, Any] | None = None
    stream: bool = False
    background: bool = False
    timeout_s: float = 0.0
    tenant: Tenant = DEFAULT_TENANT


class GenerateReply(Output, frozen=True):
    """A reply whole, with its times in milliseconds: waiting for a place, reading the prompt, writing.

    `cached_tokens` of the prompt had been read before. `stop` is the stop string that was met.
    """

    text: str
    reason: Literal["end", "stop", "length"]
    stop: str
    model: str
    kind: str
    fingerprint: str
    seed: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
