"""What a request for text says and what comes back, for every kind of model behind the Model port."""

from typing import Literal

import msgspec


class Segment(msgspec.Struct, frozen=True):
    """A part of a prompt. Only in a trusted one are control tokens read as such (decision 8)."""

    text: str
    trusted: bool = False


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


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Continue the prompt by up to `max_tokens`. `seed` None draws one; the reply names it."""

    segments: list[Segment]
    max_tokens: int
    seed: int | None = None
    sampling: Sampling = Sampling()
    stop: list[str] = []


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
