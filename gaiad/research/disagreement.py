"""What an answer says when the packets it quotes disagree, or one of them refines another (GAM 5). Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from itertools import combinations

import msgspec

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.citations import inline, shown
from gaiad.research.contradictions import compare
from gaiad.research.relations import Relation
from gaiad.research.sentences import split
from gaiad.research.synthesis import Statement

NOTES_MAX = 3
_SAID = {"contradiction": "disagree on a", "refinement": "differ, and may both hold, on a"}
_REPLACED = "replaced"
_KINDS = ("contradiction", _REPLACED, "refinement")


class Disagreement(msgspec.Struct, frozen=True):
    """`notes` in words, contradictions first; `contradicts` when there is one."""

    notes: tuple[str, ...]
    contradicts: bool


def find_disagreement(statements: Sequence[Statement], zone: tzinfo) -> Disagreement:
    """A line for each two packets whose quotes disagree, at most `NOTES_MAX`."""
    if len({statement.citation.packet_id for statement in statements}) < 2:
        return Disagreement((), contradicts=False)
    read = [(statement.citation.packet_id, one) for statement in statements for one in _read(statement, zone)]
    found: dict[str, dict[tuple[str, str], str]] = {kind: {} for kind in _KINDS}
    for (packet_id, one), (other_id, other) in combinations(read, 2):
        relation = compare(one, other) if packet_id != other_id else None
        if relation is None or relation.kind == "agreement":
            continue
        kind = _REPLACED if relation.replaces else relation.kind
        found[kind].setdefault((packet_id, other_id), _line(relation, packet_id, other_id))
    notes = [line for kind in _KINDS for line in found[kind].values()]
    return Disagreement(tuple(notes[:NOTES_MAX]), bool(found["contradiction"]))


def _line(relation: Relation, packet_id: str, other_id: str) -> str:
    first, second = shown(relation.first), shown(relation.second)
    if relation.replaces:
        (later, new), (earlier, old) = (packet_id, first), (other_id, second)
        if relation.replaces == "second":
            (later, new), (earlier, old) = (earlier, old), (later, new)
        return f'{inline(later)} takes the place of what {inline(earlier)} says: "{new}" after "{old}".'
    said = _SAID[relation.kind]
    return f'{inline(packet_id)} and {inline(other_id)} {said} {relation.matter}: "{first}" against "{second}".'


def _read(statement: Statement, zone: tzinfo) -> list[Assertion]:
    page = statement.quote.page
    return [read_assertion(one.text, page.timestamp, page.speaker, zone) for one in split(statement.quote.text)]
