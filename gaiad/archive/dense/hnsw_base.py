"""An hnswlib index as gaiad uses it: built elsewhere, checked before it is loaded, read only, tombstones beside it."""

from pathlib import Path

import hnswlib
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense import vector_file
from gaiad.archive.dense.exact_rows import best, membership
from gaiad.archive.dense.hnsw_file import MappedVectors

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
_SCAN_ROWS = 20_000
_FEW_ROWS = 2_000
_MOST_WANTED = 512


class HnswBase:
    """Approximate neighbours over the pages `ids`. Nothing is ever added, so any number of threads may search."""

    def __init__(self, folder: Path, manifest: vector_file.Manifest) -> None:
        """Load the verified files. Raises vector_file.BrokenIndex."""
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
