"""Counters and latency histograms kept in process: `status` summarises them, `GET /metrics` has them whole."""

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

import msgspec

BOUNDS_MS = (1, 2, 4, 8, 12, 16, 25, 40, 60, 100, 200, 400, 1000, 2500, 5000, 10000, 30000, 60000)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram's summary; percentiles are the upper bound of their bucket, in milliseconds."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """How many observations were at most `BOUNDS_MS[i]` and above the bound before; the last count is of those above
    all bounds.
    """

    counts: list[int]
    sum_ms: float


class Metrics:
    """Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: defaultdict[str, int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = {}
        self._sums: defaultdict[str, float] = defaultdict(float)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to the counter `name`."""
        with self._lock:
            self._counters[name] += amount

    def observe_ms(self, name: str, milliseconds: float) -> None:
        """Record one latency under `name`."""
        with self._lock:
            buckets = self._buckets.setdefault(name, [0] * (len(BOUNDS_MS) + 1))
            buckets[bisect_left(BOUNDS_MS, milliseconds)] += 1
            self._sums[name] += milliseconds

    def counters(self) -> dict[str, int]:
        """All counters by name."""
        with self._lock:
            return dict(self._counters)

    def histograms(self) -> dict[str, Histogram]:
        """All histograms by name, bucket by bucket."""
        with self._lock:
            return {
                name: Histogram(counts=list(buckets), sum_ms=self._sums[name])
                for name, buckets in self._buckets.items()
            }

    def latencies(self) -> dict[str, Latency]:
        """What there is to say of each histogram, by name."""
        with self._lock:
            return {name: _summary(buckets, self._sums[name]) for name, buckets in self._buckets.items()}


def _summary(buckets: list[int], total_ms: float) -> Latency:
    count = sum(buckets)
    return Latency(
        count=count,
        mean_ms=round(total_ms / count, 3),
        p50_ms=_percentile(buckets, count * 0.50),
        p95_ms=_percentile(buckets, count * 0.95),
    )


def _percentile(buckets: list[int], rank: float) -> float:
    seen = 0
    for bound, count in zip(BOUNDS_MS, buckets, strict=False):
        seen += count
        if seen >= rank:
            return float(bound)
    return float("inf")


def resident_bytes(pid: int) -> int:
    """Memory the process holds now; 0 when unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
