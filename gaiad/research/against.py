"""Which other packet says the opposite of the one a fact is cited from, or takes its place. It is cited too, however
much likelier the first one is, for an answer shows contradictions (GAM 5). Pure.

Of each page one sentence is held against the other: the one that shares most with the question.
"""

from collections.abc import Callable, Sequence

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.evidence import Evidence
from gaiad.research.relations import Relation
from gaiad.research.sentences import split
from gaiad.research.signs import Signs, may_overturn, signs_of
from gaiad.research.words import content_words, stem, stems

MOST = 12
"""Other pages looked at."""


def opposed(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
    """Those of the first `MOST` others that cannot hold together with what is chosen, or replace it, in their order."""
    related = _related(question, chosen, others, may_overturn)
    return [other for other, relation in related if _overturns(relation)]


def replacing(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
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
        relation = compare(_read(said, chosen), _read(told, other))
        if relation is not None:
            found.append((other, relation))
    return found


def _telling(evidence: Evidence, asked: set[str]) -> str | None:
    """The page's sentence that shares most words with the question; None when none shares any."""
    sentences = [sentence.text for sentence in split(evidence.page.text) if not sentence.text.endswith("?")]
    shared = [len(asked & stems(text)) for text in sentences]
    return sentences[shared.index(max(shared))] if any(shared) else None


def _read(sentence: str, evidence: Evidence) -> Assertion:
    return read_assertion(sentence, evidence.page.timestamp, evidence.page.speaker)
