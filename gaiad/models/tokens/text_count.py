"""What counting tokens needs beside a vocabulary: keys of texts, bounded memory of answers, requests of a fair size."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

from gaiad.generation import Segment

REQUEST_TEXTS = 2048
REQUEST_CHARS = 1_000_000
_Value = TypeVar("_Value")


class Remembered(Generic[_Value]):
    """The answers asked for last, at most `limit`; the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[bytes, _Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> _Value | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: bytes, value: _Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._limit:
            self._values.popitem(last=False)


def content_key(fingerprint: str, segments: Sequence[Segment]) -> bytes:
    """A key of 16 bytes over vocabulary, trust and text; where one segment ends and the next begins counts too."""
    digest = hashlib.blake2b(fingerprint.encode(), digest_size=16)
    for segment in segments:
        data = segment.text.encode()
        digest.update(b"%d:%d:" % (segment.trusted, len(data)))
        digest.update(data)
    return digest.digest()


def encodable(text: str) -> str:
    """The text with a question mark for every lone surrogate: such a character has no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clean_segments(segments: Sequence[Segment]) -> list[Segment]:
    """The same segments with text that can be written as UTF-8."""
    return [
        segment if segment.text.isascii() else Segment(encodable(segment.text), segment.trusted, segment.source)
        for segment in segments
    ]


def chunk_texts(items: Sequence[tuple[bytes, list[Segment]]]) -> list[list[tuple[bytes, list[Segment]]]]:
    """Requests small enough to be asked again cheaply; a huge text gets one of its own."""
    chunks: list[list[tuple[bytes, list[Segment]]]] = []
    chars = 0
    for key, segments in items:
        size = sum(len(segment.text) for segment in segments)
        if not chunks or len(chunks[-1]) >= REQUEST_TEXTS or chars + size > REQUEST_CHARS:
            chunks.append([])
            chars = 0
        chunks[-1].append((key, segments))
        chars += size
    return chunks
