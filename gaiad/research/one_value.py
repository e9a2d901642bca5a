"""What has one value at a time: where somebody lives, what was chosen for a thing. Two sentences that name another
value and are the same otherwise disagree. Pure; only names are held against each other, for "a house" and "Graz" may be
one.
"""

import functools
import re
from collections.abc import Mapping

from gaiad.research.assertions import Assertion
from gaiad.research.disagreement_words import disagreement_words
from gaiad.research.words import cut, stem

_VALUE = r" (?:the )?(?P<value>[A-Z][\w+#'’-]*(?: [A-Z][\w+#'’-]*)*)"
_LEAST_SHARED = 2


def exchanged(one: Assertion, other: Assertion) -> tuple[str, str] | None:
    """The two values, as they stand there; None when the two do not name another one of the same thing."""
    if len(one.subject & other.subject) < _LEAST_SHARED:
        return None
    named, its_named = values_in(one.text), values_in(other.text)
    for kind in (kind for kind in named if kind in its_named):
        mine, its = named[kind], its_named[kind]
        values = _stems(mine), _stems(its)
        rest = one.subject - values[0], other.subject - values[1]
        if not values[0] & values[1] and rest[0] == rest[1] and len(rest[0]) >= _LEAST_SHARED:
            return mine, its
    return None


@functools.lru_cache(maxsize=1024)
def values_in(sentence: str) -> Mapping[int, str]:
    """The first value named in each of the ways of the table, by its place there."""
    found = ((place, pattern.search(sentence)) for place, pattern in enumerate(_patterns()))
    return {place: match["value"] for place, match in found if match}


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"(?i:{one}){_VALUE}") for one in disagreement_words().one_value)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word.lower) for word in cut(text))
