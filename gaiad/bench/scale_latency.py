"""How long a daemon takes to answer over its socket, by mode and by how common the words asked about are."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from gaiad.bench.corpus import queries_by_band
from gaiad.bench.daemon_process import BenchDaemon
from gaiad.bench.rows import percentile
from gaiad.client import Client

ALL = "all"
LEXICAL, DENSE, HYBRID = "lexical", "dense", "hybrid"
KNOWN_VECTOR = "hybrid, query vector known"
BRIEFING = "build_context"
MODES = (LEXICAL, DENSE, HYBRID, KNOWN_VECTOR, BRIEFING)
_WARM_UP = 30
_LIMIT = 10


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds over the socket, one question after the other. `words` is the band asked about, or "all"."""

    mode: str
    words: str
    questions: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Asked(msgspec.Struct, frozen=True):
    """All latencies of one daemon, and the share of answers that had to do without something."""

    latencies: list[Latency]
    degraded: float


def measure_latencies(daemon: BenchDaemon, questions: int, seed: int) -> Asked:
    """Every mode in turn. The text of a hybrid question is new to the embedder, that of the next mode known to it."""
    for band in queries_by_band(_WARM_UP, seed + 1).values():
        for query in band:
            _search(daemon.client, query, "hybrid")
    found: list[Latency] = []
    degraded = 0
    for number, (mode, wire) in enumerate(((LEXICAL, "bm25"), (DENSE, "dense"), (HYBRID, "hybrid"))):
        bands = queries_by_band(questions, seed + 2 + number)
        samples, missed = _timed(daemon.client, bands, wire)
        found += summary(mode, samples)
        degraded += missed
    again, _ = _timed(daemon.client, bands, "hybrid")
    found += summary(KNOWN_VECTOR, again)
    found += summary(BRIEFING, _briefings(daemon.client, queries_by_band(questions, seed + 9)))
    return Asked(found, degraded / (3 * questions))


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


def _timed(client: Client, bands: Mapping[str, list[str]], mode: str) -> tuple[dict[str, list[float]], int]:
    """Milliseconds by band, and how many answers were degraded. Bands take turns: a busy moment strikes all alike."""
    samples: dict[str, list[float]] = {band: [] for band in bands}
    degraded = 0
    for together in zip(*bands.values(), strict=True):
        for band, query in zip(bands, together, strict=True):
            took, answer = _search(client, query, mode)
            samples[band].append(took)
            degraded += bool(answer["degraded"])
    return samples, degraded


def _search(client: Client, query: str, mode: str) -> tuple[float, dict[str, object]]:
    began = time.perf_counter()
    answer = client.post("/search", {"query": query, "limit": _LIMIT, "mode": mode})
    return (time.perf_counter() - began) * 1000, answer


def _briefings(client: Client, bands: Mapping[str, list[str]]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {band: [] for band in bands}
    for together in zip(*bands.values(), strict=True):
        for band, query in zip(bands, together, strict=True):
            began = time.perf_counter()
            client.post("/memory/build_context", {"tenantId": "local", "request": query})
            samples[band].append((time.perf_counter() - began) * 1000)
    return samples
