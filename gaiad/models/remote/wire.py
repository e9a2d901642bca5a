"""What goes to an OpenAI-compatible server and what comes back, as structs. Pure.

A body holds only fields the server's dialect takes; what a chunk holds beyond these fields is nobody's business.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gaiad.errors import BadInput
from gaiad.generation import GenerateRequest
from gaiad.models.plain.control_literals import plain_text
from gaiad.models.remote.dialect import Dialect

_STOPS = 4  # more of them are refused by some; all are watched for on our side


class Message(msgspec.Struct, frozen=True):
    """One message as the server reads it."""

    role: str
    content: str


class StreamOptions(msgspec.Struct, frozen=True):
    """Asks for the token counts with the last chunk."""

    include_usage: bool = True


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A request for text: `messages` for /chat/completions, `prompt` for /completions."""

    model: str
    stream: bool = True
    messages: list[Message] | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    stream_options: StreamOptions | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    min_p: float | UnsetType = UNSET
    repeat_penalty: float | UnsetType = UNSET
    repetition_penalty: float | UnsetType = UNSET
    repeat_last_n: int | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET
    response_format: dict[str, Any] | UnsetType = UNSET
    grammar: str | UnsetType = UNSET


class Usage(msgspec.Struct, frozen=True):
    """The server's own counts."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens it had read before, 0 when it does not say."""
        cached = (self.prompt_tokens_details or {}).get("cached_tokens")
        return cached if isinstance(cached, int) else 0


class Delta(msgspec.Struct, frozen=True):
    """New text; `reasoning_content` and `reasoning` are thoughts that are not part of the reply."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """`delta` of a streamed chat, `message` of a whole one, `text` of a completion."""

    delta: Delta | None = None
    message: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    stopping_word: str | None = None
    matched_stop: str | int | None = None

    @property
    def new_text(self) -> str:
        said = self.delta or self.message
        return (said.content if said else self.text) or ""

    @property
    def thinks(self) -> bool:
        said = self.delta or self.message
        return bool(said and (said.reasoning_content or said.reasoning))

    @property
    def stop_named(self) -> str:
        """The stop string, where the server tells which it was."""
        names = (self.stop_reason, self.stopping_word, self.matched_stop)
        return next((name for name in names if isinstance(name, str) and name), "")


class Chunk(msgspec.Struct, frozen=True):
    """One event of a reply."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    system_fingerprint: str | None = None
    error: Any = None


class ListedModel(msgspec.Struct, frozen=True):
    """One line of GET /models."""

    id: str = ""


class ModelList(msgspec.Struct, frozen=True):
    """GET /models."""

    data: list[ListedModel] = []


class Unreadable(Exception):
    """What came is no JSON of the expected kind."""


def read_chunk(data: bytes) -> Chunk:
    """Raises Unreadable."""
    try:
        return msgspec.json.decode(data, type=Chunk)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from error


def read_models(data: bytes) -> list[str]:
    """The names a server lists. Raises Unreadable."""
    try:
        return [model.id for model in msgspec.json.decode(data, type=ModelList).data if model.id]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from error


def request_body(model: str, request: GenerateRequest, seed: int, dialect: Dialect) -> bytes:
    """The JSON of a request in a server's dialect. Raises BadInput."""
    sampling = request.sampling
    limit: Literal["max_tokens", "max_completion_tokens"] = dialect.limit_field
    if not request.messages:
        limit = "max_tokens"
    penalised = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty) != (1.0, 0.0, 0.0)
    fields: dict[str, Any] = {
        "stream_options": StreamOptions(),
        limit: request.max_tokens,
        "seed": seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
    }
    if penalised:
        fields["repeat_last_n"] = sampling.repeat_window
        fields["repeat_penalty"] = fields["repetition_penalty"] = sampling.repeat_penalty
    if request.stop:
        fields["stop"] = [stop for stop in request.stop if stop][:_STOPS]
    schema, _marker = marked_schema(request)
    if schema is not None and (form := dialect.response_format(schema)) is not None:
        fields["response_format"] = form
    if request.grammar:
        fields["grammar"] = request.grammar
    taken = {name: value for name, value in fields.items() if name not in dialect.refused}
    try:
        return msgspec.json.encode(Body(model=model, **_prompt(request), **taken))
    except (UnicodeEncodeError, RecursionError, TypeError) as error:
        raise BadInput(
            f"the request cannot be written as JSON ({error}); send plain text and a plain schema"
        ) from error


def _prompt(request: GenerateRequest) -> dict[str, Any]:
    if request.messages:
        return {"messages": [Message(one.role, plain_text(one.content)) for one in request.messages]}
    return {"prompt": plain_text(request.segments)}


def error_words(data: bytes) -> str:
    """What a server says is wrong, from the usual places of its JSON; the text itself when it is none."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return " ".join(data.decode("utf-8", "replace").split())
    return _words_in(body)


def _words_in(body: Any) -> str:
    """`error.message`, `error`, `message`, `detail`, in this order; the whole when it has none of them."""
    if isinstance(body, str):
        return " ".join(body.split())
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            return _words_in(body[key])
    return msgspec.json.encode(body).decode()


def error_in(chunk: Chunk) -> str:
    """What went wrong in the middle of a reply, "" when nothing did."""
    return _words_in(chunk.error) if chunk.error else ""


def marked_schema(request: GenerateRequest) -> tuple[dict[str, Any] | None, str]:
    """The schema a server can be held to, and the marker that goes before the reply (a contract of one JSON block)."""
    if request.schema is not None:
        return request.schema, ""
    blocks: Sequence[Any] = request.contract.blocks if request.contract else ()
    if len(blocks) == 1 and blocks[0].schema is not None:
        return blocks[0].schema, f"{blocks[0].marker}: "
    return None, ""
