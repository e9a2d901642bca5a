"""History and retrieved context of a packet: which turns and pages stay, where, and within which limit (decision 6).

A model reads again only what comes after the first difference to the last prompt. So history is not cut again at every
turn: when it no longer fits, a whole block of its oldest turns leaves, down to a low mark, and the rest stays as it is
until it has grown to the limit again. A summary of the block may take its place, made once and carried along. A page
that stays relevant stays before the turn it was first fetched for. A turn or page larger than all the room is
shortened.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from gaiad.base.errors import TokenBudgetError
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import Segment
from prompts.budget import BuildRequest, Shares, share
from prompts.compress import Compressed, Compressor
from prompts.fence import fenced, said_before
from prompts.packet import CognitionPacket, ContextItem, Field, HistoryEntry, Method

LOW_PERCENT = 50
WIDEN_PERCENT = 35


class HistoryTurn(NamedTuple):
    """Entries of one turn, in order; `tokens` with what the chat template spends on them."""

    turn_id: str
    entries: list[HistoryEntry]
    tokens: int


def group_turns(entries: Sequence[HistoryEntry], tokens: Sequence[int]) -> list[HistoryTurn]:
    """Neighbours with the same turn id together; `tokens` is the cost of each entry."""
    turns: list[HistoryTurn] = []
    for entry, cost in zip(entries, tokens, strict=True):
        if turns and turns[-1].turn_id == entry.turn_id:
            turns[-1] = HistoryTurn(entry.turn_id, [*turns[-1].entries, entry], turns[-1].tokens + cost)
        else:
            turns.append(HistoryTurn(entry.turn_id, [entry], cost))
    return turns


def first_kept(costs: Sequence[int], limit: int, before: int | None = None) -> int:
    """The index of the oldest turn that stays, `len(costs)` when none fits; what stays costs at most `limit`.

    `before` is the answer at the previous turn: it stays while it fits, unless so little would stand there that a
    wider view is worth a new beginning.
    """
    kept = [*accumulate(reversed(costs), initial=0)][::-1]
    stays = before is not None and before < len(costs) and kept[before] <= limit
    if before is not None and stays and (before == 0 or kept[before] * 100 >= limit * WIDEN_PERCENT):
        return before
    if kept[0] <= limit:
        return 0
    low = limit * LOW_PERCENT // 100
    start = next(index for index, tokens in enumerate(kept) if tokens <= low)
    return len(costs) - 1 if start == len(costs) and costs[-1] <= limit else start


def choose_pages(costs: Sequence[int], limit: int) -> list[int]:
    """Indexes of the pages that stay, best first; one that does not fit is passed over for a smaller one after it."""
    chosen: list[int] = []
    left = limit
    for index, cost in enumerate(costs):
        if cost <= left:
            chosen.append(index)
            left -= cost
    return chosen


def place_pages(
    pages: Sequence[ContextItem], previous: CognitionPacket | None, turn_id: str, kept_turns: frozenset[str]
) -> list[ContextItem]:
    """The pages in the order they are written: those of the previous packet where they stood, then new ones by rank.

    `kept_turns` are the turns whose question is in the prompt; a page before any other comes to this turn.
    """
    old = [] if previous is None else [_anchored(item, previous, turn_id) for item in previous.context]
    wanted = {(item.page_id, item.text): item for item in pages}
    stayed = {key: item.before_turn for item in old if (key := (item.page_id, item.text)) in wanted}
    held = [_before(wanted[key], turn) for key, turn in stayed.items() if turn in kept_turns]
    moved = [_before(wanted[key], "") for key, turn in stayed.items() if turn not in kept_turns]
    fresh = [_before(item, "") for key, item in wanted.items() if key not in stayed]
    return [*held, *moved, *fresh]


def _anchored(item: ContextItem, previous: CognitionPacket, turn_id: str) -> ContextItem:
    """A page of the previous turn itself now is before that turn's question."""
    is_earlier = not item.before_turn and previous.turn_id != turn_id
    return _before(item, previous.turn_id) if is_earlier else item


def _before(item: ContextItem, turn_id: str) -> ContextItem:
    return item if item.before_turn == turn_id else msgspec.structs.replace(item, before_turn=turn_id)


SUMMARY_PERCENT = 25
SMALLEST_SUMMARY = 32
AGAIN_PERCENT = 75


class Payload(NamedTuple):
    """What goes into the packet; `dropped` has the turn ids and page ids whose own words do not."""

    shares: Shares
    history: list[HistoryEntry]
    context: list[ContextItem]
    history_tokens: int
    context_tokens: int
    history_method: Method
    context_method: Method
    dropped: list[str]


class Offered(NamedTuple):
    """All there is: turns and pages with their costs; `overhead` is what the chat template spends on a message."""

    turns: list[HistoryTurn]
    page_costs: list[int]
    overhead: int


class PayloadChooser:
    """Chooses for one request; may be asked again with a smaller limit."""

    def __init__(
        self,
        request: BuildRequest,
        offered: Offered,
        tokenizer: Tokenizer,
        compressor: Compressor | None,
        call: RequestContext,
    ) -> None:
        self._request = request
        self._offered = offered
        self._tokenizer = tokenizer
        self._compressor = compressor
        self._call = call
        self._outcomes: dict[tuple[Field, str], Compressed | None] = {}

    async def choose(self, limit: int) -> Payload:
        """At most `limit` tokens, as estimated from the parts. Raises as tokenizer and embedder do."""
        turns, costs = self._offered.turns, self._offered.page_costs
        shares = share(limit, sum(turn.tokens for turn in turns), sum(costs))
        pages, context_tokens, context_method = await self._pages(shares.context)
        history, history_method, start = await self._history(shares.history)
        asked = frozenset(entry.turn_id for entry in history if entry.role == "user" and not entry.summary)
        placed = self._placed(pages, turns[start:], asked)
        kept = {page.page_id for page in placed}
        whole = dict(zip((page.page_id for page in self._request.context), costs, strict=True))
        gone = [page for page in pages if page.page_id not in kept]
        context_tokens -= sum(context_tokens if page.summary else whole[page.page_id] for page in gone)
        dropped = [turn.turn_id for turn in turns[:start]]
        stayed = {page.page_id for page in placed if not page.summary}
        dropped += [page.page_id for page in self._request.context if page.page_id not in stayed]
        estimate = sum(turn.tokens for turn in turns[start:])
        return Payload(shares, history, placed, estimate, context_tokens, history_method, context_method, dropped)

    def _placed(
        self, pages: Sequence[ContextItem], standing: Sequence[HistoryTurn], asked: frozenset[str]
    ) -> list[ContextItem]:
        """The pages where they stand; not those of turns that stand in history, nor old ones whose question left it."""
        request, said = self._request, {turn.turn_id for turn in standing}
        placed = place_pages(pages, request.previous, request.turn_id, asked)
        own = request.previous is not None and request.previous.turn_id == request.turn_id
        old = request.context_stays and not own
        return [page for page in placed if page.packet_id not in said and not (old and not page.before_turn)]

    async def _pages(self, limit: int) -> tuple[list[ContextItem], int, Method]:
        pages, costs = self._request.context, self._offered.page_costs
        chosen = choose_pages(costs, limit)
        if chosen or not pages:
            tokens = sum(costs[index] for index in chosen)
            return [pages[index] for index in chosen], tokens, "whole" if len(chosen) == len(pages) else "trimmed"
        best = pages[0]
        fence = costs[0] - (await self._count(best.text))
        short, method = await self._shorter("context", best.text, limit - fence)
        page = msgspec.structs.replace(best, text=short, summary=True)
        tokens = (await self._tokenizer.count([fenced(page)], self._call))[0] if short else 0
        return ([page], tokens, method) if short and tokens <= limit else ([], 0, "trimmed")

    async def _history(self, limit: int) -> tuple[list[HistoryEntry], Method, int]:
        """The entries, how they came to fit, and the index of the first turn that is there in its own words."""
        turns = self._offered.turns
        costs = [turn.tokens for turn in turns]
        before = _start_before(turns, self._request.previous)
        start = first_kept(costs, limit, before)
        if start == 0:
            return [entry for turn in turns for entry in turn.entries], "whole", 0
        room = limit * SUMMARY_PERCENT // 100 if self._compressor else 0
        if room >= SMALLEST_SUMMARY + self._offered.overhead:
            start = first_kept(costs, limit - room, before)
        if start == len(turns):
            entries, method = await self._shortened_turn(turns[-1], limit)
            return entries, method, start
        kept = [entry for turn in turns[start:] for entry in turn.entries]
        summary, method = await self._summary(turns[:start], room - self._offered.overhead)
        return [*summary, *kept], method, start

    async def _summary(self, turns: Sequence[HistoryTurn], limit: int) -> tuple[list[HistoryEntry], Method]:
        """One entry for the turns that left, under the id of the last one; the previous packet's own if it has it."""
        last = turns[-1].turn_id
        known = _summary_before(self._request.previous)
        if known and known.turn_id == last and self._compressor and await self._cost(known) <= limit:
            return [known], "carried"
        text = "\n".join(entry.text for turn in turns for entry in turn.entries)
        tokens = sum(turn.tokens - self._offered.overhead * len(turn.entries) for turn in turns)
        summary = HistoryEntry(turn_id=last, role="user", text="", summary=True)
        short, method = await self._shorter("history", text, limit - await self._cost(summary), tokens)
        return ([msgspec.structs.replace(summary, text=short)] if short else []), method

    async def _shortened_turn(self, turn: HistoryTurn, limit: int) -> tuple[list[HistoryEntry], Method]:
        """The last turn when it alone is larger than the room, each side by its share; none where that is too small."""
        room = limit - self._offered.overhead * len(turn.entries)
        room -= await self._cost(HistoryEntry(turn_id=turn.turn_id, role="user", text="", summary=True))
        sizes = [await self._count(entry.text) for entry in turn.entries]
        entries: list[HistoryEntry] = []
        used: Method = "trimmed"
        for entry, size in zip(turn.entries, sizes, strict=True):
            short, method = await self._shorter("history", entry.text, room * size // max(1, sum(sizes)))
            if short:
                entries.append(msgspec.structs.replace(entry, text=short, summary=True))
                used = method
        return entries, used

    async def _shorter(self, field: Field, text: str, limit: int, tokens: int | None = None) -> tuple[str, Method]:
        """A summary within `limit`, or "" when there is none: history and context may be left out (GCP 4.1).

        The models are asked once for a text, whatever came of it, and again only for a summary that is too long by now;
        then with room to spare, so that it stays short enough as the packet shrinks towards what fits.
        """
        if self._compressor is None or limit < SMALLEST_SUMMARY:
            return "", "trimmed"
        found = self._outcomes.get((field, text))
        if (field, text) not in self._outcomes or (found and found.tokens > limit):
            target = limit if found is None else max(SMALLEST_SUMMARY, limit * AGAIN_PERCENT // 100)
            found = self._outcomes[field, text] = await self._climb(self._compressor, field, text, target, tokens)
        return (found.text, found.method) if found else ("", "trimmed")

    async def _climb(
        self, compressor: Compressor, field: Field, text: str, target: int, tokens: int | None
    ) -> Compressed | None:
        try:
            return await compressor.summarize_field(field, text, target, self._tokenizer, self._call, tokens)
        except TokenBudgetError:  # reported by the compressor; the manifest names what was dropped
            return None

    async def _cost(self, entry: HistoryEntry) -> int:
        """Tokens of an entry as it is written."""
        return (await self._tokenizer.count([said_before(entry)], self._call))[0]

    async def _count(self, text: str) -> int:
        return (await self._tokenizer.count([[Segment(text)]], self._call))[0]


def _start_before(turns: Sequence[HistoryTurn], previous: CognitionPacket | None) -> int | None:
    """Where the previous packet's history began, in these turns."""
    if previous is None:
        return None
    first = next((entry.turn_id for entry in previous.history if not entry.summary), None)
    return next((index for index, turn in enumerate(turns) if turn.turn_id == first), None)


def _summary_before(previous: CognitionPacket | None) -> HistoryEntry | None:
    """The block's summary at the head of the previous packet's history, when words of the session follow it."""
    entries = [] if previous is None else previous.history[:2]
    return entries[0] if len(entries) == 2 and entries[0].summary and not entries[1].summary else None
