"""What clients of OpenAI's API send (`/v1`). Unlike gaiad's own bodies, fields that are not known are ignored."""

from typing import Annotated, Any, Literal

import msgspec

Number = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Lenient(msgspec.Struct, frozen=True, kw_only=True):
    """A body of OpenAI's: clients send fields that only some servers know."""


class Message(Lenient, frozen=True, kw_only=True):
    """One message; `content` is text or a list of parts, null beside `tool_calls`."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class StreamOptions(Lenient, frozen=True, kw_only=True):
    include_usage: bool | None = None


class Sampled(Lenient, frozen=True):
    """What chat/completions and responses share."""

    model: str
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    user: str | None = None
    store: bool | None = None


class ChatCompletion(Sampled, frozen=True, kw_only=True):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=10_000)]
    stream_options: StreamOptions | None = None
    max_tokens: Number | None = None
    max_completion_tokens: Number | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None
    n: int | None = None
    logprobs: bool | None = None


class Responses(Sampled, frozen=True, kw_only=True):
    """The body of `POST /v1/responses`. `input` is text or a list of items."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: Number | None = None
    previous_response_id: str | None = None
    text: dict[str, Any] | None = None


class Embeddings(Lenient, frozen=True, kw_only=True):
    """The body of `POST /v1/embeddings`."""

    model: str
    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


class Said(msgspec.Struct, frozen=True):
    """One message as gaiad reads it."""

    role: Literal["system", "user", "assistant"]
    text: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request of either route. `session_id` "" means that the session follows from the messages.

    `temporary` is a front end's request for a title or tags: answered in the background and not remembered.
    `max_tokens` 0 is as set.
    """

    model: str
    messages: list[Said]
    session_id: str = ""
    temporary: bool = False
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = []
    schema: dict[str, Any] | None = None
    tenant: str


class Begun(msgspec.Struct, frozen=True):
    """The first thing that comes: ids of turn and session, "" for a role that is asked directly."""

    turn_id: str = ""
    session_id: str = ""


class Source(msgspec.Struct, frozen=True):
    """A citation in the text, characters `start` to `end`; `quote` is what was found in the packet, "" for nothing."""

    start: int
    end: int
    packet_id: str
    title: str
    quote: str = ""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing that comes: the whole text."""

    text: str
    reason: Literal["stop", "length"]
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    sources: list[Source] = []
