"""`python -m tests.bench [MEASURE]...`: gaiad beside its rivals, soaks, crowds, the cost of a turn; not in the wheel.

`tests.bench.scale`, `tests.bench.proactive` and `tests.bench.support` run by themselves.
"""

import sys

from gaiad.bench.rows import run
from tests.bench.council import measure_council
from tests.bench.embedding import measure_embedding
from tests.bench.first_tokens import measure_cancel, measure_prefix
from tests.bench.generation import measure_generation, measure_server
from tests.bench.many_readers import measure_streams
from tests.bench.reply_forms import measure_forms
from tests.bench.routed_stream import measure_router
from tests.bench.soak import measure_soak
from tests.bench.turn_cost import measure_chat
from tests.bench.vectors import measure_vectors
from tests.bench.write_latency import measure_writes

MEASURES = {
    "chat": measure_chat,
    "embedding": measure_embedding,
    "vectors": measure_vectors,
    "generation": measure_generation,
    "server": measure_server,
    "prefix": measure_prefix,
    "cancel": measure_cancel,
    "forms": measure_forms,
    "soak": measure_soak,
    "council": measure_council,
    "router": measure_router,
    "streams": measure_streams,
    "writes": measure_writes,
}

if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--json"]
    run(names, MEASURES, as_json="--json" in sys.argv)
