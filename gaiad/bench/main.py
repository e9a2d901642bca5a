"""`gaiad bench`: run measurements and print one table (or JSON). Nothing here needs a running daemon."""

import sys
from collections.abc import Callable, Sequence

import msgspec

from gaiad.bench.conversation import measure_chat
from gaiad.bench.council import measure_council
from gaiad.bench.first_tokens import measure_cancel, measure_prefix
from gaiad.bench.generation import measure_generation, measure_server
from gaiad.bench.grammar import measure_grammar
from gaiad.bench.many_readers import measure_streams
from gaiad.bench.measures import measure_embedding, measure_ingest, measure_search, measure_start
from gaiad.bench.routed_stream import measure_router
from gaiad.bench.rows import Row
from gaiad.bench.soak import measure_soak
from gaiad.bench.vectors import measure_vectors
from gaiad.errors import BadInput

MEASURES: dict[str, Callable[[], list[Row]]] = {
    "embedding": measure_embedding,
    "ingest": measure_ingest,
    "start": measure_start,
    "search": measure_search,
    "vectors": measure_vectors,
    "generation": measure_generation,
    "server": measure_server,
    "prefix": measure_prefix,
    "cancel": measure_cancel,
    "grammar": measure_grammar,
    "soak": measure_soak,
    "chat": measure_chat,
    "council": measure_council,
    "router": measure_router,
    "streams": measure_streams,
}


def run(names: Sequence[str] = (), *, as_json: bool = False) -> list[Row]:
    """Run the measures called `names` (all when none), print them, return their rows. Raises BadInput."""
    for name in names:
        if name not in MEASURES:
            raise BadInput(f"bench {name}: no such measure; known: {', '.join(MEASURES)}")
    rows: list[Row] = []
    for name in names or MEASURES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        found = MEASURES[name]()
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
