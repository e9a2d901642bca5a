"""Which of the packets quoted takes the place of an earlier one: "We changed our mind", "instead of it". Pure."""

from collections.abc import Sequence
from itertools import combinations

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.quotes import Quote
from gaiad.research.sentences import split
from gaiad.research.signs import signs_of


def replacing(quotes: Sequence[Quote]) -> list[Quote]:
    """The quotes that take the place of what another packet's quote says, in the order of time, one of each packet."""
    if not any(_may_change(quote) for quote in quotes):
        return []
    read = [(quote, one) for quote in quotes for one in _read(quote)]
    found = []
    for (quote, one), (other, another) in combinations(read, 2):
        if quote.page.packet_id == other.page.packet_id or not (_changes(one) or _changes(another)):
            continue
        relation = compare(one, another)
        if relation is not None and relation.replaces:
            found.append(quote if relation.replaces == "first" else other)
    of_packet: dict[str, Quote] = {}
    for quote in sorted(found, key=lambda one: (one.page.timestamp, quotes.index(one))):
        of_packet.setdefault(quote.page.packet_id, quote)
    return list(of_packet.values())


def _read(quote: Quote) -> list[Assertion]:
    page = quote.page
    return [read_assertion(one.text, page.timestamp, page.speaker) for one in split(quote.text)]


def _may_change(quote: Quote) -> bool:
    signs = (signs_of(one.text) for one in split(quote.text))
    return any(one.replaces or one.gives_up for one in signs)


def _changes(one: Assertion) -> bool:
    return one.replaces or one.change is not None
