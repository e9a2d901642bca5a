"""An answer within the tokens it may have (JIT's maxOutputTokens): whole quotes, sentences or packets are left out from
its end, so that the same run under the same limit gives the same answer, and none is cut in two. Pure.
"""

from collections.abc import Callable

import msgspec

from gaiad.research.answer import Answer
from gaiad.research.listing import Listing

BYTES_PER_TOKEN = 3  # fewer than vocabularies need for prose, so that the estimate is too high and not too low


def tokens_of(text: str) -> int:
    """A cautious estimate, whichever model reads it."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def within(limit: int, most: int, make: Callable[[int], Answer]) -> Answer:
    """`make(most)`, or of the answers with fewer parts the longest of at most `limit` tokens; 0 is no limit.

    One part stays in any case, for an answer without evidence would be none; a note says that it does not fit.
    """
    answer = make(most)
    for kept in range(most - 1, 0, -1):
        if not limit or tokens_of(answer.text) <= limit:
            break
        answer = make(kept)
    if not limit or tokens_of(answer.text) <= limit:
        return answer
    note = f"Not even one part fits into max_output_tokens = {limit}; it is given whole."
    return msgspec.structs.replace(answer, notes=(note, *answer.notes))


def first_packets(listing: Listing, kept: int) -> Listing:
    """The listing of its first `kept` packets."""
    if kept == len(listing.packets):
        return listing
    packets = listing.packets[:kept]
    leads = {one.packet_id: listing.leads[one.packet_id] for one in packets if one.packet_id in listing.leads}
    return msgspec.structs.replace(listing, packets=packets, leads=leads)
