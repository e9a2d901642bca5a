"""Tokenizers for models that have no vocabulary here.

`WordTokenizer` is exact by definition: what the extractive and the scripted model count as tokens are words and
punctuation marks. `ByteEstimate` is for a remote model without a tokenizer.json. Vocabularies of the byte-level and
byte-fallback kinds spend at most one token on a byte and one on a beginning, so the number of bytes and one is never
too low for them (it is about four times too high for English). One that first rewrites compatibility characters
(NFKC) can exceed it; give such a model its tokenizer.json.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.wire.generation import ChatMessage, Segment

_WORD = re.compile(r"\w+|[^\w\s]")
_ID_BYTES = 4
BYTES_PER_TOKEN = 3
_BEGINNING = 1


def count_words(text: str) -> int:
    """Words and punctuation marks in `text`."""
    return sum(1 for _ in _WORD.finditer(text))


class WordCount:
    """Words and punctuation marks of a text that comes in pieces."""

    def __init__(self) -> None:
        self._whole = 0
        self._open = ""  # what follows the last blank: a word may go on

    def feed(self, text: str) -> int:
        """As `count_words` of everything so far."""
        head, blank, rest = text.rpartition(" ")
        if blank:
            self._whole += count_words(self._open + head)
            self._open = rest
        else:
            self._open += text
        return self._whole + count_words(self._open)


def cut_words(text: str, limit: int) -> str:
    """The beginning of `text` with at most `limit` words and punctuation marks, white space between them kept."""
    for number, match in enumerate(_WORD.finditer(text)):
        if number == limit:
            return text[: match.start()].rstrip()
    return text


def joined(segments: Sequence[Segment]) -> str:
    """The text of the segments in one piece."""
    return "".join(segment.text for segment in segments)


def role_lines(messages: Sequence[ChatMessage]) -> list[Segment]:
    """A conversation as lines `role: text`, up to where the reply begins; what no chat template says otherwise."""
    lines: list[Segment] = []
    for message in messages:
        lines += (Segment(f"{message.role}: ", trusted=True), *message.content, Segment("\n", trusted=True))
    return [*lines, Segment("assistant: ", trusted=True)]


class WordTokenizer:
    """The Tokenizer port where a token is a word or a punctuation mark."""

    fingerprint = "words:1"
    exact = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """Words and punctuation marks of each text. Raises DeadlineExceeded, Cancelled."""
        call.check(self._clock.monotonic())
        return [count_words(joined(text)) for text in texts]

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        """A number for each word or mark, always the same for the same word; no token marks the beginning."""
        call.check(self._clock.monotonic())
        return [_number(match.group()) for match in _WORD.finditer(joined(segments))]

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        """Lines of role and text."""
        call.check(self._clock.monotonic())
        return role_lines(messages)


class ByteEstimate:
    """The Tokenizer port of a remote model whose vocabulary nobody gave us: cautious counts, no token ids.

    A token for every three bytes: prose in English takes one for four or more, in other alphabets one for about three.
    Noise can take more, so this is not a bound; `tokenizer` in the model's settings makes counts exact.
    """

    fingerprint = "bytes:2"
    exact = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """A third of each text's bytes in UTF-8, and one for a beginning; 0 for an empty one."""
        call.check(self._clock.monotonic())
        sizes = (len(joined(text).encode("utf-8", "surrogatepass")) for text in texts)
        return [-(-size // BYTES_PER_TOKEN) + _BEGINNING if size else 0 for size in sizes]

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        """Raises BadInput: tokens need a vocabulary."""
        raise BadInput(
            f"a prompt of {len(segments)} parts cannot be encoded without the model's vocabulary; "
            "set tokenizer to its tokenizer.json"
        )

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        """Lines of role and text: the real template is the server's own."""
        call.check(self._clock.monotonic())
        return role_lines(messages)


def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest())


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
