"""Other vector stores as `tests.bench vectors` asks them: each filled once, then by settings from narrow to wide.

A setting is its name and a function from a query to the ids of its nearest vectors. The libraries are handed in: they
are not dependencies of gaiad, and nothing here imports one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense.hnsw_build import SHAPES

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
Ask = Callable[[Vectors], list[int]]
Prepare = Callable[[Any, Path, Ids, Vectors, int, int], Iterator[tuple[str, Ask]]]
_LINKS, _BUILD_WIDTH = SHAPES[0]
_WIDTHS = (50, 100, 200, 400, 800)
_PROBES = (5, 10, 20, 40, 80)
_ADDED_AT_ONCE = 5000


def chromadb_settings(
    chromadb: Any, folder: Path, ids: Ids, matrix: Vectors, count: int, _scan_max: int
) -> Iterator[tuple[str, Ask]]:
    """Collections with the graph that gaiad builds first, each asked with a wider search; it scans nowhere.

    Every width has a collection of its own: chromadb takes the width of an open one from when it was made.
    """
    client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))
    for width in _WIDTHS:
        shape = {"space": "ip", "max_neighbors": _LINKS, "ef_construction": _BUILD_WIDTH, "ef_search": width}
        collection = client.create_collection(f"made-{width}", configuration={"hnsw": shape}, embedding_function=None)
        for begin in range(0, len(ids), _ADDED_AT_ONCE):
            end = begin + _ADDED_AT_ONCE
            collection.add(ids=[str(page) for page in ids[begin:end]], embeddings=matrix[begin:end])

        def ask(query: Vectors, collection: Any = collection) -> list[int]:
            found = collection.query(query_embeddings=[query], n_results=count, include=[])
            return [int(page) for page in found["ids"][0]]

        yield f"hnsw, ef_search {width}", ask


def lancedb_settings(
    lancedb: Any, folder: Path, ids: Ids, matrix: Vectors, count: int, scan_max: int
) -> Iterator[tuple[str, Ask]]:
    """A table: scanned up to `scan_max` as gaiad does, above that with lancedb's HNSW index, asked with more and more
    probes.
    """
    rows = [{"page": int(page), "vector": vector} for page, vector in zip(ids, matrix, strict=True)]
    table = lancedb.connect(str(folder)).create_table("made", rows)
    scanned = len(ids) <= scan_max
    if not scanned:
        table.create_index(metric="dot", index_type="IVF_HNSW_SQ", m=_LINKS, ef_construction=_BUILD_WIDTH)

    def asking(probes: int) -> Ask:
        def ask(query: Vectors) -> list[int]:
            search = table.search(query).distance_type("dot").select(["page", "_distance"]).limit(count)
            if probes:
                search = search.nprobes(probes).refine_factor(5)
            return [int(page) for page in search.to_arrow()["page"].to_pylist()]

        return ask

    if scanned:
        yield "flat scan", asking(0)
        return
    for probes in _PROBES:
        yield f"IVF_HNSW_SQ, {probes} probes, refined", asking(probes)


ENGINES: dict[str, Prepare] = {"chromadb": chromadb_settings, "lancedb": lancedb_settings}
