"""The measurements of `make bench`, each returning rows of (what, value, unit, aim)."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from gaiad.bench.corpus import make_queries, write_packets
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_vectors import Mixture
from gaiad.bench.rows import Row
from gaiad.bench.scale_archive import PAGES_PER_PACKET, add_vectors, own_space, take_in
from gaiad.config import load_config

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
    """Embedding through the worker beside a bare llama.cpp loop in the same run."""
    from gaiad.bench.embedding import measure

    figures = measure()
    return [
        Row(what="embedding through the worker", value=figures["worker_tokens_per_s"], unit="tokens/s"),
        Row(what="  bare llama.cpp loop, same texts, same run", value=figures["raw_tokens_per_s"], unit="tokens/s"),
        Row(what="  worker to bare loop", value=figures["ratio"], unit="ratio", aim=">= 0.95"),
        Row(what="embed one query, queue idle", value=figures["query_idle_ms_p95"], unit="ms p95"),
        Row(what="  while a batch is being embedded", value=figures["query_draining_ms_p95"], unit="ms p95"),
    ]
