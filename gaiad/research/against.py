"""Which other packet says the opposite of the one a fact is cited from, or takes its place. It is cited too, however
much likelier the first one is, for an answer shows contradictions (GAM 5). Pure.

Of each page one sentence is held against the other: the one that shares most with the question.
"""

from collections.abc import Sequence

from gaiad.research.assertions import Assertion, read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.evidence import Evidence
from gaiad.research.relations import Relation
from gaiad.research.sentences import split
from gaiad.research.words import content_words, stem, stems

MOST = 12
"""Other pages looked at."""


def opposed(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
    """Those of the first `MOST` others that cannot hold together with what is chosen, or replace it, in their order."""
    return [other for other, relation in _related(question, chosen, others) if _overturns(relation)]


def replacing(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[Evidence]:
    """Those of the first `MOST` others that take the place of what is chosen, in their order."""
    return [other for other, relation in _related(question, chosen, others) if relation.replaces == "second"]


def _overturns(relation: Relation) -> bool:
    return relation.kind == "contradiction" or relation.replaces == "second"


def _related(question: str, chosen: Evidence, others: Sequence[Evidence]) -> list[tuple[Evidence, Relation]]:
    asked = {stem(word) for word in content_words(question)}
    said = _tells(chosen, asked)
    if said is None:
        return []
    found = []
    for other in others[:MOST]:
        against = _tells(other, asked)
        relation = compare(said, against) if against is not None else None
        if relation is not None:
            found.append((other, relation))
    return found


def _tells(evidence: Evidence, asked: set[str]) -> Assertion | None:
    """The page's sentence that shares most words with the question; None when none shares any."""
    page = evidence.page
    sentences = [sentence.text for sentence in split(page.text) if not sentence.text.endswith("?")]
    shared = [len(asked & stems(text)) for text in sentences]
    if not any(shared):
        return None
    best = sentences[shared.index(max(shared))]
    return read_assertion(best, page.timestamp, page.speaker)
