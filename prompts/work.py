"""Room for what the stages of a turn wrote: whole where it fits, else the longest of it made shorter (GCP 4.2).

Short work stays as it is, also byte for byte, so that a later stage's prompt begins like the one before it; only items
longer than an equal share of the room give way. What cannot be summarised is cut, with the same tag in front.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gaiad.base.errors import TokenBudgetError
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import Segment
from prompts.budget import TAIL_TOKENS
from prompts.compress import Compressor
from prompts.counting import PacketWriter, PromptCounter, WrittenPacket
from prompts.messages import work_segments
from prompts.packet import SUMMARY_TAG, CognitionPacket, FieldReport, Method, WorkItem

SMALLEST_WORK = 16
AGAIN_PERCENT = 75
FENCE_TOKENS = 48
_WHOLE: Method = "whole"


def work_room(written_tokens: Iterable[int]) -> int:
    """Tokens to hold free for stages that may write so many each: their fences and the longer tails counted in."""
    stages = list(written_tokens)
    return sum(stages) + FENCE_TOKENS * len(stages) + TAIL_TOKENS if stages else 0


class FittedWork(NamedTuple):
    """Items as they go in, what they cost now and cost whole, fences included, and how they came to fit."""

    items: list[WorkItem]
    tokens: int
    original_tokens: int
    method: Method


NO_WORK = FittedWork([], 0, 0, _WHOLE)


class _Fitted(NamedTuple):
    item: WorkItem
    tokens: int
    method: Method


class Placed(NamedTuple):
    """A packet with its work in it."""

    written: WrittenPacket
    work: FittedWork


class WorkFitter:
    """Fits one packet's work; may be asked again with less room, and asks no model twice for what it has."""

    def __init__(
        self, tokenizer: Tokenizer, compressor: Compressor | None, call: RequestContext, counter: PromptCounter
    ) -> None:
        self._tokenizer = tokenizer
        self._compressor = compressor
        self._call = call
        self._counter = counter
        self._shortened: dict[WorkItem, _Fitted] = {}
        self._given_up: set[WorkItem] = set()

    async def whole(self, work: Sequence[WorkItem]) -> FittedWork:
        """All of it as it is."""
        tokens = sum(await self._costs(work))
        return FittedWork([*work], tokens, tokens, "whole")

    async def fit(self, work: Sequence[WorkItem], room: int) -> FittedWork | None:
        """At most `room` tokens; None when that is too little to say anything. Raises as tokenizer and embedder do."""
        costs = await self._costs(work)
        most = equal_share(costs, room)
        texts = await self._counter.count(self._tokenizer, [[Segment(item.text)] for item in work], self._call)
        targets = [most - (cost - text) for cost, text in zip(costs, texts, strict=True)]
        if any(cost > most and target < SMALLEST_WORK for cost, target in zip(costs, targets, strict=True)):
            return None
        items: list[WorkItem] = []
        tokens, used = 0, _WHOLE
        for item, cost, target in zip(work, costs, targets, strict=True):
            fitted = _Fitted(item, cost, used) if cost <= most else await self._shorter(item, target, most)
            if fitted is None:
                return None
            items.append(fitted.item)
            tokens, used = tokens + fitted.tokens, fitted.method
        return FittedWork(items, tokens, sum(costs), used) if tokens <= room else None

    async def _shorter(self, item: WorkItem, target: int, most: int) -> _Fitted | None:
        """The item with a text of about `target` tokens, at most `most` with its fence."""
        known = self._shortened.get(item)
        if known and known.tokens <= most:
            return known
        if known:  # with room to spare, so that it stays short enough as the packet shrinks towards what fits
            target = max(SMALLEST_WORK, target * AGAIN_PERCENT // 100)
        while target >= SMALLEST_WORK:
            text, method = await self._summary(item, target)
            short = msgspec.structs.replace(item, text=text, summary=True)
            (now,) = await self._costs([short])
            if text and now <= most:
                self._shortened[item] = _Fitted(short, now, method)
                return self._shortened[item]
            target = target - (now - most) if text else 0
        return None

    async def _summary(self, item: WorkItem, target: int) -> tuple[str, Method]:
        """The ladder's summary; where the ladder has failed once, the beginning of the text."""
        text = item.text.removeprefix(f"{SUMMARY_TAG} ")
        if self._compressor and item not in self._given_up:
            try:
                found = await self._compressor.summarize_field("work", text, target, self._tokenizer, self._call)
                return found.text, found.method
            except TokenBudgetError:  # reported by the compressor; the manifest says that it was cut
                self._given_up.add(item)
        return await self._cut(text, target), "trimmed"

    async def _cut(self, text: str, target: int) -> str:
        """The tag and as much of the text's beginning as fits; "" when none does."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            (tokens,) = await self._count([Segment(_tagged(text[:middle]))])
            low, high = (middle, high) if tokens <= target else (low, middle - 1)
        return _tagged(text[:low]) if low else ""

    async def _costs(self, work: Sequence[WorkItem]) -> list[int]:
        texts = [work_segments(item) for item in work]
        return await self._counter.count(self._tokenizer, texts, self._call) if texts else []

    async def _count(self, text: Sequence[Segment]) -> list[int]:
        return await self._tokenizer.count([text], self._call)


async def place_work(
    packet: CognitionPacket, work: Sequence[WorkItem], writer: PacketWriter, fitter: WorkFitter
) -> Placed | None:
    """The packet with the work in it, within its MTU to the token; None when there is no room even for a summary."""
    fitted: FittedWork | None = await fitter.whole(work)
    most: int | None = None
    while fitted is not None:
        written = await writer.write(msgspec.structs.replace(packet, work=fitted.items))
        room = packet.mtu - (written.tokens - fitted.tokens)
        if fitted.tokens <= room:
            return Placed(written, fitted)
        most = room if most is None else min(room, most - 1)
        fitted = await fitter.fit(work, most)
    return None


def work_rows(work: FittedWork, held_tokens: int, free_tokens: int) -> list[FieldReport]:
    """Work's row of the token table, none where there is neither work nor room held for it; its limit is the rest."""
    if not work.items and not held_tokens:
        return []
    return [
        FieldReport(
            field="work",
            limit=work.tokens + free_tokens,
            original_tokens=work.original_tokens,
            tokens=work.tokens,
            method=work.method,
        )
    ]


def equal_share(costs: Sequence[int], room: int) -> int:
    """The most that each item may have so that together they have `room`: what short ones leave, long ones share."""
    left = room
    for index, cost in enumerate(sorted(costs)):
        share = left // (len(costs) - index)
        if cost > share:
            return share
        left -= cost
    return max(costs, default=room)


def _tagged(text: str) -> str:
    return f"{SUMMARY_TAG} {text.rstrip()}"
