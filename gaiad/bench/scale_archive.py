"""A made archive of any size on disk: pages by the real way in, made vectors in the real tables, the real index.

Vectors are written under the name of the embedder that the daemon will run, so that it finds every page embedded and
has nothing to catch up on.
"""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.archive import LocalArchive
from gaiad.archive.dense import exact_rows, vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.storing.tenant import Tenant, open_tenant
from gaiad.bench.corpus import Vocabulary, make_packet
from gaiad.bench.made_vectors import Mixture, recall
from gaiad.bench.retrieval_archive import embedding_model
from gaiad.clock import SystemClock, to_epoch_ms
from gaiad.config import Config
from gaiad.errors import BadInput
from gaiad.metrics import Metrics
from gaiad.models.embedder import WorkerEmbedder
from gaiad.ports import Call
from gaiad.schemas import DEFAULT_TENANT

PAGES_PER_PACKET = 10  # eight turns, a summary and the header group
RECALL_AT = 10
_TURNS, _WORDS_PER_TURN, _SEED = 8, 30, 7
_PACKETS_AT_ONCE = 256
_VECTORS_AT_ONCE = 4096
_QUERY_STREAM = 1 << 40  # page ids are below

Vectors = NDArray[np.float32]


class Space(msgspec.Struct, frozen=True):
    """Which vector space the made vectors are written into: an embedder's fingerprint and dimension."""

    fingerprint: str
    dimension: int


class Indexed(msgspec.Struct, frozen=True):
    """The dense index after a build or snapshot: its kind, seconds that took, and recall@10 of the exact scan."""

    kind: str
    vectors: int
    seconds: float
    recall: float
    problems: list[str]


def own_space(config: Config) -> Space:
    """The space of the embedder that a daemon with these settings runs. Raises NotFound without its model."""
    embedder = WorkerEmbedder(embedding_model(config), config.embedder, SystemClock("UTC"))  # not started
    return Space(embedder.fingerprint, embedder.dimension)


async def take_in(
    home: Path, config: Config, first: int, count: int, *, turns: int = _TURNS, words_per_turn: int = _WORDS_PER_TURN
) -> float:
    """Ingest packets `first` to `first + count - 1`; seconds that the archive took. Raises BadInput."""
    archive = LocalArchive(home, config, SystemClock("UTC"), None, Metrics())
    await archive.start()
    took = 0.0
    try:
        vocabulary = Vocabulary(seed=_SEED)
        for begin in range(first, first + count, _PACKETS_AT_ONCE):
            numbers = range(begin, min(begin + _PACKETS_AT_ONCE, first + count))
            packets = [make_packet(number, _SEED, vocabulary, turns, words_per_turn) for number in numbers]
            began = time.perf_counter()
            documents = [(f"{packet_id}.xml", xml.encode()) for packet_id, xml in packets]
            outcomes = await archive.ingest_documents(documents, Call())
            took += time.perf_counter() - began
            for outcome in outcomes:
                if outcome.outcome != "accepted":
                    raise BadInput(f"made packet {outcome.path}: {outcome.outcome}, {outcome.reason}")
    finally:
        await archive.close()
    return took


def add_vectors(home: Path, space: Space, mixture: Mixture) -> int:
    """Give every page without a vector a made one; how many that were."""
    tenant = open_tenant(home, DEFAULT_TENANT, 1)
    try:
        number = tenant.file.write(lambda c: vectors.open_space(c, space.fingerprint, space.dimension, _now_ms()))
        done = after = 0
        while pages := tenant.file.read(lambda c, after=after: _waiting(c, number, after)):  # type: ignore[misc]
            bodies = vectors.to_stored(mixture.draw(len(pages), pages[0]))
            tenant.file.write(lambda c, p=pages, b=bodies: vectors.store_vectors(c, number, p, b))  # type: ignore[misc]
            done, after = done + len(pages), pages[-1]
        return done
    finally:
        tenant.file.close()


def _waiting(connection: sqlite3.Connection, space: int, after: int) -> list[int]:
    rows = connection.execute(
        "SELECT id FROM pages p WHERE id > ? AND active = 1"
        " AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.space = ? AND v.page = p.id) ORDER BY id LIMIT ?",
        (after, space, _VECTORS_AT_ONCE),
    )
    return [row[0] for row in rows]


def index_vectors(home: Path, config: Config, space: Space, mixture: Mixture, queries: int = 100) -> Indexed:
    """Build or write the dense index, and hold it against the exact scan for queries from the same mixture."""
    tenant = open_tenant(home, DEFAULT_TENANT, 1)
    try:
        index = VectorIndex(tenant, space.fingerprint, space.dimension, config.archive.exact_scan_max)
        index.load(_now_ms())
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
    """The ids of the `count` nearest pages of each query, by the vectors as they stand in the database."""

    def scan(connection: sqlite3.Connection) -> list[NDArray[np.int64]]:
        number = vectors.space_called(connection, space.fingerprint)
        pages = vectors.live_pages(connection, number)
        return exact_rows.nearest(vectors.read_vectors(connection, number, pages, space.dimension), queries, count)

    return tenant.file.read(scan)


def disk_bytes(home: Path) -> int:
    """Bytes of all files under `home`."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def _now_ms() -> int:
    return to_epoch_ms(SystemClock("UTC").now())
