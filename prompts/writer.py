"""Writes packets as one model's chat template has them, and counts what it wrote."""

from typing import NamedTuple

import msgspec

from gaiad.generation import ChatMessage, Segment
from gaiad.ports import Call, Tokenizer
from prompts.counting import NEAR_TOKENS, PromptCounter
from prompts.messages import messages_of
from prompts.packet import CognitionPacket

_SAMPLE_PROMPT = "x"


class Written(NamedTuple):
    """A packet as it is sent; `tokens` is the whole prompt, the model's own beginning included."""

    packet: CognitionPacket
    messages: list[ChatMessage]
    rendered: list[Segment]
    tokens: int


class PacketWriter:
    """For one tokenizer and one call; what `counter` knows it is not asked again."""

    def __init__(self, tokenizer: Tokenizer, counter: PromptCounter, call: Call) -> None:
        self._tokenizer = tokenizer
        self._counter = counter
        self._call = call

    async def write(self, packet: CognitionPacket) -> Written:
        messages = messages_of(packet)
        rendered = await self._tokenizer.render(messages, self._call)
        tokens = await self._counter.prompt_tokens(self._tokenizer, rendered, packet.mtu, self._call)
        return Written(packet, messages, rendered, tokens)

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
    return (packet.identity, packet.persona, packet.role_text, packet.task_instruction)
