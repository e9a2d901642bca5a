"""The nearest rows of pieces are those of the whole, in the same order, wherever the pieces are cut."""

import numpy as np
import pytest

from gaiad.archive.dense.exact_rows import ExactRows, best, nearest

ROWS, DIMENSION, COUNT = 57, 8, 7


def made(seed: int, rows: int) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(rows, DIMENSION)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


@pytest.mark.parametrize("rows_a_piece", [1, 3, 10, 56, 57, 1000])
def test_pieces_give_what_the_whole_gives(rows_a_piece: int) -> None:
    ids, matrix, queries = np.arange(100, 100 + ROWS), made(1, ROWS), made(2, 5)
    cuts = range(0, ROWS, rows_a_piece)
    pieces = ((ids[at : at + rows_a_piece], matrix[at : at + rows_a_piece]) for at in cuts)
    expected = [best(ids, row, COUNT)[0].tolist() for row in queries @ matrix.T]
    assert [found.tolist() for found in nearest(pieces, queries, COUNT)] == expected
    assert len({tuple(row) for row in expected}) > 1


def test_equals_of_different_pieces_come_by_their_id_and_fewer_than_asked_for_are_all() -> None:
    row = made(3, 1)
    pieces = [(np.array([9]), row), (np.array([4]), row), (np.array([6]), -row)]
    assert [found.tolist() for found in nearest(pieces, row, 2)] == [[4, 9]]
    assert [found.tolist() for found in nearest(pieces, row, 10)] == [[4, 9, 6]]
    assert [found.tolist() for found in nearest([], row, 10)] == [[]]


def test_rows_with_room_are_the_same_rows_and_take_more_without_moving() -> None:
    rows, more = ExactRows.of(np.arange(3), made(4, 3)), made(5, 4)
    rows.bury(np.array([1]))
    roomy = rows.with_room(4)
    grown = roomy.appended(np.arange(10, 14), more)
    assert np.shares_memory(roomy.matrix, grown.matrix)
    ids, matrix = grown.live()
    assert ids.tolist() == [0, 2, 10, 11, 12, 13]
    assert np.array_equal(matrix, np.concatenate((made(4, 3)[[0, 2]], more)))
    assert roomy.count == rows.count == 3
    assert roomy.with_room(2) is roomy
