"""Whether a sentence says what is so, what is to be, or what would be: a rule and an incident do not contradict each
other, nor what holds under two conditions. Pure.
"""

import re

from gaiad.research.disagreement_words import disagreement_words
from gaiad.research.words import cut, stem, stop_words

_CONDITION = re.compile(
    r"\b(?:if|unless|when|whenever|in case|provided(?: that)?|as long as)\b(?P<then>[^,;:.]*)", re.IGNORECASE
)
_RULE = re.compile(
    r"\b(?:must|should|shall|ought|has to|have to|needs? to|supposed to)\b|"
    r"^\W*(?:please|always|never|do not|don['’]?t|keep|avoid|ensure|make sure|confirm|check|ask|remember|use) ",
    re.IGNORECASE,
)


def condition_of(sentence: str) -> frozenset[str]:
    """The stems of what it holds under, negations counted; empty when it holds without condition."""
    found = [match["then"] for match in _CONDITION.finditer(sentence)]
    idle = stop_words() - disagreement_words().negations
    return frozenset(stem(word.lower) for part in found for word in cut(part) if word.lower not in idle)


def is_rule(clause: str) -> bool:
    """Whether it says what is to be, as a rule or an order does."""
    return bool(_RULE.search(clause.strip()))
