"""The vectors inside hnswlib's own file, mapped into memory: its get_items takes 30 microseconds for each.

The file's layout is hnswlib's (`saveIndex`, the same since 0.3): a header, then for every vector its links, its numbers
and its label. What does not look like that is refused when it is opened.
"""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
            raise BrokenIndex(f"{path} is laid out in another way than hnswlib 0.8 does; install that version")
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
            raise BrokenIndex(f"{path} holds other pages than its list says")
        self._vectors = rows["vector"]

    def at(self, rows: NDArray[np.int64]) -> Vectors:
        """Copies of the vectors of the pages `ids[rows]`, (len(rows), dimension)."""
        found: Vectors = np.asarray(self._vectors[self._order[rows]], np.float32)
        return found
