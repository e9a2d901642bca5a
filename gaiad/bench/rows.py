"""One line of a measurement's table."""

from collections.abc import Sequence

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`aim` is what the project wants on a two-core machine, "" where none is set."""

    what: str
    value: float
    unit: str
    aim: str = ""


def percentile(values: Sequence[float], share: float = 0.95) -> float:
    """The smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
