"""Packets that disagree: which pages say the opposite of a quote or replace it, and what the answer says
about it (GAM 5). Pure.
"""

import functools
import re
from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import combinations

import msgspec

from gaiad.research.assertions import Assertion, full_negations, one_line, read_assertion, read_change, replaces
from gaiad.research.contradictions import Relation, compare, values_in
from gaiad.research.evidence import Evidence
from gaiad.research.sentence_values import disagreement_words, may_be_dated, number_words, without_weekdays
from gaiad.research.sentences import Quote, Statement, inline, shown, split
from gaiad.research.words import content_words, lowered, stem, stems

_DIGIT = re.compile(r"\d")
_HOURS = frozenset(("noon", "midnight"))


class Signs:
    """Those of one sentence, each looked for when it is asked for, and once."""

    def __init__(self, sentence: str) -> None:
        self._sentence = one_line(sentence)
        self._plain = without_weekdays(self._sentence)

    @functools.cached_property
    def gives_up(self) -> bool:
        return read_change(self._plain) is not None

    @functools.cached_property
    def replaces(self) -> bool:
        return replaces(self._plain)

    @functools.cached_property
    def turns(self) -> bool:
        """Whether a word of it negates, or has an opposite."""
        return not _turning().isdisjoint(self._words)

    @functools.cached_property
    def is_dated(self) -> bool:
        return may_be_dated(self._sentence)

    @functools.cached_property
    def counts(self) -> bool:
        return bool(_DIGIT.search(self._sentence)) or not _counting().isdisjoint(self._words)

    @functools.cached_property
    def has_value(self) -> bool:
        return bool(values_in(self._sentence))

    @functools.cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(lowered(full_negations(self._sentence)))


@functools.lru_cache(maxsize=1024)
def signs_of(sentence: str) -> Signs:
    return Signs(sentence)


def may_overturn(one: Signs, other: Signs) -> bool:
    """Whether two sentences may contradict each other, or one may take the place of the other."""
    return (
        one.turns
        or other.turns
        or (one.counts and other.counts)
        or one.gives_up
        or other.gives_up
        or (one.is_dated and other.is_dated)
        or (one.has_value and other.has_value)
    )


@functools.cache
def _turning() -> frozenset[str]:
    table = disagreement_words()
    return table.negations.union(word for pair in table.opposites for word in pair)


@functools.cache
def _counting() -> frozenset[str]:
    return number_words() | _HOURS


MOST = 12
"""Other pages looked at."""


def opposed(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
    """Those of the first `MOST` others that cannot hold together with what is chosen, or replace it, in their order."""
    related = _related(question, chosen, others, may_overturn)
    return [other for other, relation in related if _overturns(relation)]


def taking_its_place(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
    """Those of the first `MOST` others that take the place of what is chosen, in their order."""
    related = _related(question, chosen, others, _may_replace)
    return [other for other, relation in related if relation.replaces == "second"]


def _overturns(relation: Relation) -> bool:
    return relation.kind == "contradiction" or relation.replaces == "second"


def _may_replace(earlier: Signs, later: Signs) -> bool:
    return (later.replaces or later.gives_up) and may_overturn(earlier, later)


def _related(
    question: str, chosen: Evidence, others: Sequence[Evidence], may: Callable[[Signs, Signs], bool]
) -> list[tuple[Evidence, Relation]]:
    """The others with how they stand to what is chosen, of those that by their signs `may` do what is looked for."""
    asked = {stem(word) for word in content_words(question)}
    said = _telling(chosen, asked)
    if said is None:
        return []
    found = []
    for other in others[:MOST]:
        told = _telling(other, asked)
        if told is None or not may(signs_of(said), signs_of(told)):
            continue
        relation = compare(_assertion_of(said, chosen), _assertion_of(told, other))
        if relation is not None:
            found.append((other, relation))
    return found


def _telling(evidence: Evidence, asked: set[str]) -> str | None:
    """The page's sentence that shares most words with the question; None when none shares any."""
    sentences = [sentence.text for sentence in split(evidence.page.text) if not sentence.text.endswith("?")]
    shared = [len(asked & stems(text)) for text in sentences]
    return sentences[shared.index(max(shared))] if any(shared) else None


def _assertion_of(sentence: str, evidence: Evidence) -> Assertion:
    return read_assertion(sentence, evidence.page.timestamp, evidence.page.speaker)


def replacing(quotes: Sequence[Quote]) -> list[Quote]:
    """The quotes that take the place of what another packet's quote says, in the order of time, one of each packet."""
    if not any(_may_change(quote) for quote in quotes):
        return []
    read = [(quote, one) for quote in quotes for one in _assertions_of(quote)]
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


def _assertions_of(quote: Quote) -> list[Assertion]:
    page = quote.page
    return [read_assertion(one.text, page.timestamp, page.speaker) for one in split(quote.text)]


def _may_change(quote: Quote) -> bool:
    signs = (signs_of(one.text) for one in split(quote.text))
    return any(one.replaces or one.gives_up for one in signs)


def _changes(one: Assertion) -> bool:
    return one.replaces or one.change is not None


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
