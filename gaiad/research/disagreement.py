"""What an answer says when the packets it quotes disagree, or one of them refines another (GAM 5). Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from itertools import combinations

import msgspec

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.citations import inline, shown
from gaiad.research.contradictions import compare
from gaiad.research.sentences import split
from gaiad.research.synthesis import Statement

NOTES_MAX = 3
_SAID = {"contradiction": "disagree on a", "refinement": "differ, and may both hold, on a"}


class Disagreement(msgspec.Struct, frozen=True):
    """`notes` in words, contradictions first; `contradicts` when there is one."""

    notes: tuple[str, ...]
    contradicts: bool


def find_disagreement(statements: Sequence[Statement], zone: tzinfo) -> Disagreement:
    """A line for each two packets whose quotes disagree, at most `NOTES_MAX`."""
    read = [(statement.citation.packet_id, one) for statement in statements for one in _read(statement, zone)]
    found: dict[str, dict[tuple[str, str], str]] = {kind: {} for kind in _SAID}
    for (packet_id, one), (other_id, other) in combinations(read, 2):
        relation = compare(one, other) if packet_id != other_id else None
        if relation is not None and relation.kind in found:
            words = f'{relation.matter}: "{shown(relation.first)}" against "{shown(relation.second)}".'
            line = f"{inline(packet_id)} and {inline(other_id)} {_SAID[relation.kind]} {words}"
            found[relation.kind].setdefault((packet_id, other_id), line)
    notes = [line for kind in _SAID for line in found[kind].values()]
    return Disagreement(tuple(notes[:NOTES_MAX]), bool(found["contradiction"]))


def _read(statement: Statement, zone: tzinfo) -> list[Assertion]:
    page = statement.quote.page
    return [read_assertion(one.text, page.timestamp, page.speaker, zone) for one in split(statement.quote.text)]
