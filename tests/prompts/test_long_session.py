"""A session of 200 turns at the default MTU: what each turn costs, and how much of the prompt stays as it was."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

import pytest

from gaiad.base.ports import RequestContext
from gaiad.models.tokens.json_tokenizer import JsonTokenizer
from gaiad.turn.beside import as_history
from gaiad.wire.generation import ChatMessage, Segment
from prompts.budget import Built
from prompts.builder import build
from prompts.counting import PromptCounter
from prompts.messages import messages_of
from prompts.packet import CognitionPacket, ContextItem
from tests.makers.cognition import build_request, pages, session

TURNS = 200
WORDS = 12
USUAL_CALLS, MOST_CALLS = 3, 6  # of a turn to the tokenizer: more where the payload gives way and is counted again


class Counted:
    """A tokenizer that notes how much text it was given to read."""

    def __init__(self, inner: JsonTokenizer) -> None:
        self.inner = inner
        self.exact = True
        self.fingerprint = inner.fingerprint
        self.characters = 0
        self.calls = 0

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        self.calls += bool(texts)
        self.characters += sum(len(part.text) for text in texts for part in text)
        return await self.inner.count(texts, call)

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        self.calls += 1
        self.characters += sum(len(part.text) for part in segments)
        return await self.inner.encode(segments, call)

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        return await self.inner.render(messages, call)


@pytest.fixture(scope="module")
def bpe(tokenizer_files) -> JsonTokenizer:
    return JsonTokenizer(tokenizer_files["bpe"])


def found(turn: int, every: list[ContextItem]) -> list[ContextItem]:
    """Four pages, one of which is replaced every third turn."""
    first = turn // 3
    return every[first : first + 4]


async def talk(
    tokenizer: Counted, call: RequestContext, every: list[ContextItem], is_told_before: bool = True
) -> list[Built]:
    """The packets of the session's turns, each built with what the one before left."""
    history, counter, previous = session(TURNS, WORDS), PromptCounter(), None
    packets: list[Built] = []
    asked: list[int] = []
    for turn in range(TURNS):
        request = build_request(
            full_id=f"cog_{turn}",
            turn_id=f"t{turn}",
            history=history[: 2 * turn],
            user_prompt=history[2 * turn].text,
            context=found(turn, every),
            previous=previous,
        )
        read, calls = tokenizer.characters, tokenizer.calls
        packets.append(await build(request, tokenizer, None, call, counter))
        previous = packets[-1].packet if is_told_before else None
        if turn > 1:
            fresh = len(history[2 * turn].text) + len(history[2 * turn - 1].text) + 8 * 200
            fresh += 3 * sum(len(page.text) + 100 for page in found(turn, every))
            assert tokenizer.characters - read < 3 * fresh, "the session was read again"
            asked.append(tokenizer.calls - calls)
    assert max(asked) <= MOST_CALLS
    assert sum(calls > USUAL_CALLS for calls in asked) <= TURNS / 5
    return packets


async def reuse(packets: list[Built], bpe: JsonTokenizer, call: RequestContext) -> list[float]:
    """For each turn from the third, which share of the prompt the model has read before.

    After a turn it reads ahead what was said, without role and directive, which stand after history (decision 6).
    """
    history, read = session(TURNS, WORDS), list[str]()
    for turn, one in enumerate(packets):
        messages = messages_of(as_history(one.packet, history[2 * turn + 1].text))
        read.append("".join(part.text for part in await bpe.render(messages, call)))
    prompts = ["".join(part.text for part in one.rendered) for one in packets]
    return [same_beginning(before, now) / len(now) for before, now in zip(read[1:-1], prompts[2:], strict=True)]


def same_beginning(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def beginning(packet: CognitionPacket) -> str:
    return packet.history[0].turn_id if packet.history else ""


async def test_without_context_most_of_the_prompt_stays_and_no_turn_reads_the_session_again(bpe, call) -> None:
    packets = await talk(Counted(bpe), call, [])
    shares = await reuse(packets, bpe, call)
    assert statistics.median(shares) >= 0.85
    assert statistics.mean(shares) >= 0.75
    moves = sum(beginning(one.packet) != beginning(two.packet) for one, two in pairwise(packets))
    assert 5 <= moves <= TURNS / 5
    assert all(one.manifest.total_tokens <= 4096 for one in packets)
    assert len(packets[-1].manifest.dropped) + len({entry.turn_id for entry in packets[-1].packet.history}) == TURNS - 1


async def test_with_pages_that_stay_in_place_more_is_reused_than_with_pages_at_the_end(bpe, call) -> None:
    in_place = statistics.mean(await reuse(await talk(Counted(bpe), call, pages(80)), bpe, call))
    told = await talk(Counted(bpe), call, pages(80), is_told_before=False)
    at_the_end = statistics.mean(await reuse(told, bpe, call))
    assert in_place >= 0.55
    assert in_place > at_the_end + 0.05
