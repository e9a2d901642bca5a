"""How long a daemon takes to answer over its socket, by mode and by how common the words asked about are."""

import time
from collections.abc import Callable, Mapping, Sequence

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


_ASKING: tuple[tuple[str, int, Ask], ...] = (
    (LEXICAL, 2, lambda client, query: _search(client, query, "bm25")),
    (DENSE, 3, lambda client, query: _search(client, query, "dense")),
    (HYBRID, 4, lambda client, query: _search(client, query, "hybrid")),
    (KNOWN_VECTOR, 4, lambda client, query: _search(client, query, "hybrid")),
    (BRIEFING, 9, _brief),
)
"""Modes in their order, with what is added to the seed of their questions: the same questions have known vectors."""
