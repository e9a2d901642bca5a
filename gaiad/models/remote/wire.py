"""What goes to an OpenAI-compatible server and what comes back, as structs. Pure.

A body holds only fields the server's dialect takes; what a chunk holds beyond these fields is ignored. A server
tokenises what it is sent in one piece, so a control token spelled out in retrieved text would begin a message
of its own (decision 8): a word joiner (U+2060, no width) behind its first character makes plain text of it that reads
the same.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gaiad.base.errors import BadInput
from gaiad.wire.generation import GenerateRequest, Segment

_DROPPABLE = (
    "stream_options",
    "top_k",
    "min_p",
    "repeat_penalty",
    "repetition_penalty",
    "repeat_last_n",
    "seed",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stop",
)
_UNKNOWN_FIELD = re.compile(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|extra|not permitted|not allowed|unexpected|"
    r"not available|does not exist|only the default",
    re.IGNORECASE,
)
_BAD_SCHEMA = re.compile(r"invalid schema|invalid_json_schema|schema is invalid", re.IGNORECASE)
_FORM = re.compile(r"response[_ ]format|json_schema|json_object", re.IGNORECASE)
_REFUSALS = frozenset({400, 404, 405, 415, 422, 500, 501})  # llama-cpp-python's server says 500 to a field it rejects


class ServerDialect(msgspec.Struct, frozen=True, kw_only=True):
    """`form` is how a schema is put: as the standard says, the older way, or not at all. `refused` are fields.

    `strict` says that a closed schema is called strict, which some servers take only of a few keywords.
    """

    strict: bool = True
    form: Literal["json_schema", "json_object", "none"] = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    refused: frozenset[str] = frozenset()

    def response_format(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The field that holds the server to a schema, None when it takes none."""
        if self.form == "json_schema":
            body = {"name": "reply", "schema": schema, "strict": self.strict and fits_strict(schema)}
            return {"type": "json_schema", "json_schema": body}
        if self.form == "json_object":
            return {"type": "json_object", "schema": schema}
        return None

    def describe(self) -> str:
        """What the server does without, in words; "" when it takes everything."""
        parts = []
        if self.form == "none":
            parts.append("it takes no response_format, so a reply's form is only checked, not enforced")
        if self.refused:
            parts.append(f"it refuses {', '.join(sorted(self.refused))}, which are left out")
        return "; ".join(parts)


def learn(dialect: ServerDialect, status: int, words: str, formed: bool) -> ServerDialect | None:
    """The dialect without what the refusal names; None when the refusal is about something else.

    `formed` says that the request held a `response_format`.
    """
    if status not in _REFUSALS:
        return None
    if formed and _BAD_SCHEMA.search(words):
        return msgspec.structs.replace(dialect, strict=False) if dialect.strict else None
    if formed and _FORM.search(words):
        return _lower_form(dialect)
    if "max_completion_tokens" in words and dialect.limit_field == "max_tokens":
        return msgspec.structs.replace(dialect, limit_field="max_completion_tokens")
    if not _UNKNOWN_FIELD.search(words):
        return None
    for name in _DROPPABLE:
        if name not in dialect.refused and re.search(rf"\b{name}\b", words):
            return msgspec.structs.replace(dialect, refused=dialect.refused | {name})
    return None


def _lower_form(dialect: ServerDialect) -> ServerDialect | None:
    if dialect.form == "none":
        return None
    return msgspec.structs.replace(dialect, form="json_object" if dialect.form == "json_schema" else "none")


def fits_strict(schema: dict[str, Any]) -> bool:
    """Whether a schema may be called strict: every object closed, and every property of it required."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        if part.get("type") == "object" or "properties" in part:
            named, required = part.get("properties", {}), part.get("required", [])
            if part.get("additionalProperties") is not False or set(named) != set(required):
                return False
        waiting += part.values()
    return True


WORD_JOINER = "\u2060"
_NAMES = (
    r"s|bos|eos|pad|unk|cls|sep|mask|sop|eop|eot|eod|eom|"
    r"(?:begin|end|start)_of_[a-z_]{1,24}|(?:im|file|repo|turn|fim|jupyter|audio|image|video|box|quad|ref|vision|tool|"
    r"unused|reserved|special|extra_id|function)_?[a-z0-9_]{0,40}|functions|reponame|filename|issue_[a-z]{1,16}|gh_stars|"
    r"think|thinking|thought|seed:think|scratch_pad|answer|arg_key|arg_value|observation|system|user|assistant"
)
_BRACKETED = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|IMG|IMG_BREAK|IMG_END|"
    r"AUDIO|PREFIX|MIDDLE|SUFFIX|UNK|CLS|SEP|PAD|MASK|gMASK|sMASK|BOS|EOS|UNUSED_?\d{1,4}|control_\d{1,4}"
)
_LITERAL = re.compile(
    rf"<[|｜](?:[^<>\[\]\n]{{0,64}}>)?"  # <|im_start|>, <｜User｜>, <|channel>, and a beginning of one
    rf"|</?[a-z_]{{1,32}}[|｜]>"  # <turn|>
    rf"|</?(?:{_NAMES})>"  # <s>, </think>, <start_of_turn>
    rf"|<</?SYS>>"
    rf"|\[/?(?:{_BRACKETED})\]",  # [INST]
    re.IGNORECASE,
)


def plain_text(segments: Sequence[Segment]) -> str:
    """The segments in one piece; control literals that are not the work of trusted text alone are broken up.

    A literal that only appears where two segments meet is broken up as well.
    """
    text = "".join(segment.text for segment in segments)
    trusted = _trusted_spans(segments)
    parts: list[str] = []
    done = 0
    for match in _LITERAL.finditer(text):
        if any(start <= match.start() and match.end() <= end for start, end in trusted):
            continue
        parts += (text[done : match.start() + 1], WORD_JOINER)
        done = match.start() + 1
    return "".join((*parts, text[done:]))


def _trusted_spans(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """The places of trusted text, neighbours joined."""
    spans: list[tuple[int, int]] = []
    at = 0
    for segment in segments:
        end = at + len(segment.text)
        if segment.trusted and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], end)
        elif segment.trusted:
            spans.append((at, end))
        at = end
    return spans


_STOPS = 4  # more of them are refused by some; all are watched for on our side


class RemoteMessage(msgspec.Struct, frozen=True):
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
    messages: list[RemoteMessage] | UnsetType = UNSET
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


class RemoteDelta(msgspec.Struct, frozen=True):
    """New text; `reasoning_content` and `reasoning` are thoughts that are not part of the reply."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """`delta` of a streamed chat, `message` of a whole one, `text` of a completion."""

    delta: RemoteDelta | None = None
    message: RemoteDelta | None = None
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


class MalformedReply(Exception):
    """What came is not JSON of the expected kind."""


def read_chunk(data: bytes) -> Chunk:
    """Raises MalformedReply."""
    try:
        return msgspec.json.decode(data, type=Chunk)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReply(str(error)) from error


def read_models(data: bytes) -> list[str]:
    """The names a server lists. Raises MalformedReply."""
    try:
        return [model.id for model in msgspec.json.decode(data, type=ModelList).data if model.id]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReply(str(error)) from error


def request_body(model: str, request: GenerateRequest, seed: int, dialect: ServerDialect) -> bytes:
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
    taken = {name: value for name, value in fields.items() if name not in dialect.refused}
    try:
        return msgspec.json.encode(Body(model=model, **_prompt(request), **taken))
    except (UnicodeEncodeError, RecursionError, TypeError) as error:
        raise BadInput(
            f"the request cannot be written as JSON ({error}); send plain text and a plain schema"
        ) from error


def _prompt(request: GenerateRequest) -> dict[str, Any]:
    if request.messages:
        return {"messages": [RemoteMessage(one.role, plain_text(one.content)) for one in request.messages]}
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
