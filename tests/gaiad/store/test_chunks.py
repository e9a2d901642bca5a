"""Lists for statements: everything once, in order, and never more than a statement takes."""

import sqlite3

import pytest

from gaiad.store.chunks import chunks, marks


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1234])
def test_every_value_comes_once_in_order(count: int) -> None:
    found = list(chunks(range(count)))
    assert [value for chunk in found for value in chunk] == list(range(count))
    assert all(0 < len(chunk) <= 500 for chunk in found)
    assert len(found) == -(-count // 500)


def test_a_chunk_fits_its_marks() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        for chunk in chunks(range(1001)):
            statement = f"SELECT {chunk[0]} IN ({marks(chunk)}), 5000 IN ({marks(chunk)})"
            assert connection.execute(statement, chunk * 2).fetchone() == (1, 0)
    finally:
        connection.close()
