"""What the daemon and a model's child process say to each other over a socketpair.

Frames: four bytes of length, big endian, then one message in MessagePack. Messages are tagged structs, so a later
engine adds its own without touching the others. Vectors travel as raw little-endian float32. No input or output here.
"""

import struct
from typing import Literal

import msgspec

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")
HEADER_BYTES = _LENGTH.size


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all; the tag is the struct's name."""


# ------------------------------------------------------------------------------------------------- to the worker


class Load(Message, frozen=True):
    """First message: which engine on which file. `threads` 0 is one per core; `batch_tokens` is the aim per batch."""

    version: int
    engine: Literal["embed"]
    path: str
    threads: int
    batch_tokens: int


class Embed(Message, frozen=True):
    """Texts to unit vectors. A smaller `priority` goes first and interrupts a larger one that is running."""

    id: int
    texts: list[str]
    priority: int


class Cancel(Message, frozen=True):
    """Drop request `id`, running or waiting; it is answered with Failed, code cancelled."""

    id: int


class Ping(Message, frozen=True):
    """Answered with Pong by the engine's own thread, between two batches."""

    id: int


class Stop(Message, frozen=True):
    """Finish nothing, free the model, exit 0."""


Request = Load | Embed | Cancel | Ping | Stop


# ----------------------------------------------------------------------------------------------- from the worker


class Ready(Message, frozen=True):
    """The model is loaded. `dimension` is the vector's width, `window` the tokens one pass may hold."""

    version: int
    pid: int
    dimension: int
    window: int


class LoadFailed(Message, frozen=True):
    """The file cannot be used; `reason` names it. The worker exits after this."""

    reason: str


class Vectors(Message, frozen=True):
    """`data` is float32, row after row, `count` rows of `dimension`; `tokens` is what the model really read."""

    id: int
    count: int
    dimension: int
    tokens: int
    data: bytes


class Failed(Message, frozen=True):
    """Request `id` ended without a result."""

    id: int
    code: Literal["cancelled", "bad_input", "engine"]
    reason: str


class Pong(Message, frozen=True):
    id: int


Reply = Ready | LoadFailed | Vectors | Failed | Pong

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


class ProtocolError(Exception):
    """The other side sent something that is no message of this version."""


def encode_frame(message: Message) -> bytes:
    """The message as it goes on the socket. Raises ProtocolError when it is larger than a frame may be."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is above the limit of {MAX_FRAME_BYTES}; send fewer texts")
    return _LENGTH.pack(len(body)) + body


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
