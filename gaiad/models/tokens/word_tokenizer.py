"""Tokenizers for models that have no vocabulary here.

`WordTokenizer` is exact by definition: what the extractive and the scripted model count as tokens are words and
punctuation marks. `ByteEstimate` is for a remote model without a tokenizer.json. Vocabularies of the byte-level and
byte-fallback kinds spend at most one token on a byte and one on a beginning, so the number of bytes and one is never
too low for them (it is about four times too high for English). One that first rewrites compatibility characters
(NFKC) can exceed it; give such a model its tokenizer.json.
"""

import hashlib
import re
from collections.abc import Sequence

from gaiad.clock import Clock
from gaiad.errors import BadInput
from gaiad.generation import ChatMessage, Segment
from gaiad.ports import Call

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

    async def count(self, texts: Sequence[Sequence[Segment]], call: Call) -> list[int]:
        """Words and punctuation marks of each text. Raises DeadlineExceeded, Cancelled."""
        call.check(self._clock.monotonic())
        return [count_words(joined(text)) for text in texts]

    async def encode(self, segments: Sequence[Segment], call: Call) -> list[int]:
        """A number for each word or mark, the same for the same word always; there is no beginning of its own."""
        call.check(self._clock.monotonic())
        return [_number(match.group()) for match in _WORD.finditer(joined(segments))]

    async def render(self, messages: Sequence[ChatMessage], call: Call) -> list[Segment]:
        """Lines of role and text."""
        call.check(self._clock.monotonic())
        return role_lines(messages)


class ByteEstimate:
    """The Tokenizer port of a remote model whose vocabulary nobody gave us: cautious counts, no token ids.

    A token for every three bytes: prose in English takes one for four or more, in other alphabets one for about three.
    Noise can take more, so this is no bound; `tokenizer` in the model's settings makes counts exact.
    """

    fingerprint = "bytes:2"
    exact = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def count(self, texts: Sequence[Sequence[Segment]], call: Call) -> list[int]:
        """A third of each text's bytes in UTF-8, and one for a beginning; 0 for an empty one."""
        call.check(self._clock.monotonic())
        sizes = (len(joined(text).encode("utf-8", "surrogatepass")) for text in texts)
        return [-(-size // BYTES_PER_TOKEN) + _BEGINNING if size else 0 for size in sizes]

    async def encode(self, segments: Sequence[Segment], call: Call) -> list[int]:
        """Raises BadInput: without a vocabulary there are no tokens."""
        raise BadInput(
            f"a prompt of {len(segments)} parts cannot be encoded without the model's vocabulary; "
            "set tokenizer to its tokenizer.json"
        )

    async def render(self, messages: Sequence[ChatMessage], call: Call) -> list[Segment]:
        """Lines of role and text: the real template is the server's own."""
        call.check(self._clock.monotonic())
        return role_lines(messages)


def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest())
