"""By which words a sentence may turn, give up or exceed another: two sentences without them need not be read to know
that they do not contradict each other, and reading one takes ten times as long (`gaiad.research.assertions`).

Pure. A sign that is missing proves that there is nothing; one that is there proves nothing.
"""

import functools
import re

from gaiad.research.assertions import full_negations, one_line, replaces
from gaiad.research.changes import read_change
from gaiad.research.disagreement_words import disagreement_words
from gaiad.research.one_value import values_in
from gaiad.research.quantities import number_words
from gaiad.research.sentence_dates import may_be_dated, without_weekdays
from gaiad.research.words import lowered

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
