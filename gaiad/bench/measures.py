"""`gaiad bench`: what this machine does with an archive; needs no running daemon. Rows: what, value, unit, aim."""

import asyncio
import itertools
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_archive import (
    PAGES_PER_PACKET,
    Mixture,
    add_vectors,
    make_queries,
    own_space,
    take_in,
    write_packets,
)
from gaiad.bench.rows import Row, percentile
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path

_EMBEDDED_QUERIES = 20
_COMMON_WORDS = """
packet memory council archive page vector daemon worker signal threshold evidence careful recursive pattern question
answer morning project window bridge garden letter market number system machine history river silver
"""
_SEARCH_AIMS = {1_000: "p95 <= 8", 10_000: "p95 <= 12"}


def measure_ingest(packets: int = 3000) -> list[Row]:
    """Packets made durable and searchable a second, in bulk, without vectors, beside bare SQLite on the same bytes."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        folder = Path(scratch) / "packets"
        size = write_packets(folder, 0, packets)
        bare = _bare_sqlite(folder, Path(scratch) / "bare.db")
        with running_daemon("embedder.kind=none") as daemon:
            started = time.perf_counter()
            job = daemon.ingest(folder)
            rate = packets / (time.perf_counter() - started)
            accepted = job["result"].get("accepted", 0)
    return [
        Row(what="bulk ingest, durable and searchable", value=rate, unit="packets/s", aim=">= 1000"),
        Row(what="  accepted of offered", value=accepted / packets, unit="share", aim="1"),
        Row(what="  mean packet", value=size / packets / 1024, unit="KiB"),
        Row(what="  bare SQLite storing the same bytes", value=bare, unit="packets/s"),
    ]


def _bare_sqlite(folder: Path, target: Path) -> float:
    """Rows a second of a loop that only reads the files and stores them, 256 a commit, synchronous=FULL."""
    files = sorted(folder.iterdir())
    connection = sqlite3.connect(target, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (body BLOB)")
    started = time.perf_counter()
    for first in range(0, len(files), 256):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO rows VALUES (?)", ((f.read_bytes(),) for f in files[first : first + 256]))
        connection.execute("COMMIT")
    took = time.perf_counter() - started
    connection.close()
    return len(files) / took


def measure_search(sizes: tuple[int, ...] = (1_000, 10_000), queries: int = 300) -> list[Row]:
    """Hybrid search over the socket, query embedding included, with the vector queue idle and while it drains.

    The pages' vectors are made up: embedding them would take longer than everything else. Only the queue that drains
    at the end has real ones to make, more than the queries give it time for.
    """
    rows, before = [], 0
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        home = Path(scratch) / "home"
        for pages in sizes:
            _grow(home, before, pages - before)
            before = pages
            with running_daemon(home=home) as daemon:
                daemon.await_embedder()
                rows += _latencies(daemon, f"hybrid, {pages} pages, queue idle", queries, _SEARCH_AIMS.get(pages, ""))
        with running_daemon(home=home) as daemon:
            daemon.await_embedder()
            _latencies(daemon, "", 100, "")
            settled = daemon.status()["memory_bytes"] / 2**20
            rows += _draining(daemon, Path(scratch) / "more", before, queries)
            grown = daemon.status()["memory_bytes"] / 2**20
    what = f"daemon memory at {before} pages with vectors, embedder apart"
    return [
        *rows,
        Row(what=what, value=settled, unit="MiB", aim="<= 110"),
        Row(what="  the same right after taking in a tenth more", value=grown, unit="MiB"),
    ]


def _grow(home: Path, before: int, pages: int) -> None:
    """Add `pages` made pages with made vectors to an archive of `before`."""
    config = load_config()
    space = own_space(config)
    asyncio.run(take_in(home, config, before // PAGES_PER_PACKET, pages // PAGES_PER_PACKET))
    add_vectors(home, space, Mixture(space.dimension))


def _draining(daemon: BenchDaemon, folder: Path, pages: int, queries: int) -> list[Row]:
    """Latencies while a tenth more pages are embedded, and how fast that goes beside the queries."""
    write_packets(folder, pages // PAGES_PER_PACKET, pages // PAGES_PER_PACKET // 10)
    daemon.ingest(folder)
    waiting, started = daemon.status()["queue"], time.perf_counter()
    rows = _latencies(daemon, f"hybrid, {pages} pages, vectors draining", queries, "p95 <= 60")
    left = daemon.status()["queue"]
    made = (waiting - left) / (time.perf_counter() - started)
    over = [] if left else [Row(what="  the queue was empty before the last query", value=1.0, unit="")]
    return [*rows, *over, Row(what="  vectors made meanwhile, in slices of 256", value=made, unit="pages/s")]


def _latencies(daemon: BenchDaemon, what: str, count: int, aim: str) -> list[Row]:
    samples, degraded = [], 0
    for query in make_queries(count, seed=count + len(what)):
        started = time.perf_counter()
        answer = daemon.client.post("/search", {"query": query, "limit": 10})
        samples.append((time.perf_counter() - started) * 1000)
        degraded += bool(answer["degraded"])
    samples.sort()
    return [
        Row(what=what, value=statistics.median(samples), unit="ms p50"),
        Row(what="", value=samples[int(len(samples) * 0.95)], unit="ms p95", aim=aim),
        *([Row(what="  answered without vectors", value=degraded / count, unit="share", aim="0")] if degraded else []),
    ]


def measure_start(packets: int = 1000, rounds: int = 5) -> list[Row]:
    """Spawn to first answered request, on a home that holds `packets` packets with (made-up) vectors."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        home = Path(scratch) / "home"
        config = load_config()
        space = own_space(config)
        asyncio.run(take_in(home, config, 0, packets, turns=4, words_per_turn=15))
        add_vectors(home, space, Mixture(space.dimension))
        with running_daemon(home=home):
            pass  # writes the index of what was added
        times = []
        for _ in range(rounds):
            with running_daemon(home=home) as daemon:
                times.append(daemon.start_s)
    return [Row(what=f"start to ready, {packets} packets", value=statistics.median(times), unit="s", aim="<= 1.0")]


def measure_embedding() -> list[Row]:
    """Pages embedded a second by the worker, and how long a question's vector takes, with the queue idle and full."""
    return asyncio.run(_embedding(default_model_path(os.environ)))


async def _embedding(model: Path) -> list[Row]:
    async with open_embedder(model) as embedder:
        pages = made_texts(1)
        started = time.perf_counter()
        await embedder.embed(pages, RequestContext(priority=Priority.BACKGROUND))
        rate = len(pages) / (time.perf_counter() - started)
        idle, busy = await query_ms(embedder, "idle"), await query_ms_while_busy(embedder)
    return [
        Row(what="embedding pages of 20 to 220 words", value=rate, unit="pages/s"),
        Row(what="embed one query, queue idle", value=percentile(idle), unit="ms p95"),
        Row(what="  while pages are being embedded", value=percentile(busy), unit="ms p95"),
    ]


@asynccontextmanager
async def open_embedder(model: Path) -> AsyncIterator[WorkerEmbedder]:
    """The embedding worker of a daemon with the default settings, ready. Raises BadInput, Unavailable."""
    config = load_config().embedder
    embedder = WorkerEmbedder(model, config, SystemClock("UTC"))
    await embedder.start()
    try:
        await embedder.wait_ready(config.start_timeout_s)
        yield embedder
    finally:
        await embedder.close()


async def query_ms(embedder: WorkerEmbedder, label: str) -> list[float]:
    """Milliseconds of queries never asked before, one after the other."""
    took, words = [], _COMMON_WORDS.split()
    for number in range(_EMBEDDED_QUERIES):
        started = time.perf_counter()
        await embedder.embed(
            [f"what did the {label} {words[number % len(words)]} say in week {number}"], RequestContext()
        )
        took.append((time.perf_counter() - started) * 1000.0)
    return took


async def query_ms_while_busy(embedder: WorkerEmbedder) -> list[float]:
    """The same while pages are being embedded without a pause."""

    async def drain() -> None:
        for number in itertools.count(1000):
            await embedder.embed(made_texts(number)[:16], RequestContext(priority=Priority.BACKGROUND))

    async with TaskGroup("bench") as tasks:
        tasks.start("drain", drain())
        await asyncio.sleep(0.2)
        return await query_ms(embedder, "busy")


def made_texts(seed: int) -> list[str]:
    """Forty texts of common words, the same for the same seed."""
    source, words = random.Random(seed), _COMMON_WORDS.split()
    return [" ".join(source.choices(words, k=source.randint(20, 220))) for _ in range(40)]


MEASURES = {
    "embedding": measure_embedding,
    "ingest": measure_ingest,
    "start": measure_start,
    "search": measure_search,
}
