"""Writes a packet as the model's chat template has it and counts it to the token, without reading all of it at every
turn.

A tokenizer reads segments apart; how one is read depends at most on how the one before it ends. So a prompt is counted
as a chain: each segment with the end of its predecessor, less that end. Counts are remembered by digest: a new turn
costs its own text. Where the sum comes near the MTU the prompt is also counted as a whole, and that count holds.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import ChatMessage, Segment
from prompts.messages import messages_of
from prompts.packet import CognitionPacket

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

    async def count(self, tokenizer: Tokenizer, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """As the tokenizer's own `count`, which is asked once for all that is not remembered."""
        keys = [_digest(tokenizer, text) for text in texts]
        found = [self._counts.get(key) for key in keys]
        missing = {key: text for key, text, count in zip(keys, texts, found, strict=True) if count is None}
        fresh = dict(zip(missing, await tokenizer.count(list(missing.values()), call), strict=True))
        for key, count in fresh.items():
            _remember(self._counts, key, count, _MOST_COUNTS)
        return [fresh[key] if count is None else count for key, count in zip(keys, found, strict=True)]

    async def prompt_tokens(
        self, tokenizer: Tokenizer, rendered: Sequence[Segment], mtu: int, call: RequestContext
    ) -> int:
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

    async def message_overhead(self, tokenizer: Tokenizer, call: RequestContext) -> int:
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
        """Tokens of what surrounds a prompt, None when it was not remembered; see `PacketWriter`."""
        return self._frames.get(_digest(tokenizer, map(Segment, frame)))

    def remember_frame(self, tokenizer: Tokenizer, frame: Sequence[str], tokens: int) -> int:
        """It costs `tokens`."""
        _remember(self._frames, _digest(tokenizer, map(Segment, frame)), tokens, _MOST_KNOWN)
        return tokens

    async def _first_tokens(self, tokenizer: Tokenizer, segment: Segment, call: RequestContext) -> int:
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


_SAMPLE_PROMPT = "x"


class WrittenPacket(NamedTuple):
    """A packet as it is sent; `tokens` is the whole prompt, the model's own beginning included."""

    packet: CognitionPacket
    messages: list[ChatMessage]
    rendered: list[Segment]
    tokens: int


class PacketWriter:
    """For one tokenizer and one call; what `counter` knows it is not asked again."""

    def __init__(self, tokenizer: Tokenizer, counter: PromptCounter, call: RequestContext) -> None:
        self._tokenizer = tokenizer
        self._counter = counter
        self._call = call

    async def write(self, packet: CognitionPacket) -> WrittenPacket:
        messages = messages_of(packet)
        rendered = await self._tokenizer.render(messages, self._call)
        tokens = await self._counter.prompt_tokens(self._tokenizer, rendered, packet.mtu, self._call)
        return WrittenPacket(packet, messages, rendered, tokens)

    async def bare_tokens(self, packet: CognitionPacket, prompt_tokens: int) -> int:
        """What a packet without history and context costs with its prompt of so many tokens.

        Everything but the prompt stays the same from turn to turn, so that it is measured once, around a sample. Near
        the MTU, where a token decides, the real prompt is written and counted.
        """
        texts = _frame(packet)
        frame = self._counter.frame_tokens(self._tokenizer, texts)
        if frame is None:
            sample = await self.write(msgspec.structs.replace(packet, user_prompt=_SAMPLE_PROMPT))
            (one,) = await self._counter.count(self._tokenizer, [[Segment(_SAMPLE_PROMPT)]], self._call)
            frame = self._counter.remember_frame(self._tokenizer, texts, sample.tokens - one)
        if frame + prompt_tokens <= packet.mtu - NEAR_TOKENS:
            return frame + prompt_tokens
        return (await self.write(packet)).tokens


def _frame(packet: CognitionPacket) -> tuple[str, ...]:
    """The texts around history, context and prompt."""
    return (packet.identity, packet.persona, packet.role_text, packet.feedback, packet.task_instruction)
