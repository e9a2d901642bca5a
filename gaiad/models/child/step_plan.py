"""Who gets how many tokens of the next decode step. Pure.

Every sequence that decodes gets its one token; what is left goes to prompts, the most urgent first, in chunks that are
small while others decode (they wait for the whole step) and large when nobody does. Background work does not write
while a person's prompt is read: the person waits for the first word.
"""

from collections.abc import Sequence

import msgspec


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What one sequence has to evaluate: 1 pending token means that it decodes. `rank` is priority and arrival."""

    pending: int
    rank: tuple[int, int]
    prefilling: bool


def plan_step(wants: Sequence[Want], lone_chunk: int, shared_chunk: int) -> list[int]:
    """Tokens per sequence, in the order given; never more in all than the prompts' chunk plus one per decoder."""
    urgent = min((want.rank[0] for want in wants if want.prefilling), default=None)
    counts = [int(not want.prefilling and (urgent is None or want.rank[0] <= urgent)) for want in wants]
    budget = shared_chunk if any(counts) else lone_chunk
    for index in sorted(range(len(wants)), key=lambda index: wants[index].rank):
        if wants[index].prefilling:
            counts[index] = min(wants[index].pending, budget)
            budget -= counts[index]
    return counts
