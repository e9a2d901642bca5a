"""Texts that a grammar allows: short ones that between them go through all its alternatives. Pure."""

import random
from collections.abc import Callable

from gaiad.models.grammar.gbnf_check import Grammar
from gaiad.models.grammar.gbnf_reader import Group, Item, Name, Repeat, Set, Text

_FREE_STEPS = 2000
_FREE_CHARACTERS = 400
_USUAL = " etaoinshrdlucmfwypvbgkjqxzETAOIN0123456789.,-_:;/!?()[]{}'\"\n\t\\é日"


class Sentences:
    """Draws texts; `spellable` says of a character whether the vocabulary has its bytes.

    Alternatives that were not taken yet go first; after some hundred characters the shortest way to the end is taken.
    """

    def __init__(self, grammar: Grammar, spellable: Callable[[str], bool], seed: int = 0) -> None:
        self._grammar = grammar
        self._spellable = spellable
        self._random = random.Random(seed)
        self._untaken: dict[int, list[int]] = {}
        self._shortest: dict[int, int] = {}
        self.new = True  # whether the last one took an alternative for the first time

    def draw(self) -> str:
        """One text that the grammar allows from beginning to end."""
        pending: list[Item] = [Name("root")]
        parts: list[str] = []
        length = steps = 0
        self.new = False
        while pending:
            item, steps = pending.pop(), steps + 1
            free = steps < _FREE_STEPS and length < _FREE_CHARACTERS
            match item:
                case Text():
                    parts.append(item.text)
                case Set():
                    parts.append(self._character(item))
                case Name():
                    pending.append(self._grammar.rules[item.name])
                case Group():
                    pending.extend(reversed(item.choices[self._choice(item, free)]))
                case Repeat():
                    pending.extend([item.item] * self._times(item, free))
            length += len(parts[-1]) if isinstance(item, Text | Set) else 0
        return "".join(parts)

    def _choice(self, group: Group, free: bool) -> int:
        if len(group.choices) == 1:
            return 0
        if not free:
            if id(group) not in self._shortest:
                costs = [self._grammar.sequence_cost(choice) for choice in group.choices]
                self._shortest[id(group)] = costs.index(min(costs))
            return self._shortest[id(group)]
        untaken = self._untaken.setdefault(
            id(group), self._random.sample(range(len(group.choices)), len(group.choices))
        )
        if untaken:
            self.new = True
            return untaken.pop()
        return self._random.randrange(len(group.choices))

    def _times(self, item: Repeat, free: bool) -> int:
        most = item.low + 2 if item.high is None else min(item.high, item.low + 2)
        return self._random.randint(item.low, most) if free else item.low

    def _character(self, item: Set) -> str:
        """A member of the set, one the vocabulary can write if there is one at hand."""
        if item.negated:
            usual = [one for one in _USUAL if not _within(item, one)]
        else:
            usual = [one for one in _USUAL if _within(item, one)]
            usual += [chr(code) for low, high in item.ranges for code in (low, high)]
        good = [one for one in usual if self._spellable(one)]
        return self._random.choice(good or usual or ["\ufffd"])


def _within(item: Set, character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in item.ranges)
