"""What one search looks at: an immutable base part, absent below the exact-scan limit, and rows scanned exactly."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense.exact_rows import ExactRows, best, membership
from gaiad.archive.dense.hnsw_base import HnswBase

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]


class Comparison(msgspec.Struct, frozen=True):
    """One query against the index: the best pages, and cosines of any others on demand."""

    ids: Ids
    cosines: Vectors
    parts: "Parts"
    query: Vectors
    scan: tuple[Ids, Vectors] | None

    def of(self, ids: Ids) -> Vectors:
        """Cosines of pages `ids`, NaN where a page has no vector."""
        if self.scan is None:
            return self.parts.cosines(self.query, ids)
        all_ids, all_cosines = self.scan
        table = np.full(int(max(all_ids.max(initial=0), ids.max(initial=0))) + 1, np.nan, np.float32)
        table[all_ids] = np.where(all_cosines < -1.5, np.float32(np.nan), all_cosines)
        return table[ids]


class Parts(msgspec.Struct, frozen=True):
    """Replaced whole when a part is, so that searching takes no lock; pages are buried in place."""

    rows: ExactRows
    base: HnswBase | None = None

    @staticmethod
    def empty(dimension: int) -> "Parts":
        return Parts(ExactRows.of(np.zeros(0, np.int64), np.zeros((0, dimension), np.float32)))

    def bury(self, ids: Ids) -> int:
        """Take pages out of the search; how many were in it."""
        if not len(ids):
            return 0
        return self.rows.bury(ids) + (self.base.bury(ids) if self.base else 0)

    def compare(self, query: Vectors, count: int, allowed: Ids | None = None) -> Comparison:
        """The `count` pages nearest to `query` (dimension,), only of `allowed` when given."""
        rows, base = self.rows, self.base
        query = np.ascontiguousarray(query, np.float32).reshape(rows.matrix.shape[1])
        ids, cosines = rows.ids[: rows.count], rows.cosines(query)
        passing = cosines
        if allowed is not None and len(ids):
            passing = np.where(membership(ids, allowed), cosines, np.float32(-2.0))
        best_ids, best_cosines = best(ids, passing, count)
        if base is not None:
            more_ids, more_cosines = base.search(query, count, allowed)
            best_ids, best_cosines = best(
                np.concatenate((best_ids, more_ids)), np.concatenate((best_cosines, more_cosines)), count
            )
        return Comparison(best_ids, best_cosines, self, query, (ids, cosines) if base is None else None)

    def cosines(self, query: Vectors, ids: Ids) -> Vectors:
        """Exact cosines of pages `ids`, NaN where a page has no vector."""
        rows, base = self.rows, self.base
        result = base.cosines(query, ids) if base is not None else np.full(len(ids), np.nan, np.float32)
        if rows.count:
            order = np.argsort(rows.ids[: rows.count], kind="stable")
            order = order[rows.alive[: rows.count][order]]
            if len(order):
                slots = np.minimum(np.searchsorted(rows.ids[order], ids), len(order) - 1)
                here = rows.ids[order[slots]] == ids
                result[here] = rows.matrix[order[slots[here]]] @ query
        return result

    def live_ids(self) -> Ids:
        """The pages with a living vector, rising."""
        ids = self.rows.ids[: self.rows.count][self.rows.alive[: self.rows.count]]
        return np.sort(ids if self.base is None else np.concatenate((ids, self.base.ids[self.base.alive])))

    def live(self, among: Ids | None = None) -> tuple[Ids, Vectors]:
        """Every living vector (only of pages `among` when given) with its page id, rising by id (copies)."""
        ids, matrix = self.rows.live(among)
        if self.base is None:
            return ids, matrix
        base_ids, base_matrix = self.base.live(among)
        ids, matrix = np.concatenate((ids, base_ids)), np.concatenate((matrix, base_matrix))
        order = np.argsort(ids, kind="stable")
        return ids[order], matrix[order]
