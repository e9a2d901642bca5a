"""How ingest, search, memory and disk grow with the pages, over the socket of a daemon of its own:
`python -m tests.bench.scale [--json] [PAGES[,PAGES]...] [QUESTIONS]`.

The archive grows from size to size. Its words are made up, its vectors are made up too (embedding a million pages would
take a day), the queries are embedded by the real model. The daemon, its index and its search are the real ones.
"""

import asyncio
import math
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.dense import exact_rows, vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import SystemClock, to_epoch_ms
from gaiad.base.config import Config, load_config
from gaiad.base.errors import BadInput
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_archive import (
    BANDS,
    CLUSTERS,
    PAGES_PER_PACKET,
    Mixture,
    Space,
    Vectors,
    add_vectors,
    make_queries,
    open_tenant,
    own_space,
    take_in,
)
from gaiad.bench.rows import percentile
from gaiad.client.client import Client

DESCRIPTION = f"made up: a mixture of {CLUSTERS} clusters of unequal size, cosine inside one about 0.5; no embeddings"
RECALL_AT = 10
_QUERY_STREAM = 1 << 40  # page ids are below

ALL = "all"
LEXICAL, DENSE, HYBRID = "lexical", "dense", "hybrid"
KNOWN_VECTOR = "hybrid, query vector known"
BRIEFING = "build_context"
ASK = "ask"
MODES = (LEXICAL, DENSE, HYBRID, KNOWN_VECTOR, BRIEFING, ASK)
_WARM_UP = 30
_LIMIT = 10
Ask = Callable[[Client, str], bool]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds over the socket, one question after the other. `words` is the band asked about, or "all"."""

    mode: str
    words: str
    questions: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Asked(msgspec.Struct, frozen=True):
    """All latencies of one daemon; by mode the milliseconds of its own processor time a question; how many of its
    answers had to do without something, as a share."""

    latencies: list[Latency]
    processor_ms: dict[str, float]
    degraded: float


def measure_latencies(daemon: BenchDaemon, questions: int, seed: int) -> Asked:
    """Every mode in turn. The text of a hybrid question is new to the embedder, that of the next mode known to it."""
    for band in queries_by_band(_WARM_UP, seed + 1).values():
        for query in band:
            _search(daemon.client, query, "hybrid")
    found: list[Latency] = []
    processor: dict[str, float] = {}
    degraded = asked = 0
    for mode, shift, ask in _ASKING:
        bands = queries_by_band(questions, seed + shift)
        began = daemon.processor_s()
        samples, missed = _timed(daemon.client, bands, ask)
        count = sum(len(band) for band in samples.values())
        processor[mode] = round((daemon.processor_s() - began) * 1000 / count, 2)
        found += summary(mode, samples)
        degraded, asked = degraded + missed, asked + count
    return Asked(found, processor, degraded / asked)


def summary(mode: str, samples: Mapping[str, Sequence[float]]) -> list[Latency]:
    """The percentiles of all milliseconds together, then of each band."""
    every = [each for band in samples.values() for each in band]
    return [
        Latency(
            mode=mode,
            words=words,
            questions=len(some),
            p50_ms=round(percentile(some, 0.5), 2),
            p95_ms=round(percentile(some, 0.95), 2),
            p99_ms=round(percentile(some, 0.99), 2),
        )
        for words, some in ((ALL, every), *samples.items())
    ]


def _timed(client: Client, bands: Mapping[str, list[str]], ask: Ask) -> tuple[dict[str, list[float]], int]:
    """Milliseconds by band, and how many answers were degraded. Bands take turns: a busy moment strikes all alike."""
    samples: dict[str, list[float]] = {band: [] for band in bands}
    degraded = 0
    for together in zip(*bands.values(), strict=True):
        for band, query in zip(bands, together, strict=True):
            began = time.perf_counter()
            missed = ask(client, query)
            samples[band].append((time.perf_counter() - began) * 1000)
            degraded += missed
    return samples, degraded


def _search(client: Client, query: str, mode: str) -> bool:
    """Ask; True when the answer had to do without something."""
    return bool(client.post("/search", {"query": query, "limit": _LIMIT, "mode": mode})["degraded"])


def _brief(client: Client, query: str) -> bool:
    client.post("/memory/build_context", {"tenantId": "local", "request": query})
    return False


def _ask(client: Client, query: str) -> bool:
    return bool(client.post("/research", {"query": query})["degraded"])


_ASKING: tuple[tuple[str, int, Ask], ...] = (
    (LEXICAL, 2, lambda client, query: _search(client, query, "bm25")),
    (DENSE, 3, lambda client, query: _search(client, query, "dense")),
    (HYBRID, 4, lambda client, query: _search(client, query, "hybrid")),
    (KNOWN_VECTOR, 4, lambda client, query: _search(client, query, "hybrid")),
    (BRIEFING, 9, _brief),
    (ASK, 10, _ask),
)
"""Modes in their order, with what is added to the seed of their questions: the same questions have known vectors."""


AIMS_P95_MS = {1_000: 8.0, 10_000: 12.0, 100_000: 25.0, 1_000_000: 60.0}
"""For hybrid search over the socket, query embedding included."""
BRIEFING_AIM_MS = {100_000: 60.0}
RECALL_AIM = 0.95
DEFAULT_SIZES = (1_000, 10_000, 100_000)
DEFAULT_QUESTIONS = 300
MOST_PAGES = 10_000_000
_SEED = 101


class ScalePoint(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at one size: rates of what was added since the one before, memory without the embedder."""

    pages: int
    vectors: int
    ingest_pages_per_s: float
    index: str
    index_s: float
    dense_recall_at_10: float
    start_s: float
    daemon_memory_mib: float
    disk_mib: float
    degraded_share: float
    busy: float
    problems: list[str]
    latencies: list[Latency]
    processor_ms: dict[str, float]


class ScaleReport(msgspec.Struct, frozen=True, kw_only=True):
    """All sizes. `growth` is, by mode, the slope of log(p95 ms) over log(pages): 0 does not grow, 1 in proportion;
    `processor_growth` the same of the daemon's processor time, which other work on the machine hardly adds to."""

    vectors: str
    cores: int
    points: list[ScalePoint]
    growth: dict[str, float]
    processor_growth: dict[str, float]


def run_scale(sizes: Sequence[int], *, questions: int, as_json: bool) -> None:
    """Measure and print, a size at a time, or all as JSON. Raises BadInput, NotFound (no embedding model)."""
    sizes = check_sizes(sizes)
    points: list[ScalePoint] = []
    if not as_json:
        print(f"vectors: {DESCRIPTION}\nqueries: embedded by the model\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        for pages, before in zip(sizes, (0, *sizes), strict=False):
            points.append(measure_size(Path(scratch) / "home", pages, before, questions))
            if not as_json:
                print("\n".join(table(points[-1])) + "\n", flush=True)
    report = ScaleReport(
        vectors=DESCRIPTION,
        cores=os.cpu_count() or 1,
        points=points,
        growth=growth(points, _p95),
        processor_growth=growth(points, lambda point, mode: point.processor_ms.get(mode)),
    )
    if as_json:
        print(msgspec.json.encode(report).decode())
    elif report.growth:
        print("growth with pages (0: none, 1: in proportion) of p95, and of the daemon's processor time")
        for mode, slope in report.growth.items():
            print(f"  {mode:<30} {slope:>6.2f} {report.processor_growth.get(mode, 0.0):>6.2f}")


def check_sizes(sizes: Sequence[int]) -> list[int]:
    """Rising and different. Raises BadInput for a size that cannot be made."""
    for pages in sizes:
        if not PAGES_PER_PACKET <= pages <= MOST_PAGES:
            raise BadInput(f"{pages} pages: use sizes from {PAGES_PER_PACKET} to {MOST_PAGES}")
    return sorted(set(sizes))


def measure_size(home: Path, pages: int, before: int, questions: int, config: Config | None = None) -> ScalePoint:
    """Grow the archive in `home` from `before` to about `pages` pages and measure it. Blocks for minutes."""
    config = config or load_config()
    space = own_space(config)
    mixture = Mixture(space.dimension)
    first, last = before // PAGES_PER_PACKET, pages // PAGES_PER_PACKET
    took = asyncio.run(take_in(home, config, first, last - first))
    added = add_vectors(home, space, mixture)
    indexed = index_vectors(home, config, space, mixture)
    with running_daemon("memory.gam_enabled=true", home=home) as daemon:
        daemon.await_embedder()
        asked = measure_latencies(daemon, questions, _SEED)
        memory_mib, start_s = daemon.status()["memory_bytes"] / 2**20, daemon.start_s
    return ScalePoint(
        pages=pages,
        vectors=indexed.vectors,
        ingest_pages_per_s=round(added / took, 1),
        index=indexed.kind,
        index_s=round(indexed.seconds, 2),
        dense_recall_at_10=round(indexed.recall, 4),
        start_s=round(start_s, 2),
        daemon_memory_mib=round(memory_mib, 1),
        disk_mib=round(disk_bytes(home) / 2**20, 1),
        degraded_share=round(asked.degraded, 4),
        busy=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
        problems=indexed.problems,
        latencies=asked.latencies,
        processor_ms=asked.processor_ms,
    )


def growth(points: Sequence[ScalePoint], value: Callable[[ScalePoint, str], float | None]) -> dict[str, float]:
    """By mode, the slope of the line of least squares through log(value) over log(pages); {} for a single size."""
    slopes = {}
    for mode in MODES:
        found = [(point.pages, value(point, mode)) for point in points]
        places = [(math.log(pages), math.log(max(one, 0.01))) for pages, one in found if one is not None]
        if len(places) > 1:
            slopes[mode] = round(_slope(places), 3)
    return slopes


def _p95(point: ScalePoint, mode: str) -> float | None:
    return next((one.p95_ms for one in point.latencies if (one.mode, one.words) == (mode, ALL)), None)


def _slope(places: Sequence[tuple[float, float]]) -> float:
    mean_x = sum(x for x, _ in places) / len(places)
    mean_y = sum(y for _, y in places) / len(places)
    across = sum((x - mean_x) ** 2 for x, _ in places)
    return sum((x - mean_x) * (y - mean_y) for x, y in places) / across if across else 0.0


def table(point: ScalePoint) -> list[str]:
    """One size as lines: what it took, then milliseconds by mode and words."""
    lines = [
        f"{point.pages} pages, {point.vectors} vectors ({point.index} index, {point.index_s} s to make)",
        f"  ingest {point.ingest_pages_per_s:.0f} pages/s, start {point.start_s} s,"
        f" daemon {point.daemon_memory_mib} MiB, disk {point.disk_mib} MiB, load a core {point.busy}",
        f"  dense recall@10 of the exact scan {point.dense_recall_at_10:.3f} (aim >= {RECALL_AIM})",
        *([f"  answered without vectors: {point.degraded_share:.1%}"] if point.degraded_share else []),
        *(f"  problem: {problem}" for problem in point.problems),
        f"  {'milliseconds':<28} {'words':<9} {'p50':>8} {'p95':>8} {'p99':>8}  daemon's processor",
    ]
    for each in point.latencies:
        own, aim = point.processor_ms.get(each.mode), _aim(point.pages, each)
        lines.append(
            f"  {each.mode:<28} {each.words:<9} {each.p50_ms:>8.2f} {each.p95_ms:>8.2f} {each.p99_ms:>8.2f}"
            + (f" {own:>8.2f}" if own is not None and each.words == ALL else "")
            + (f"  (aim p95 <= {aim:g})" if aim else "")
        )
    return lines


def _aim(pages: int, latency: Latency) -> float:
    if latency.words != ALL:
        return 0.0
    aims = {HYBRID: AIMS_P95_MS, BRIEFING: BRIEFING_AIM_MS}.get(latency.mode, {})
    return aims.get(pages, 0.0)


def queries_by_band(count: int, seed: int) -> dict[str, list[str]]:
    """The same questions, `count` in all, under the name of how common their words are."""
    made = make_queries(count, seed)
    return {band: made[number :: len(BANDS)] for number, band in enumerate(BANDS)}


def recall(found: list[set[int]], truth: list[set[int]]) -> float:
    """The mean share of the true neighbours that were found; 1.0 when there is nothing to find."""
    shares = [len(some & wanted) / len(wanted) for some, wanted in zip(found, truth, strict=True) if wanted]
    return sum(shares) / len(shares) if shares else 1.0


class Indexed(msgspec.Struct, frozen=True):
    """The dense index after a build or snapshot: its kind, seconds that took, and recall@10 of the exact scan."""

    kind: str
    vectors: int
    seconds: float
    recall: float
    problems: list[str]


def index_vectors(home: Path, config: Config, space: Space, mixture: Mixture, queries: int = 100) -> Indexed:
    """Build or write the dense index, and hold it against the exact scan for queries from the same mixture."""
    tenant = open_tenant(home)
    try:
        index = VectorIndex(tenant, space.fingerprint, space.dimension, config.archive.exact_scan_max)
        index.load(to_epoch_ms(SystemClock("UTC").now()))
        began = time.perf_counter()
        if index.wants_build:
            index.build_base()
        else:
            index.snapshot()
        seconds = time.perf_counter() - began
        asked = mixture.draw(queries, _QUERY_STREAM)
        found = [set(index.search(query, RECALL_AT)[0].tolist()) for query in asked]
        truth = [set(ids.tolist()) for ids in nearest(tenant, space, asked, RECALL_AT)]
        return Indexed(index.kind, index.count, seconds, recall(found, truth), index.problems)
    finally:
        tenant.file.close()


def nearest(tenant: Tenant, space: Space, queries: Vectors, count: int) -> Sequence[NDArray[np.int64]]:
    """The ids of the `count` nearest pages of each query, by the vectors as stored in the database."""

    def scan(connection: sqlite3.Connection) -> list[NDArray[np.int64]]:
        number = vectors.space_called(connection, space.fingerprint)
        pages = vectors.live_pages(connection, number)
        return exact_rows.nearest(vectors.read_vectors(connection, number, pages, space.dimension), queries, count)

    return tenant.file.read(scan)


def disk_bytes(home: Path) -> int:
    """Bytes of all files under `home`."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def main(arguments: Sequence[str]) -> None:
    """`[--json] [PAGES[,PAGES]...] [QUESTIONS]`."""
    said = [argument for argument in arguments if argument != "--json"]
    sizes = [int(number) for number in said[0].split(",")] if said else DEFAULT_SIZES
    questions = int(said[1]) if len(said) > 1 else DEFAULT_QUESTIONS
    run_scale(sizes, questions=questions, as_json="--json" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
