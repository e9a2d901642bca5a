"""Who gets how many tokens of the next decode step. Pure.

Every sequence that decodes gets its one token; what is left goes to prompts, the most urgent first, in chunks that are
small while others decode (they wait for the whole step) and large when nobody does.
"""

from collections.abc import Sequence

import msgspec

SHARED_CHUNK_TOKENS = 64


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What one sequence has to evaluate: 1 pending token means that it decodes. `rank` orders prompts."""

    pending: int
    rank: tuple[int, int]
    prefilling: bool


def plan_step(wants: Sequence[Want], lone_chunk: int) -> list[int]:
    """Tokens per sequence, in the order given; never more in all than the prompts' chunk plus one per decoder."""
    counts = [0 if want.prefilling else 1 for want in wants]
    budget = min(SHARED_CHUNK_TOKENS, lone_chunk) if any(counts) else lone_chunk
    for index in sorted(range(len(wants)), key=lambda index: wants[index].rank):
        if wants[index].prefilling:
            counts[index] = min(wants[index].pending, budget)
            budget -= counts[index]
    return counts
