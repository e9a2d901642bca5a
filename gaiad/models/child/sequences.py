"""Which tokens stand in which sequence of the one context, and which cells of it they take: the prefix cache.

Bookkeeping without llama.cpp: the memory is a small port. Sequences that share a beginning share its cells, so each is
counted once however many hold it. A sequence that ended is kept until its cells or its number are wanted: the least
recently used goes first. Admission counts what every live request may still write, so a decode never finds it full.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Protocol


class Memory(Protocol):
    """The context's memory. `partial` tells whether a sequence may be cut or copied in part."""

    @property
    def partial(self) -> bool: ...

    def copy(self, source: int, target: int, length: int) -> None: ...

    def truncate(self, sequence: int, length: int) -> bool:
        """Drop everything from position `length`; False when the model refuses."""
        ...


class HeldSequence:
    """One sequence: the tokens evaluated in it, one cell each, and how many it may grow to while live."""

    __slots__ = ("cells", "id", "room", "tokens")

    def __init__(self, sequence: int, room: int) -> None:
        self.id = sequence
        self.room = room
        self.tokens: list[int] = []
        self.cells: list[int] = []

    @property
    def length(self) -> int:
        return len(self.tokens)


class Sequences:
    """`numbers` sequences over `cells` cells. Live ones are never given up; kept ones are the cache."""

    def __init__(self, memory: Memory, numbers: int, cells: int) -> None:
        self._memory = memory
        self._free = list(range(numbers))
        self._cell = itertools.count()
        self.cells = cells
        self.live: dict[int, HeldSequence] = {}
        self.kept: dict[int, HeldSequence] = {}  # oldest first

    def place(self, tokens: Sequence[int], room: int) -> HeldSequence | None:
        """A live sequence holding the longest beginning of `tokens` any other holds (never all: the last gives logits).

        None when `room` cells are not to be had now; nothing was given up then.
        """
        source, matched = self._best(tokens)
        shared = source.cells[:matched] if source is not None else []
        if _distinct([*self.live.values()], shared) + self._promised() + room - matched > self.cells:
            return None
        held = self._open(source, matched, room)
        while self.used() + self._promised() > self.cells:
            self._drop_oldest()
        return held

    def extend(self, held: HeldSequence, tokens: Sequence[int]) -> None:
        """`tokens` were evaluated at the end of `held`."""
        held.tokens.extend(tokens)
        held.cells.extend(itertools.islice(self._cell, len(tokens)))

    def shorten(self, held: HeldSequence, length: int) -> None:
        """Cut `held` back to `length` tokens, or to none when the model refuses a partial cut."""
        if length >= held.length:
            return
        if not self._memory.truncate(held.id, length):
            self._memory.truncate(held.id, 0)
            length = 0
        del held.tokens[length:], held.cells[length:]

    def release(self, held: HeldSequence) -> None:
        """No longer live: keep it as the most recently used one. Those that are only a beginning of it go."""
        del self.live[held.id]
        for other in [other for other in self.kept.values() if held.tokens[: other.length] == other.tokens]:
            self._forget(other)
        self.kept[held.id] = held
        if not held.tokens:
            self._forget(held)

    def forget_oldest(self) -> bool:
        """Give up the least recently used kept sequence; False when there is none."""
        if self.kept:
            self._drop_oldest()
            return True
        return False

    def used(self) -> int:
        """Cells in use by live and kept sequences, shared ones counted once."""
        return _distinct([*self.live.values(), *self.kept.values()], [])

    def _promised(self) -> int:
        return sum(held.room - held.length for held in self.live.values())

    def _best(self, tokens: Sequence[int]) -> tuple[HeldSequence | None, int]:
        best, length = None, 0
        for held in [*self.live.values(), *self.kept.values()]:
            shared = min(common_prefix(held.tokens, tokens), len(tokens) - 1)
            if shared > length and (self._memory.partial or shared == held.length):
                best, length = held, shared
        return best, length

    def _open(self, source: HeldSequence | None, matched: int, room: int) -> HeldSequence:
        if not self._free:
            victim = next((held for held in self.kept.values() if held is not source), None)
            if victim is None:
                assert source is not None, "more live sequences than numbers"
                return self._take_over(source, matched, room)
            self._forget(victim)
        held = HeldSequence(self._free.pop(), room)
        self.live[held.id] = held
        if source is not None:
            self._memory.copy(source.id, held.id, matched)
            held.tokens, held.cells = source.tokens[:matched], source.cells[:matched]
            if source.id in self.kept:  # the cache's least recently used is the one nobody started from
                self.kept[source.id] = self.kept.pop(source.id)
        return held

    def _take_over(self, source: HeldSequence, matched: int, room: int) -> HeldSequence:
        """The only kept sequence becomes the live one: there is no number left to copy it to."""
        self.live[source.id] = self.kept.pop(source.id)
        source.room = room
        self.shorten(source, matched)
        return source

    def _drop_oldest(self) -> None:
        self._forget(next(iter(self.kept.values())))

    def _forget(self, held: HeldSequence) -> None:
        self._memory.truncate(held.id, 0)
        del self.kept[held.id]
        self._free.append(held.id)


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two lists share at their beginning; halving compares slices at C speed."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _distinct(sequences: Iterable[HeldSequence], more: Iterable[int]) -> int:
    return len(set(more).union(*(held.cells for held in sequences)))
