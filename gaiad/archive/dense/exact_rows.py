"""Vectors in memory, scanned exactly: rows are only ever appended or marked dead, so readers need no lock."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
_GROWTH = 1.25
_FIRST_ROWS = 256


@dataclass(frozen=True, slots=True)
class ExactRows:
    """`count` rows of `matrix` belong to pages `ids`; `alive` is shared by all views of the same rows."""

    matrix: Vectors
    ids: Ids
    alive: NDArray[np.bool_]
    count: int

    @classmethod
    def of(cls, ids: Ids, matrix: Vectors) -> "ExactRows":
        return cls(matrix, ids, np.ones(len(ids), np.bool_), len(ids))

    def appended(self, ids: Ids, vectors: Vectors) -> "ExactRows":
        """These rows and more; what readers of the old view see does not move. One appender at a time."""
        total = self.count + len(ids)
        if total > len(self.ids):
            return self.with_room(max(int(total * _GROWTH), _FIRST_ROWS) - self.count).appended(ids, vectors)
        self.matrix[self.count : total] = vectors
        self.ids[self.count : total] = ids
        self.alive[self.count : total] = True
        return ExactRows(self.matrix, self.ids, self.alive, total)

    def with_room(self, more: int) -> "ExactRows":
        """The same rows with room for `more`: whoever appends many gradually spares himself a copy of all, and the
        memory for it."""
        capacity = self.count + more
        if capacity <= len(self.ids):
            return self
        matrix = np.empty((capacity, self.matrix.shape[1]), np.float32)
        ids, alive = np.zeros(capacity, np.int64), np.zeros(capacity, np.bool_)
        matrix[: self.count] = self.matrix[: self.count]
        ids[: self.count] = self.ids[: self.count]
        alive[: self.count] = self.alive[: self.count]
        return ExactRows(matrix, ids, alive, self.count)

    def bury(self, ids: Ids) -> int:
        """Mark the rows of `ids` dead; how many were alive."""
        hit = np.flatnonzero(np.isin(self.ids[: self.count], ids) & self.alive[: self.count])
        self.alive[hit] = False
        return len(hit)

    def live(self, among: Ids | None = None) -> tuple[Ids, Vectors]:
        """Copies of the living rows, only of pages `among` when given, rising by page id."""
        wanted = self.alive[: self.count]
        rows = np.flatnonzero(wanted if among is None else wanted & np.isin(self.ids[: self.count], among))
        rows = rows[np.argsort(self.ids[rows], kind="stable")]
        return self.ids[rows], self.matrix[rows]

    def cosines(self, query: Vectors) -> Vectors:
        """Cosine of every row with `query` (dimension,), -2 for the dead.

        One thread, on purpose: a product spread over all cores waits for the slowest of them whenever others work.
        """
        if not self.count:
            return np.zeros(0, np.float32)
        cosines: Vectors = np.vecdot(self.matrix[: self.count], query)
        cosines[~self.alive[: self.count]] = -2.0
        return cosines


def best(ids: Ids, cosines: Vectors, count: int) -> tuple[Ids, Vectors]:
    """The `count` highest cosines (dead rows aside) with their ids, best first, smaller id first among equals."""
    if len(cosines) > count:
        part = np.argpartition(-cosines, count - 1)
        threshold = cosines[part[count - 1]]
        rows = np.flatnonzero(cosines >= threshold)
        ids, cosines = ids[rows], cosines[rows]
    order = np.lexsort((ids, -cosines))[:count]
    order = order[cosines[order] > -1.5]
    return ids[order], cosines[order]


def nearest(pieces: Iterable[tuple[Ids, Vectors]], queries: Vectors, count: int) -> list[Ids]:
    """For each of `queries` (n, dimension) the ids of the `count` nearest rows of all `pieces`, as `best` orders them.

    Only one piece is held at a time: what is scanned may be more than the memory has room for twice.
    """
    found = [(np.zeros(0, np.int64), np.zeros(0, np.float32)) for _ in queries]
    for ids, rows in pieces:
        found = [
            best(np.concatenate((kept, ids)), np.concatenate((likeness, cosines)), count)
            for (kept, likeness), cosines in zip(found, queries @ rows.T, strict=True)
        ]
    return [ids for ids, _ in found]


def membership(ids: Ids, allowed: Ids) -> NDArray[np.bool_]:
    """Which of `ids` are among `allowed`; a table lookup, for it runs over every vector of a tenant."""
    table = np.zeros(int(max(ids.max(initial=0), allowed.max(initial=0))) + 1, np.bool_)
    table[allowed] = True
    return table[ids]
