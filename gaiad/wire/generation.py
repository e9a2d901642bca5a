"""What a model is asked for and what comes back: behind the Model port, and on the wire (`POST /generate`)."""

import math
from typing import Any, Literal

import msgspec

from gaiad.wire.schemas import DEFAULT_TENANT, Input, Tenant


class Segment(msgspec.Struct, frozen=True):
    """A part of a prompt. Only in a trusted one are control tokens read as such (decision 8).

    `source` is the packet id that retrieved text came from, "" for all else.
    """

    text: str
    trusted: bool = False
    source: str = ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, in parts. The model's chat template puts its control tokens around it."""

    role: Literal["system", "user", "assistant"]
    content: list[Segment]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One marked block of a stage's output (GCP 6, 7.1): `MARKER: ` and a body.

    The body is JSON that fits `schema` (a JSON Schema), or without one plain text.
    """

    marker: str
    schema: dict[str, Any] | None = None


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage must write: these blocks, in this order, each beginning on a line of its own (decision 3)."""

    blocks: list[Block]


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How the next token is chosen. `temperature` 0 takes the likeliest; `top_k` 0, `top_p` 1, `min_p` 0 are off.

    Penalties look at the last `repeat_window` tokens of the reply, not at the prompt.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_window: int = 64


SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 10.0),
    "top_k": (0, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 10.0),
    "frequency_penalty": (-10.0, 10.0),
    "presence_penalty": (-10.0, 10.0),
    "repeat_window": (0, 4096),
}
"""What a worker takes, lowest and highest."""


def out_of_range(name: str, value: float) -> str:
    """What is wrong with a value of a sampling, in words that name it and the remedy; "" when nothing is."""
    low, high = SAMPLING_RANGES[name]
    within = math.isfinite(value) and low <= value <= high
    return "" if within else f"{name} is {value:.10g}; give a number from {low:.10g} to {high:.10g}"


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Continue a prompt by up to `max_tokens`. `seed` None draws one; the reply names it.

    The prompt is either `messages`, rendered with the model's chat template, or `segments` as they are. At most one
    of `regex`, `schema` (JSON Schema) and `contract` says what form the whole reply must have.
    """

    max_tokens: int
    segments: list[Segment] = []
    messages: list[ChatMessage] = []
    seed: int | None = None
    sampling: Sampling = Sampling()
    stop: list[str] = []
    regex: str = ""
    schema: dict[str, Any] | None = None
    contract: Contract | None = None


class TextDelta(msgspec.Struct, frozen=True, kw_only=True):
    """More text; `tokens` is how many the reply has by now."""

    text: str
    tokens: int


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a reply, with all of its text. `stop` is the stop string that was met, or "".

    `queue_ms` is the wait for a place, `prefill_ms` the reading of the prompt up to the first token, `decode_ms` the
    writing of the others. `cached_tokens` of the `prompt_tokens` were read before.
    """

    text: str
    reason: Literal["end", "stop", "length"]
    stop: str
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    seed: int
    fingerprint: str
    queue_ms: float
    prefill_ms: float
    decode_ms: float


def one_form(request: GenerateRequest) -> str:
    """What is wrong with how the request is put together, in words with the remedy; "" when nothing is."""
    if bool(request.messages) == bool(request.segments):
        return "a request needs either messages or a prompt, not both and not neither"
    forms = [name for name in ("regex", "schema", "contract") if getattr(request, name) not in ("", None)]
    if len(forms) > 1:
        return f"{' and '.join(forms)} are both given; keep one of them"
    return ""


class ChatTurn(Input, frozen=True):
    """One message of a conversation that a model is asked to continue."""

    role: Literal["system", "user", "assistant"]
    content: str


class GenerateBody(Input, frozen=True):
    """Ask a model for text: `model` by name or `role`, `messages` or a `prompt` as it is.

    At most one of `regex` and `schema` (JSON Schema) gives the reply its form. `stream` sends the text as it
    comes, as server-sent events. `timeout_s` 0 means no limit; `seed` null draws one.
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
    regex: str = ""
    schema: dict[str, Any] | None = None
    stream: bool = False
    background: bool = False
    timeout_s: float = 0.0
    tenant: Tenant = DEFAULT_TENANT


class GenerateReply(Generated, frozen=True, kw_only=True):
    """A reply whole, and which model wrote it; its times are in milliseconds."""

    model: str
    kind: str
