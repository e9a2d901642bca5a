"""`tests.bench vectors`: the dense index beside chromadb and lancedb in this process, on the same made vectors.

Every engine is tuned to recall@10 of at least 0.95 of the exact scan by the narrowest of its own settings, then all
take turns with the same queries. The two others are not part of gaiad: they are measured where they are installed.
"""

import asyncio
import importlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from gaiad.archive.dense import vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.base.config import load_config
from gaiad.bench.made_archive import PAGES_PER_PACKET, Mixture, Space, add_vectors, open_tenant, take_in
from gaiad.bench.rows import Row
from tests.bench.other_vectors import ENGINES, Ask, Ids, Vectors
from tests.bench.scale import DESCRIPTION, RECALL_AT, nearest, recall

RECALL_FLOOR = 0.95
PAGES = 10_000
_SPACE = Space("made", 384)
_QUERIES = 200
_ROUNDS = 5
_QUERY_STREAM = 1 << 41


class Tuned(msgspec.Struct, frozen=True):
    """An engine ready to be asked, by which setting, and what share of the true neighbours it finds."""

    name: str
    setting: str
    recall: float
    ask: Ask


def measure_vectors(pages: int = PAGES) -> list[Row]:
    """Make an archive of about `pages` pages with vectors, then `compare` on it."""
    config = load_config()
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        home = Path(scratch) / "home"
        asyncio.run(take_in(home, config, 0, pages // PAGES_PER_PACKET))
        add_vectors(home, _SPACE, Mixture(_SPACE.dimension))
        return compare(home, _SPACE, config.archive.exact_scan_max, Path(scratch))


def compare(home: Path, space: Space, exact_scan_max: int, scratch: Path) -> list[Row]:
    """Milliseconds a query of our index and of each engine that is installed, on the vectors of an archive."""
    tenant = open_tenant(home)
    try:
        index = VectorIndex(tenant, space.fingerprint, space.dimension, exact_scan_max)
        index.load()
        if index.wants_build:
            index.build_base()
        queries = Mixture(space.dimension).draw(_QUERIES, _QUERY_STREAM)
        truth = [set(ids.tolist()) for ids in nearest(tenant, space, queries, RECALL_AT)]
        ids, matrix = tenant.file.read(lambda connection: _stored(connection, space))
        engines = [tune("gaiad", [(f"{index.kind}", lambda q: index.search(q, RECALL_AT)[0].tolist())], queries, truth)]
        rows = [Row(what=f"vectors, {DESCRIPTION}", value=float(len(ids)), unit="vectors")]
        for name, prepare in ENGINES.items():
            try:
                module = importlib.import_module(name)
            except ImportError:
                rows.append(Row(what=f"  {name} is not here; to compare: pip install {name}", value=0.0, unit="-"))
                continue
            settings = prepare(module, scratch / name, ids, matrix, RECALL_AT, exact_scan_max)
            engines.append(tune(name, settings, queries, truth))
        return [*rows, *_rows(engines, queries)]
    finally:
        tenant.file.close()


def _stored(connection: sqlite3.Connection, space: Space) -> tuple[Ids, Vectors]:
    """Every vector of the space as stored in the database."""
    number = vectors.space_called(connection, space.fingerprint)
    pages = vectors.live_pages(connection, number)
    parts = list(vectors.read_vectors(connection, number, pages, space.dimension))
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([rows for _, rows in parts])


def tune(name: str, settings: Iterable[tuple[str, Ask]], queries: Vectors, truth: Sequence[set[int]]) -> Tuned:
    """The first of `settings`, narrowest first, that finds enough; the last when none does."""
    for setting, ask in settings:
        tuned = Tuned(name, setting, recall([set(ask(query)) for query in queries], list(truth)), ask)
        if tuned.recall >= RECALL_FLOOR:
            break
    return tuned


def _rows(engines: Sequence[Tuned], queries: Vectors) -> list[Row]:
    """Medians over rounds in which the engines take turns, and the median of the rounds' ratios to ours."""
    rounds = [_round(engines, queries, number) for number in range(_ROUNDS)]
    rows = []
    for engine in engines:
        took = statistics.median(each[engine.name] for each in rounds)
        rows.append(Row(what=f"{engine.name}, {engine.setting}, one query", value=took, unit="ms p50"))
        rows.append(Row(what=f"  recall@{RECALL_AT}", value=engine.recall, unit="share", aim=f">= {RECALL_FLOOR}"))
        if engine is not engines[0]:
            ratio = statistics.median(each[engine.name] / each[engines[0].name] for each in rounds)
            rows.append(Row(what=f"  {engine.name} to {engines[0].name}", value=ratio, unit="ratio", aim=">= 1"))
    return rows


def _round(engines: Sequence[Tuned], queries: Vectors, number: int) -> dict[str, float]:
    """Milliseconds of a query by engine, the median of all; who goes first changes with every round and query."""
    samples: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for place, query in enumerate(queries):
        for step in range(len(engines)):
            engine = engines[(number + place + step) % len(engines)]
            began = time.perf_counter()
            engine.ask(query)
            samples[engine.name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(times) for name, times in samples.items()}
