"""Builds an hnswlib index in a child process: minutes of work on every core, and a crash in it must not be ours.

Run as `python -m gaiad.archive.dense.hnsw_build DATABASE SPACE FINGERPRINT FOLDER`. Prints the manifest as JSON. Recall
against the exact scan is measured on a sample and the search width raised until it suffices; exit status 3 when it
never does.
"""

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense import vector_file, vectors
from gaiad.archive.dense.exact_rows import nearest
from gaiad.archive.storing.catalogue import read_version
from gaiad.store.database import connect

if TYPE_CHECKING:
    import hnswlib

SHAPES = ((16, 200), (32, 400))
"""(links, build width) of a graph; the denser one costs two to four times as much and is built when the first fails."""
SEARCH_WIDTHS = (100, 200, 400, 800, 1600)
SAMPLE_QUERIES = 200
RECALL_FLOOR = 0.95
RECALL_SOUGHT = 0.97
"""A width is chosen with something to spare: questions lie farther from pages than the sample does."""
RECALL_AT = 10
EXIT_LOW_RECALL = 3
_SCAN_ROWS = 20_000

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]


def build(
    connection: sqlite3.Connection, space: int, fingerprint: str, folder: Path
) -> vector_file.VectorManifest | None:
    """Index every live vector of the space; None when recall stays below the floor. Writes no manifest.

    The graph's own copy of the vectors is the only one: a million of 384 numbers are 1.7 GiB.
    """
    import hnswlib  # the daemon reads this module's constants, also before hnswlib is compiled

    connection.execute("BEGIN")
    (dimension,) = connection.execute("SELECT dimension FROM vector_spaces WHERE id = ?", (space,)).fetchone()
    change = read_version(connection).pages
    pages = vectors.live_pages(connection, space)
    connection.execute("ROLLBACK")  # no snapshot is held for minutes: a page rewritten from now on moves `change`
    for links, build_width in SHAPES:
        index = hnswlib.Index(space="ip", dim=dimension)
        index.init_index(max_elements=len(pages), M=links, ef_construction=build_width, random_seed=1)
        for some, rows in vectors.read_vectors(connection, space, pages, dimension):
            index.add_items(rows, some)
        width, recall = choose_width(index)
        if recall >= RECALL_FLOOR:
            break
    else:
        return None
    ids = _held(index)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = vector_file.new_name(folder, "hnsw")
    index.save_index(str(path))
    return vector_file.VectorManifest(
        kind="hnsw",
        fingerprint=fingerprint,
        dimension=dimension,
        count=len(ids),
        pages_change=change,
        ids=vector_file.write_data(folder, "ids", np.ascontiguousarray(ids, "<i8").data),
        rows=vector_file.describe(path),
        search_width=width,
        recall=recall,
    )


def choose_width(index: "hnswlib.Index") -> tuple[int, float]:
    """The smallest search width whose recall@10 reaches what is sought, else the greatest; with that recall.

    Asked about are sampled vectors, moved as far as they are long: a question is like its page, not the same.
    """
    ids, random = _held(index), np.random.default_rng(1)
    sample = _vectors(index, random.choice(ids, min(SAMPLE_QUERIES, len(ids)), replace=False))
    queries = sample + random.normal(0, 1 / np.sqrt(sample.shape[1]), sample.shape).astype(np.float32)
    count = min(RECALL_AT, len(ids))
    truth = [row.tolist() for row in nearest(_pieces(index, ids), queries, count)]
    recall = 0.0
    for width in SEARCH_WIDTHS:
        index.set_ef(width)
        found, _ = index.knn_query(queries, k=count)
        shares = [len(set(wanted) & set(row)) / count for wanted, row in zip(truth, found.tolist(), strict=True)]
        recall = sum(shares) / len(shares)
        if recall >= RECALL_SOUGHT:
            return width, recall
    return SEARCH_WIDTHS[-1], recall


def _pieces(index: "hnswlib.Index", ids: Ids) -> Iterator[tuple[Ids, Vectors]]:
    """The vectors of `ids`, some at a time: the graph holds the only copy of all."""
    for begin in range(0, len(ids), _SCAN_ROWS):
        some = ids[begin : begin + _SCAN_ROWS]
        yield some, _vectors(index, some)


def _held(index: "hnswlib.Index") -> Ids:
    """The ids in the index, rising."""
    return np.sort(np.array(index.get_ids_list(), np.int64))


def _vectors(index: "hnswlib.Index", ids: Ids) -> Vectors:
    return np.asarray(index.get_items(ids, return_type="numpy"), np.float32)


def main(arguments: list[str]) -> int:
    database, space, fingerprint, folder = arguments
    connection = connect(Path(database), read_only=True)
    try:
        manifest = build(connection, int(space), fingerprint, Path(folder))
    finally:
        connection.close()
    if manifest is None:
        return EXIT_LOW_RECALL
    sys.stdout.buffer.write(msgspec.json.encode(manifest))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
