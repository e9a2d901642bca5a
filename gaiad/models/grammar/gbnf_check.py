"""Looks for what would crash or hang llama.cpp's grammar parser, and names it. Pure; its parser stays the judge.

Left recursion it finds only in part, in exponential time, and by a number; rules that never end it does not look for.
"""

from collections.abc import Callable, Iterator, Sequence

from gaiad.models.grammar.gbnf_reader import Group, Item, Name, Repeat, Set, Text, read_gbnf
from gaiad.models.grammar.gbnf_writer import BadGrammar

MOST_BEGINNINGS = 1_000_000
LONGEST_SHORTEST = 100_000  # characters of the shortest text that a grammar allows


class Grammar:
    """Rules that passed. `cost` is the shortest text of a rule in characters, plus one for every rule on the way."""

    def __init__(self, rules: dict[str, Group]) -> None:
        self.rules = rules
        self.cost: dict[str, float] = {}
        self._users: dict[str, list[str]] = {name: [] for name in rules}
        for name, rule in rules.items():
            for used in set(_names(rule)):
                self._users[used].append(name)
        self.empty = self._nullable()
        self._count_beginnings(self._leftmost_order())
        self._settle(self._cheapens)

    def item_cost(self, item: Item) -> float:
        match item:
            case Text():
                return len(item.text)
            case Set():
                return 1.0 if item.ranges or item.negated else 0.0
            case Name():
                return 1.0 + self.cost.get(item.name, float("inf"))
            case Group():
                return min(self.sequence_cost(choice) for choice in item.choices)
            case Repeat():
                return item.low * self.item_cost(item.item) if item.low else 0.0

    def sequence_cost(self, sequence: Sequence[Item]) -> float:
        return sum(self.item_cost(item) for item in sequence)

    # -- what may be empty

    def _nullable(self) -> set[str]:
        found: set[str] = set()

        def becomes_empty(name: str) -> bool:
            if name in found or not _may_be_empty(self.rules[name], found):
                return False
            found.add(name)
            return True

        self._settle(becomes_empty)
        return found

    def _settle(self, changes: Callable[[str], bool]) -> None:
        """Look at every rule, and again at those that use a changed one, until nothing changes."""
        waiting = dict.fromkeys(self.rules)
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            if changes(name):
                waiting.update(dict.fromkeys(self._users[name]))

    # -- what may stand first

    def _leftmost(self, item: Item) -> Iterator[str]:
        match item:
            case Name():
                yield item.name
            case Repeat():
                yield from self._leftmost(item.item)
            case Group():
                for choice in item.choices:
                    for part in choice:
                        yield from self._leftmost(part)
                        if not _may_be_empty(part, self.empty):
                            break

    def _leftmost_order(self) -> list[str]:
        """Rules, each after those it may begin with. Raises BadGrammar naming a circle."""
        order: list[str] = []
        done: set[str] = set()
        for first in self.rules:
            path: dict[str, Iterator[str]] = {} if first in done else {first: self._leftmost(self.rules[first])}
            while path:
                name = next(reversed(path))
                after = next(path[name], None)
                if after is None:
                    order.append(name)
                    done.add(name)
                    del path[name]
                elif after in path:
                    circle = [*list(path)[list(path).index(after) :], after]
                    raise BadGrammar(
                        f"rule {after!r} can begin with itself ({_chain(circle)}), which is left recursion; "
                        "put what is written before the rule's own name"
                    )
                elif after not in done:
                    path[after] = self._leftmost(self.rules[after])
        return order

    def _count_beginnings(self, order: Sequence[str]) -> None:
        """The parser follows every way on which a rule may begin, one by one."""
        ways: dict[str, int] = {}
        for name in order:
            ways[name] = 1 + sum(ways[after] for after in self._leftmost(self.rules[name]))
            if ways[name] > MOST_BEGINNINGS:
                raise BadGrammar(f"rule {name!r} has more than {MOST_BEGINNINGS} ways to begin; make it simpler")

    # -- how long it gets

    def _cheapens(self, name: str) -> bool:
        cost = self.item_cost(self.rules[name])
        if cost >= self.cost.get(name, float("inf")):
            return False
        self.cost[name] = cost
        return True


def check_gbnf(source: str) -> Grammar:
    """The grammar, read. Raises BadGrammar in words that name the rule or the line."""
    if not source.strip():
        raise BadGrammar("the grammar is empty; give at least root ::= and what it stands for")
    rules = read_gbnf(source)
    if "root" not in rules:
        raise BadGrammar("the grammar has no rule 'root', where every reply begins; add one")
    for name, rule in rules.items():
        for used in _names(rule):
            if used not in rules:
                raise BadGrammar(f"rule {name!r} uses the rule {used!r}, which is missing; define it")
    return _checked(Grammar(rules))


def _checked(grammar: Grammar) -> Grammar:
    for name, rule in grammar.rules.items():
        if _endless_nothing(rule, grammar.empty):
            raise BadGrammar(f"rule {name!r} repeats something that may be empty without end; bound it")
    endless = [name for name in reachable(grammar.rules) if name not in grammar.cost]
    if endless:
        raise BadGrammar(
            f"rule {endless[-1]!r} never comes to an end: every way through it leads back; give it another"
        )
    if grammar.cost["root"] > LONGEST_SHORTEST:
        raise BadGrammar(f"the shortest reply it allows has more than {LONGEST_SHORTEST} characters; make it shorter")
    return grammar


def reachable(rules: dict[str, Group]) -> list[str]:
    """Names of the rules that `root` leads to, itself included."""
    found, waiting = {"root": None}, ["root"]
    while waiting:
        for name in _names(rules[waiting.pop()]):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


def _may_be_empty(item: Item, empty: set[str]) -> bool:
    match item:
        case Text():
            return not item.text
        case Set():
            return not item.ranges and not item.negated
        case Name():
            return item.name in empty
        case Repeat():
            return not item.low or _may_be_empty(item.item, empty)
        case Group():
            return any(all(_may_be_empty(part, empty) for part in choice) for choice in item.choices)


def _endless_nothing(item: Item, empty: set[str]) -> bool:
    match item:
        case Repeat():
            endless = item.high is None and _may_be_empty(item.item, empty)
            return endless or _endless_nothing(item.item, empty)
        case Group():
            return any(_endless_nothing(part, empty) for choice in item.choices for part in choice)
        case _:
            return False


def _names(item: Item) -> Iterator[str]:
    match item:
        case Name():
            yield item.name
        case Repeat():
            yield from _names(item.item)
        case Group():
            for choice in item.choices:
                for part in choice:
                    yield from _names(part)


def _chain(names: Sequence[str]) -> str:
    shown = [*names[:4], "...", names[-1]] if len(names) > 6 else names
    return " -> ".join(shown)
