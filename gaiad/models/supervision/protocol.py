"""What the daemon and a model's child process say to each other over a socketpair.

Frames: four bytes of length, big endian, then one message in MessagePack. Messages are tagged structs, so a later
engine adds its own without touching the others. Vectors travel as raw little-endian float32. No input or output here.
"""

import struct
from typing import Any, Literal

import msgspec

from gaiad.wire.generation import ChatMessage, Contract, Sampling, Segment

PROTOCOL_VERSION = 3
MAX_THREADS = 8  # of a worker whose settings name no number
KEPT_SEQUENCES = 8  # of a generating model: ended ones whose text is still in the memory, the prefix cache
DEFAULT_CONTEXT = 8192  # tokens of a generating model's context when the settings name none and it was trained for more
MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")
HEADER_BYTES = _LENGTH.size


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all; the tag is the struct's name."""


# ------------------------------------------------------------------------------------------------- to the worker


class Load(WorkerMessage, frozen=True):
    """First message: which engine on which file. `threads` 0 is one per core; `batch_tokens` is the aim per batch.

    A `tokens` engine serves the vocabularies of many files; its own `path` is "". The rest is for generation: `context`
    tokens at most per request (0: as trained, within reason), `cells` tokens for all requests and the cache together
    (0: one context), `sequences` requests at once. `flash` attention: auto measures both and keeps the faster.
    """

    version: int
    engine: Literal["embed", "generate", "tokens"]
    path: str
    threads: int
    batch_tokens: int
    context: int = 0
    cells: int = 0
    sequences: int = 4
    flash: Literal["auto", "on", "off"] = "auto"


class Embed(WorkerMessage, frozen=True):
    """Texts to unit vectors. A smaller `priority` goes first and interrupts a larger one that is running."""

    id: int
    texts: list[str]
    priority: int


class Generate(WorkerMessage, frozen=True):
    """Continue a prompt by up to `max_tokens`; answered with Deltas and one Finished. `priority` as in Embed."""

    id: int
    segments: list[Segment]
    max_tokens: int
    priority: int
    seed: int
    sampling: Sampling
    stop: list[str] = []
    grammar: str = ""  # what Compiled says of the form of the reply


class Tokenize(WorkerMessage, frozen=True):
    """Tokens of each text under the vocabulary of the GGUF at `path`; answered with Tokens.

    `counts_only` leaves the ids out. `beginning` puts the model's own beginning before each text, as for a prompt.
    """

    id: int
    path: str
    texts: list[list[Segment]]
    counts_only: bool
    beginning: bool


class Render(WorkerMessage, frozen=True):
    """Write a conversation with the GGUF's chat template or `template` (Jinja) in its place; answered with Rendered."""

    id: int
    path: str
    template: str
    messages: list[ChatMessage]


class CompileForm(WorkerMessage, frozen=True):
    """Compile one of three forms of a reply in a throw-away process (decision 3); answered with Compiled."""

    id: int
    path: str
    regex: str = ""
    schema: dict[str, Any] | None = None
    contract: Contract | None = None


class Cancel(WorkerMessage, frozen=True):
    """Drop request `id`, running or waiting; it is answered with Failed, code cancelled."""

    id: int


class Ping(WorkerMessage, frozen=True):
    """Answered with Pong by the engine's own thread, between two batches; by a generating one after a real decode."""

    id: int


class Stop(WorkerMessage, frozen=True):
    """Finish nothing, free the model, exit 0."""


TokenizerRequest = Tokenize | Render | CompileForm
Work = Embed | Generate | TokenizerRequest
Request = Load | Work | Cancel | Ping | Stop


# ----------------------------------------------------------------------------------------------- from the worker


class Ready(WorkerMessage, frozen=True):
    """The model is loaded. `dimension` is the vector's width, `window` the tokens one pass or one request may hold.

    A generating model has no vectors (0); it says how many `cells` and `sequences` its context has, and whether it
    attends by the flash kernel.
    """

    version: int
    pid: int
    dimension: int
    window: int
    cells: int = 0
    sequences: int = 0
    flash: bool = False


class LoadFailed(WorkerMessage, frozen=True):
    """The file cannot be used; `reason` names it. The worker exits after this."""

    reason: str


class Vectors(WorkerMessage, frozen=True):
    """`data` is float32, row after row, `count` rows of `dimension`; `tokens` is what the model really read."""

    id: int
    count: int
    dimension: int
    tokens: int
    data: bytes


class Delta(WorkerMessage, frozen=True):
    """More of request `id`'s text; `tokens` is how many the reply has by now."""

    id: int
    text: str
    tokens: int


class Finished(WorkerMessage, frozen=True):
    """Request `id` is done. `text` is the rest that no Delta carried; `stop` the stop string that was met, or "".

    Times are milliseconds: waiting for a place, reading the prompt up to the first token, writing the others.
    """

    id: int
    text: str
    reason: Literal["end", "stop", "length"]
    stop: str
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    seed: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float


class Tokens(WorkerMessage, frozen=True):
    """The counts of each text, and unless only those were asked for the ids."""

    id: int
    counts: list[int]
    ids: list[list[int]] = []


class Rendered(WorkerMessage, frozen=True):
    id: int
    segments: list[Segment]


class Compiled(WorkerMessage, frozen=True):
    """The grammar a Generate may carry."""

    id: int
    grammar: str


class Failed(WorkerMessage, frozen=True):
    """Request `id` ended without a result."""

    id: int
    code: Literal["cancelled", "bad_input", "engine"]
    reason: str


class Pong(WorkerMessage, frozen=True):
    id: int


Last = Vectors | Finished | Tokens | Rendered | Compiled | Failed | Pong
Reply = Ready | LoadFailed | Delta | Last

_SMALLEST_NUMBER, _LARGEST_NUMBER = -(2**63), 2**64 - 1  # what MessagePack can carry

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class ProtocolError(Exception):
    """The other side sent something that is not a message of this version."""


def encode_frame(message: WorkerMessage) -> bytes:
    """The message as it goes on the socket. Raises ProtocolError when it is too large for a frame, or holds
    what no message can: half a character, a number of more than 64 bits."""
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise ProtocolError(f"{half!r} is half a character; remove it") from error
    except OverflowError as error:
        raise ProtocolError(f"{oversized(message) or error}; give a number of at most 63 bits") from error
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is above the limit of {MAX_FRAME_BYTES}; send less text")
    return _LENGTH.pack(len(body)) + body


def oversized(message: msgspec.Struct) -> str:
    """Which number, in it or in a struct it holds, has more than 64 bits; "" when none has."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, int) and not _SMALLEST_NUMBER <= value <= _LARGEST_NUMBER:
            return f"{name} is {value}"
        if isinstance(value, msgspec.Struct) and (found := oversized(value)):
            return found
    return ""


def frame_length(header: bytes) -> int:
    """Bytes that follow a frame's header. Raises ProtocolError above the limit."""
    (length,) = _LENGTH.unpack(header)
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes is above the limit of {MAX_FRAME_BYTES}")
    return int(length)


def decode_request(body: bytes) -> Request:
    """Raises ProtocolError for anything but a request."""
    try:
        return _requests.decode(body)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a request of protocol {PROTOCOL_VERSION}: {error}") from error


def decode_reply(body: bytes) -> Reply:
    """Raises ProtocolError for anything but a reply."""
    try:
        return _replies.decode(body)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a reply of protocol {PROTOCOL_VERSION}: {error}") from error
