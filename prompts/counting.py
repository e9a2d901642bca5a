"""What a rendered prompt costs, to the token, without reading all of it again at every turn.

A tokenizer reads segments apart; how one is read depends at most on how the one before it ends. So a prompt is counted
as a chain: each segment with the end of its predecessor, less that end. Counts are remembered: a new turn costs its own
text. Where the sum comes near the MTU the prompt is also counted as a whole, and that count holds. Texts are remembered
by their digests, so that what is remembered stays small whatever was counted.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from gaiad.generation import ChatMessage, Segment
from gaiad.ports import Call, Tokenizer

NEAR_TOKENS = 64
_END_CHARACTERS = 24
_SAMPLE = [Segment("x")]
_MOST_KNOWN = 256
_MOST_COUNTS = 16_384
_Key = TypeVar("_Key")


class PromptCounter:
    """Counts prompts for any tokenizer and remembers of each what never changes; keep one for as long as you like."""

    def __init__(self) -> None:
        self._beginnings: dict[bytes, int] = {}
        self._overheads: dict[str, int] = {}
        self._frames: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}

    async def count(self, tokenizer: Tokenizer, texts: Sequence[Sequence[Segment]], call: Call) -> list[int]:
        """As the tokenizer's own `count`, which is asked once for all that is not remembered."""
        keys = [_digest(tokenizer, text) for text in texts]
        found = [self._counts.get(key) for key in keys]
        missing = {key: text for key, text, count in zip(keys, texts, found, strict=True) if count is None}
        fresh = dict(zip(missing, await tokenizer.count(list(missing.values()), call), strict=True))
        for key, count in fresh.items():
            _remember(self._counts, key, count, _MOST_COUNTS)
        return [fresh[key] if count is None else count for key, count in zip(keys, found, strict=True)]

    async def prompt_tokens(self, tokenizer: Tokenizer, rendered: Sequence[Segment], mtu: int, call: Call) -> int:
        """Tokens of the prompt, the model's own beginning included; raises as the tokenizer does."""
        parts = [segment for segment in rendered if segment.text]
        if not parts:
            return 0
        if not tokenizer.exact:
            return (await tokenizer.count([parts], call))[0]
        first = await self._first_tokens(tokenizer, parts[0], call)
        chain: list[list[Segment]] = [parts[:1]]
        for before, part in pairwise(parts):
            end = _end(before)
            chain += ([end], [end, part])
        counts = await self.count(tokenizer, chain, call)
        total = first + sum(counts[2::2]) - sum(counts[1::2])
        if total <= mtu - NEAR_TOKENS:
            return total
        return first - counts[0] + (await tokenizer.count([parts], call))[0]

    async def message_overhead(self, tokenizer: Tokenizer, call: Call) -> int:
        """Tokens the chat template spends on one more message of a conversation, rounded up."""
        known = self._overheads.get(tokenizer.fingerprint)
        if known is not None:
            return known
        opening = [ChatMessage(role="system", content=_SAMPLE), ChatMessage(role="user", content=_SAMPLE)]
        turn = [ChatMessage(role="assistant", content=_SAMPLE), ChatMessage(role="user", content=_SAMPLE)]
        short = await tokenizer.render(opening, call)
        long = await tokenizer.render([*opening, *turn], call)
        few, many, one = await tokenizer.count([short, long, _SAMPLE], call)
        found = max(0, -(-(many - few - 2 * one) // 2))
        _remember(self._overheads, tokenizer.fingerprint, found, _MOST_KNOWN)
        return found

    def frame_tokens(self, tokenizer: Tokenizer, frame: Sequence[str]) -> int | None:
        """What stands around a prompt costs, None when it was not remembered; see `PacketWriter`."""
        return self._frames.get(_digest(tokenizer, map(Segment, frame)))

    def remember_frame(self, tokenizer: Tokenizer, frame: Sequence[str], tokens: int) -> int:
        """It costs `tokens`."""
        _remember(self._frames, _digest(tokenizer, map(Segment, frame)), tokens, _MOST_KNOWN)
        return tokens

    async def _first_tokens(self, tokenizer: Tokenizer, segment: Segment, call: Call) -> int:
        """Tokens of the first segment with the model's own beginning before it."""
        key = _digest(tokenizer, [segment])
        known = self._beginnings.get(key)
        if known is None:
            known = len(await tokenizer.encode([segment], call))
            _remember(self._beginnings, key, known, _MOST_KNOWN)
        return known


def _digest(tokenizer: Tokenizer, parts: Iterable[Segment]) -> bytes:
    """What a count depends on: who counts, and each part with whether its control tokens are read as such."""
    digest = hashlib.blake2b(tokenizer.fingerprint.encode(), digest_size=16)
    for part in parts:
        text = part.text.encode("utf-8", "surrogatepass")
        digest.update(b"%d %d " % (part.trusted, len(text)))
        digest.update(text)
    return digest.digest()


def _remember(known: dict[_Key, int], key: _Key, value: int, most: int) -> None:
    while len(known) >= most:
        del known[next(iter(known))]
    known[key] = value


def _end(segment: Segment) -> Segment:
    """What the next segment can see of this one; trusted text whole, for a control token may be all of it."""
    if segment.trusted or len(segment.text) <= _END_CHARACTERS:
        return segment
    return Segment(segment.text[-_END_CHARACTERS:], source=segment.source)
