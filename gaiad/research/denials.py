"""Whether a clause of one sentence denies a clause of another: by a negation, or by an opposite of one of its words.

Pure. A rule and an incident do not deny each other: "confirm before changing" stands although somebody did not confirm.
"""

from gaiad.research.assertions import Assertion, Clause
from gaiad.research.relations import Relation, relation

SAME_CLAUSE = 0.75  # for a negation, which may belong to another part of a longer sentence
VAGUE_WORDS = 3  # so many words a sentence must share that begins with "it"
# Base forms that are past forms, too: "did not put" denies "put".
_PAST_TOO = frozenset(
    ("put", "read", "cut", "set", "let", "hit", "cost", "shut", "quit", "hurt", "spread", "beat", "cast", "split")
)


def deny(one: Assertion, other: Assertion) -> Relation | None:
    """A clause of one that is a clause of the other turned round."""
    for mine in one.clauses:
        for its in other.clauses:
            if _turned_round(mine, its) and _same_clause(mine, its, one, other):
                return relation("contradiction", "negation", "major", one.text, other.text)
    return None


def _turned_round(mine: Clause, its: Clause) -> bool:
    """Whether one says what the other denies, by a negation or by an opposite of a word of the other's."""
    if mine.rule != its.rule or _never_happened(mine, its) or _never_happened(its, mine):
        return False
    changed = mine.opposite.symmetric_difference(its.opposite) & mine.words & its.words
    return (len(changed) + mine.negated + its.negated) % 2 == 1


def _never_happened(denial: Clause, its: Clause) -> bool:
    """Whether one says that something did not happen, and the other that it does, or is to."""
    verb = denial.did_not
    return (
        bool(verb) and verb not in _PAST_TOO and "did" not in its.written and {verb, f"{verb}s"} & its.written != set()
    )


def _same_clause(mine: Clause, its: Clause, one: Assertion, other: Assertion) -> bool:
    shared, more, less = mine.words & its.words, mine.words - its.words, its.words - mine.words
    smaller = min(len(mine.words), len(its.words))
    if smaller < 2 or len(shared) / smaller < SAME_CLAUSE or (more & one.names and less & other.names):
        return False
    if any(clause.negated and not _holds(clause, beside) for clause, beside in ((mine, its), (its, mine))):
        return False
    vague = (one.vague or other.vague) and len(shared) < VAGUE_WORDS
    return not vague and not (len(more) == len(less) == 1)


def _holds(denial: Clause, beside: Clause) -> bool:
    """Whether what is denied, and not the names alone, stands in the other clause."""
    return not denial.own or len(denial.own & beside.words) >= 0.5 * len(denial.own)
