"""Builds an hnswlib index in a child process: minutes of work on every core, and a crash in it must not be ours.

Run as `python -m gaiad.archive.dense.hnsw_build DATABASE SPACE FINGERPRINT FOLDER`. Prints the manifest as JSON. Recall
against the exact scan is measured on a sample and the search width raised until it suffices; exit status 3 when it
never does.
"""

import sqlite3
import sys
from pathlib import Path

import hnswlib
import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense import vector_file, vectors
from gaiad.archive.storing.catalogue import read_version
from gaiad.store.database import connect

LINKS = 16
BUILD_WIDTH = 200
SEARCH_WIDTHS = (200, 400, 800)
SAMPLE_QUERIES = 200
RECALL_FLOOR = 0.95
RECALL_AT = 10
EXIT_LOW_RECALL = 3


def build(connection: sqlite3.Connection, space: int, fingerprint: str, folder: Path) -> vector_file.Manifest | None:
    """Index every live vector of the space; None when recall stays below the floor. Writes no manifest."""
    connection.execute("BEGIN")
    (dimension,) = connection.execute("SELECT dimension FROM vector_spaces WHERE id = ?", (space,)).fetchone()
    change = read_version(connection).pages
    pages = vectors.live_pages(connection, space)
    chunks = list(vectors.read_vectors(connection, space, pages, dimension))
    connection.execute("ROLLBACK")
    ids = np.concatenate([chunk for chunk, _ in chunks])
    matrix = np.concatenate([rows for _, rows in chunks])
    del chunks
    index = hnswlib.Index(space="ip", dim=dimension)
    index.init_index(max_elements=len(ids), M=LINKS, ef_construction=BUILD_WIDTH, random_seed=1)
    index.add_items(matrix, ids)
    width, recall = choose_width(index, ids, matrix)
    if recall < RECALL_FLOOR:
        return None
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = vector_file.new_name(folder, "hnsw")
    index.save_index(str(path))
    return vector_file.Manifest(
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


def choose_width(index: "hnswlib.Index", ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> tuple[int, float]:
    """The smallest search width whose recall@10 reaches the floor on sampled vectors, moved a little; that recall."""
    random = np.random.default_rng(1)
    sample = matrix[random.choice(len(matrix), min(SAMPLE_QUERIES, len(matrix)), replace=False)]
    queries = sample + random.normal(0, 0.5 / np.sqrt(matrix.shape[1]), sample.shape).astype(np.float32)
    count = min(RECALL_AT, len(ids))
    truth = [set(ids[np.argpartition(-(matrix @ query), count - 1)[:count]].tolist()) for query in queries]
    recall = 0.0
    for width in SEARCH_WIDTHS:
        index.set_ef(width)
        found, _ = index.knn_query(queries, k=count)
        recall = sum(len(wanted & set(row.tolist())) for wanted, row in zip(truth, found, strict=True)) / (
            count * len(truth)
        )
        if recall >= RECALL_FLOOR:
            return width, recall
    return SEARCH_WIDTHS[-1], recall


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
