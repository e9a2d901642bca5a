"""Finds in a text where the literals of special tokens begin, and cuts them there (decision 8).

Time is linear in the text however many literals a vocabulary has (some have thousands): a pattern finds the places
where two characters fit, a set of each length decides. Pure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

_SPACE = "\u2581"  # how many vocabularies write a space; either may stand for the other
_WHITE = " \t\r\n" + _SPACE


class Literals:
    """Literals of two characters or more that are not white space alone; the others cannot be cut and do no harm."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = {text.replace(" ", _SPACE) for text in texts if len(text) > 1 and text.strip(_WHITE)}
        seconds: defaultdict[str, set[str]] = defaultdict(set)
        lengths: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for text in found:
            seconds[text[0]].add(text[1])
            lengths[text[:2]][len(text)].add(text)
        self._by_start = {start: sorted(sets.items()) for start, sets in lengths.items()}
        places = [
            f"{re.escape(first)}(?=[{''.join(map(re.escape, sorted(second)))}])" for first, second in seconds.items()
        ]
        self._place = re.compile("|".join(sorted(places))) if places else None

    def starts(self, text: str) -> Iterator[int]:
        """Where a literal begins, in order."""
        if self._place is None:
            return
        spaced = text.replace(" ", _SPACE)
        for match in self._place.finditer(spaced):
            start = match.start()
            if any(
                spaced[start : start + length] in texts for length, texts in self._by_start[spaced[start : start + 2]]
            ):
                yield start

    def cut(self, text: str) -> list[str]:
        """The text in parts, none of which holds a literal: each is cut after its first character."""
        cuts = [0, *(start + 1 for start in self.starts(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts) if start < end]
