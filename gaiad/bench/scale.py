"""`gaiad bench scale`: how ingest, search, memory and disk grow with the pages, over the socket of a daemon of its own.

The archive grows from size to size. Its words are made up, its vectors are made up too (embedding a million pages would
take a day), the queries are embedded by the real model. The daemon, its index and its search are the real ones.
"""

import asyncio
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gaiad.bench.daemon_process import running_daemon
from gaiad.bench.made_vectors import DESCRIPTION, Mixture
from gaiad.bench.scale_archive import PAGES_PER_PACKET, add_vectors, disk_bytes, index_vectors, own_space, take_in
from gaiad.bench.scale_latency import ALL, BRIEFING, HYBRID, MODES, Latency, measure_latencies
from gaiad.config import Config, load_config
from gaiad.errors import BadInput

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
            raise BadInput(f"--pages {pages}: use sizes from {PAGES_PER_PACKET} to {MOST_PAGES}")
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
