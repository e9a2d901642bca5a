"""Which turns and pages stay and where they stand, so that a prompt's beginning changes seldom (decision 6).

A model reads again only what comes after the first difference to the last prompt. So history is not cut anew at every
turn: when it no longer fits, a whole block of its oldest turns leaves, down to a low mark, and the rest stands still
until it has grown to the limit again. A page that stays relevant stays before the turn it was first fetched for. Pure.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from prompts.packet import CognitionPacket, ContextItem, HistoryEntry

LOW_PERCENT = 50
WIDEN_PERCENT = 35


class Turn(NamedTuple):
    """Entries of one turn, in order; `tokens` with what the chat template spends on them."""

    turn_id: str
    entries: list[HistoryEntry]
    tokens: int


def group_turns(entries: Sequence[HistoryEntry], tokens: Sequence[int]) -> list[Turn]:
    """Neighbours with the same turn id together; `tokens` is the cost of each entry."""
    turns: list[Turn] = []
    for entry, cost in zip(entries, tokens, strict=True):
        if turns and turns[-1].turn_id == entry.turn_id:
            turns[-1] = Turn(entry.turn_id, [*turns[-1].entries, entry], turns[-1].tokens + cost)
        else:
            turns.append(Turn(entry.turn_id, [entry], cost))
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

    `kept_turns` are the turns whose question stands in the prompt; a page before any other comes to this turn.
    """
    old = [] if previous is None else [_anchored(item, previous, turn_id) for item in previous.context]
    wanted = {(item.page_id, item.text): item for item in pages}
    stayed = {key: item.before_turn for item in old if (key := (item.page_id, item.text)) in wanted}
    held = [_before(wanted[key], turn) for key, turn in stayed.items() if turn in kept_turns]
    moved = [_before(wanted[key], "") for key, turn in stayed.items() if turn not in kept_turns]
    fresh = [_before(item, "") for key, item in wanted.items() if key not in stayed]
    return [*held, *moved, *fresh]


def _anchored(item: ContextItem, previous: CognitionPacket, turn_id: str) -> ContextItem:
    """A page of the previous turn itself now stands before that turn's question."""
    is_earlier = not item.before_turn and previous.turn_id != turn_id
    return _before(item, previous.turn_id) if is_earlier else item


def _before(item: ContextItem, turn_id: str) -> ContextItem:
    return item if item.before_turn == turn_id else msgspec.structs.replace(item, before_turn=turn_id)
