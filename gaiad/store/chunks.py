"""Values for a statement, some at a time: SQLite bounds how many one may take, and a long list is no reason to fail."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_AT_ONCE = 500
_Value = TypeVar("_Value")


def chunks(values: Sequence[_Value]) -> Iterator[list[_Value]]:
    """All of `values` in order, at most 500 in a list; no list at all for none."""
    for start in range(0, len(values), _AT_ONCE):
        yield list(values[start : start + _AT_ONCE])


def marks(values: Sequence[object]) -> str:
    """A question mark for each of `values`, to stand in `IN (...)`."""
    return ", ".join("?" * len(values))
