"""The measurements of `make bench`, each returning rows of (what, value, unit, aim)."""

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from gaiad.bench.corpus import make_queries, write_packets
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.rows import Row

_PAGES_PER_PACKET = 10  # eight turns, a summary and the header group


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
    """Hybrid search over the socket, query embedding included, with the vector queue idle and while it drains."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        home, stored = Path(scratch) / "home", 0
        with running_daemon(home=home) as daemon:
            for pages in sizes:
                packets = pages // _PAGES_PER_PACKET
                folder = Path(scratch) / str(pages)
                write_packets(folder, stored, packets - stored)
                stored = packets
                daemon.ingest(folder)
                rows += _search_rows(daemon, pages, queries, draining=pages == sizes[-1])
            grown = daemon.status()["memory_bytes"] / 2**20
        with running_daemon(home=home) as daemon:
            _latencies(daemon, "", 100, "")
            settled = daemon.status()["memory_bytes"] / 2**20
    what = f"daemon memory at {sizes[-1]} pages with vectors, embedder apart"
    return [
        *rows,
        Row(what=what, value=settled, unit="MiB", aim="<= 110"),
        Row(what="  the same right after taking them all in", value=grown, unit="MiB"),
    ]


def _search_rows(daemon: BenchDaemon, pages: int, queries: int, *, draining: bool) -> list[Row]:
    aims = {1_000: "p95 <= 8", 10_000: "p95 <= 12"}
    rows = []
    if draining:
        rows += _latencies(daemon, f"hybrid, {pages} pages, vectors draining", queries, "p95 <= 60")
    started, waiting = time.perf_counter(), daemon.status()["queue"]
    daemon.await_vectors(1200)
    rate = waiting / (time.perf_counter() - started)
    rows += _latencies(daemon, f"hybrid, {pages} pages, queue idle", queries, aims.get(pages, ""))
    rows.append(Row(what=f"  vectors made, {pages} pages", value=rate, unit="pages/s"))
    return rows


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
    """Spawn to first answered request, on a home that holds `packets` packets with their vectors."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        home, folder = Path(scratch) / "home", Path(scratch) / "packets"
        write_packets(folder, 0, packets, turns=4, words_per_turn=15)
        with running_daemon(home=home) as daemon:
            daemon.ingest(folder)
            daemon.await_vectors(600)
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
