"""What one search of vectors looks at: an immutable HNSW base, absent below the exact-scan limit, and exact rows."""

import struct
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense import vector_file
from gaiad.archive.dense.exact_rows import ExactRows, best, membership
from gaiad.archive.dense.vector_file import BrokenIndex

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
_HEADER = struct.Struct("<6QiI3QdQ")
_NUMBER_BYTES = 4


class MappedVectors:
    """Vectors by page id; only the rows that are asked for are read. The file may be unlinked meanwhile."""

    def __init__(self, path: Path, ids: Ids, dimension: int) -> None:
        """`ids`, rising, must be those in the file. Raises BrokenIndex when the file holds something else."""
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise BrokenIndex(f"{path} is too short to be an hnswlib index")
        _, _, count, row_bytes, label_at, vector_at, *_ = _HEADER.unpack(head)
        fits = count * row_bytes <= path.stat().st_size - _HEADER.size
        if count != len(ids) or label_at - vector_at != dimension * _NUMBER_BYTES or not fits:
            raise BrokenIndex(f"{path} has a different layout from hnswlib 0.8; install that version")
        row = np.dtype(
            {
                "names": ["vector", "label"],
                "formats": [("<f4", (dimension,)), "<i8"],
                "offsets": [vector_at, label_at],
                "itemsize": row_bytes,
            }
        )
        rows = np.memmap(path, row, "r", _HEADER.size, (count,))
        labels = np.ascontiguousarray(rows["label"])
        self._order = np.argsort(labels, kind="stable").astype(np.int64)
        if not np.array_equal(labels[self._order], ids):
            raise BrokenIndex(f"{path} does not contain the pages on its list")
        self._vectors = rows["vector"]

    def at(self, rows: NDArray[np.int64]) -> Vectors:
        """Copies of the vectors of the pages `ids[rows]`, (len(rows), dimension)."""
        found: Vectors = np.asarray(self._vectors[self._order[rows]], np.float32)
        return found


_SCAN_ROWS = 20_000
_FEW_ROWS = 2_000
_MOST_WANTED = 512


class HnswBase:
    """Approximate neighbours over the pages `ids`. Nothing is ever added, so any number of threads may search."""

    def __init__(self, folder: Path, manifest: vector_file.VectorManifest) -> None:
        """Load the verified files. Raises vector_file.BrokenIndex, also while hnswlib is still being compiled."""
        try:
            import hnswlib
        except ImportError as error:
            raise vector_file.BrokenIndex(f"{folder} needs hnswlib ({error}); run `make`") from error
        path = vector_file.verify(folder, manifest.rows)
        self.ids = vector_file.read_ids(folder, manifest)
        self.alive = np.ones(len(self.ids), np.bool_)
        self.recall = manifest.recall
        self._index = hnswlib.Index(space="ip", dim=manifest.dimension)
        try:
            self._index.load_index(str(path), max_elements=max(manifest.count, 1))
        except RuntimeError as error:
            raise vector_file.BrokenIndex(f"{path} cannot be loaded ({error})") from error
        self._mapped = MappedVectors(path, self.ids, manifest.dimension)
        self._index.set_ef(manifest.search_width)  # a search for more than this takes as wide as that

    def bury(self, ids: Ids) -> int:
        """Mark pages dead; how many were alive."""
        rows = self._rows(ids)
        rows = rows[self.alive[rows]]
        self.alive[rows] = False
        return len(rows)

    def live(self, among: Ids | None = None) -> tuple[Ids, Vectors]:
        """Copies of the living vectors, only of pages `among` when given, rising by page id."""
        rows = np.flatnonzero(self.alive if among is None else self.alive & np.isin(self.ids, among))
        return self.ids[rows], self._mapped.at(rows)

    def search(self, query: Vectors, count: int, allowed: Ids | None) -> tuple[Ids, Vectors]:
        """The `count` nearest living (and allowed) pages; few allowed pages are scanned exactly instead."""
        passing = self.alive if allowed is None else self.alive & membership(self.ids, allowed)
        living = int(np.count_nonzero(passing))
        if not living:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        share = living / len(self.ids)
        wanted = min(int(count / share * 1.3) + 8 if share < 1 else count, len(self.ids))
        if living <= _FEW_ROWS or wanted > _MOST_WANTED:
            return self._scan(query, count, passing)
        try:
            labels, distances = self._index.knn_query(query, k=wanted, num_threads=1)
        except RuntimeError:  # fewer than wanted are reached from where the graph is entered
            return self._scan(query, count, passing)
        ids, cosines = labels[0].astype(np.int64), (1.0 - distances[0]).astype(np.float32)
        keep = passing[np.searchsorted(self.ids, ids)]
        if np.count_nonzero(keep) < min(count, living):
            return self._scan(query, count, passing)
        return best(ids[keep], cosines[keep], count)

    def cosines(self, query: Vectors, ids: Ids) -> Vectors:
        """Exact cosines of `ids`, NaN for pages that are not here or dead."""
        result = np.full(len(ids), np.nan, np.float32)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        here = (self.ids[rows] == ids) & self.alive[rows]
        if here.any():
            result[here] = self._mapped.at(rows[here]) @ query
        return result

    def _scan(self, query: Vectors, count: int, passing: NDArray[np.bool_]) -> tuple[Ids, Vectors]:
        rows = np.flatnonzero(passing)
        cosines = np.concatenate(
            [self._mapped.at(rows[begin : begin + _SCAN_ROWS]) @ query for begin in range(0, len(rows), _SCAN_ROWS)]
        )
        return best(self.ids[rows], cosines, count)

    def _rows(self, ids: Ids) -> Ids:
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        found: Ids = rows[self.ids[rows] == ids]
        return found


class QueryScores(msgspec.Struct, frozen=True):
    """One query against the index: the best pages, and cosines of any others on demand."""

    ids: Ids
    cosines: Vectors
    parts: "IndexParts"
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


class IndexParts(msgspec.Struct, frozen=True):
    """Replaced whole when a part is, so that searching takes no lock; pages are buried in place."""

    rows: ExactRows
    base: HnswBase | None = None

    @staticmethod
    def empty(dimension: int) -> "IndexParts":
        return IndexParts(ExactRows.of(np.zeros(0, np.int64), np.zeros((0, dimension), np.float32)))

    def bury(self, ids: Ids) -> int:
        """Take pages out of the search; how many were in it."""
        if not len(ids):
            return 0
        return self.rows.bury(ids) + (self.base.bury(ids) if self.base else 0)

    def compare(self, query: Vectors, count: int, allowed: Ids | None = None) -> QueryScores:
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
        return QueryScores(best_ids, best_cosines, self, query, (ids, cosines) if base is None else None)

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
