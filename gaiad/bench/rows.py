"""A table of measurements: one row each, printed as columns or JSON."""

import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gaiad.base.errors import BadInput


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


def run(names: Sequence[str], measures: "Mapping[str, Callable[[], list[Row]]]", *, as_json: bool = False) -> list[Row]:
    """Run the measures called `names` (all when none), print them, return their rows. Raises BadInput."""
    for name in names:
        if name not in measures:
            raise BadInput(f"bench {name}: unknown measure; use one of {', '.join(measures)}")
    rows: list[Row] = []
    for name in names or measures:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        found = measures[name]()
        rows += found
        if not as_json:
            print(format_table(found), flush=True)
    if as_json:
        print(msgspec.json.encode(rows).decode())
    return rows


def format_table(rows: Sequence[Row]) -> str:
    """Rows as aligned columns: what, value, unit, aim."""
    width = max((len(row.what) for row in rows), default=0)
    lines = [
        f"{row.what:<{width}}  {row.value:>10.2f} {row.unit:<10}" + (f" (aim {row.aim})" if row.aim else "")
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
