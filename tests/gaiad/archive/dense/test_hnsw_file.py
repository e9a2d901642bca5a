"""hnswlib's own file is read as it is written, and refused when it is something else."""

import hnswlib
import numpy as np
import pytest

from gaiad.archive.dense.hnsw_base import MappedVectors
from gaiad.archive.dense.vector_file import BrokenIndex


@pytest.fixture
def saved(tmp_path):
    """(path, ids rising, vectors) of an index whose pages were added in another order."""
    source = np.random.default_rng(2)
    ids = np.array([3, 9, 10, 400, 70_000_000_000], np.int64)
    rows = source.normal(size=(len(ids), 12)).astype(np.float32)
    index = hnswlib.Index(space="ip", dim=12)
    index.init_index(max_elements=9, M=8, ef_construction=20, random_seed=1)
    order = source.permutation(len(ids))
    index.add_items(rows[order], ids[order])
    path = tmp_path / "index.bin"
    index.save_index(str(path))
    return path, ids, rows


def test_vectors_come_back_by_their_pages(saved):
    path, ids, rows = saved
    mapped = MappedVectors(path, ids, 12)
    assert np.array_equal(mapped.at(np.arange(len(ids))), rows)
    assert np.array_equal(mapped.at(np.array([4, 0, 4])), rows[[4, 0, 4]])
    assert mapped.at(np.zeros(0, np.int64)).shape == (0, 12)
    path.unlink()
    assert np.array_equal(mapped.at(np.array([2])), rows[[2]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path, ids: (ids[:-1], 12), "different layout"),
        (lambda path, ids: (ids, 13), "different layout"),
        (lambda path, ids: (ids + 1, 12), "the pages on its list"),
        (lambda path, ids: (path.write_bytes(path.read_bytes()[:300]), (ids, 12))[1], "different layout"),
        (lambda path, ids: (path.write_bytes(b"short"), (ids, 12))[1], "too short"),
    ],
)
def test_another_file_is_refused(saved, change, words):
    path, ids, _ = saved
    wrong, dimension = change(path, ids)
    with pytest.raises(BrokenIndex, match=words):
        MappedVectors(path, wrong, dimension)
