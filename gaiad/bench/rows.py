"""One line of a measurement's table."""

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`aim` is what the project wants on a two-core machine, "" where none is set."""

    what: str
    value: float
    unit: str
    aim: str = ""
