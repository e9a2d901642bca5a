"""Whose matter the evidence is: a question about Vera is not answered by what Otto says of himself.

Pure. Words and meaning alone do not tell "What did Vera catch?" from "What did Otto catch?", and the page that Otto's
trout stands on is the best for both. Who speaks does. Only transcripts in which people speak under their names are
judged: a "user" may be anybody, and an assistant speaks of others.
"""

import re
from collections.abc import Sequence

from gaiad.research.entities import is_assistant
from gaiad.research.evidence import Evidence
from gaiad.research.query import SearchParameters, is_role
from gaiad.research.sentences import split

# By so much the other's page has to stand above the best one of the person asked about. Chosen on conversations with
# labelled evidence: 1.5 % of answerable questions are refused by it, 46 % of those that give to one what another did.
LEADS = 0.05
# "Who invited Nate?" asks for somebody else, and so does whoever speaks of himself in the question.
_ASKS_FOR_ANOTHER = re.compile(
    r"who(?! (?:\w+ )?(?:did|does|do|is|was|were|has|had|have|will|would|can)\b)|.*\b(?:i|me|my|we|us|our)\b",
    re.IGNORECASE,
)
# Somebody is called, not spoken of: "Hey Vera, ...", "... , Vera!"
_CALLED, _CALL_ENDS = r"(?:^|[,.!?:;…])\s*(?:\w+,?\s+)?", r"(?!['’]s)(?=\s*(?:[,.!?;:…–—-]|$))"


def somebody_elses(parameters: SearchParameters, selected: Sequence[Evidence], found: Sequence[Evidence]) -> str:
    """Who the best of the `selected` pages speaks of, when that is not the one person asked about; "" otherwise.

    `found` is all that the question found: the person asked about has to speak on a page of it, and on none that comes
    near.
    """
    if len(parameters.people) != 1 or not selected or _ASKS_FOR_ANOTHER.match(parameters.text):
        return ""
    (person,) = parameters.people
    best = selected[0]
    speaker = best.page.speaker
    if speaker in ("", person) or is_role(speaker) or is_assistant(speaker) or _speaks_of(best.page.text, person):
        return ""
    own = [item.standing for item in found if item.page.speaker == person]
    others = [item.standing for item in found if item.page.speaker != person]
    return speaker if own and others and max(own) + LEADS < max(others) else ""


def _speaks_of(text: str, person: str) -> bool:
    """Whether it asks, or names the person otherwise than to call them ("Hey Vera, I ...")."""
    sentences = split(text)
    if sentences and sentences[-1].text.endswith(("?", "？")):
        return True
    names = "|".join(re.escape(name) for name in person.split())
    uncalled = re.sub(rf"{_CALLED}(?:{names})\b{_CALL_ENDS}", " ", text, flags=re.IGNORECASE)
    return re.search(rf"\b(?:{names})\b", uncalled, re.IGNORECASE) is not None
