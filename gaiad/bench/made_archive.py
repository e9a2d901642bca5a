"""A made-up archive of any size for measurements: packets, their vectors, and the real way in.

Words are invented and follow Zipf's law, vectors are a mixture of clusters, both from a seed: they serve speed and size
only. Vectors stand in for embeddings where making those would take hours; they are written under the name of the
embedder that the daemon will run, so that it finds every page embedded and has nothing to catch up on. Clusters are of
very different sizes and inside one no direction is preferred, so neighbours are hard to tell apart: an index that finds
these finds embeddings too.
"""

import random
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.archive import LocalArchive
from gaiad.archive.dense import vectors
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import SystemClock, to_epoch_ms, to_iso
from gaiad.base.config import Config
from gaiad.base.errors import BadInput
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.bench.retrieval_archive import embedding_model
from gaiad.models.embedder import WorkerEmbedder
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.schemas import DEFAULT_TENANT

_NAMESPACE = "http://ai-collaboration.org/transmission-packet"
_ONSETS = ("b", "c", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st", "tr")
_RHYMES = ("a", "e", "i", "o", "u", "ar", "en", "il")
_SYLLABLES = [onset + rhyme for onset in _ONSETS for rhyme in _RHYMES]
_SPEAKERS = ("Mara", "Prime", "Lite", "CodeMind")
_MODELS = ("Gemini 2.5 Pro", "Claude Sonnet 4.5", "GPT-5", "Hermes 4")
_START = datetime(2024, 1, 1, tzinfo=UTC)


class InventedWords:
    """`size` invented words; word i is drawn with weight 1 / (i + 2)."""

    def __init__(self, seed: int, size: int = 8000) -> None:
        source = random.Random(seed)
        words: dict[str, None] = {}
        while len(words) < size:
            words["".join(source.choices(_SYLLABLES, k=source.choice((1, 2, 2, 3))))] = None
        self.words = list(words)
        self._cumulative = list(accumulate(1 / (rank + 2) for rank in range(size)))

    def draw(self, source: random.Random, count: int) -> list[str]:
        """`count` words, common ones often."""
        return source.choices(self.words, cum_weights=self._cumulative, k=count)


def make_packet(number: int, seed: int, vocabulary: InventedWords, turns: int, words_per_turn: int) -> tuple[str, str]:
    """(packet id, XML) of packet `number`."""
    source = random.Random(f"{seed}/{number}")
    moment = _START + timedelta(minutes=37 * number)
    packet_id = moment.strftime("tp-%Y%m%d-%H%M%S")
    topic = " ".join(vocabulary.draw(source, 4)).capitalize()
    lines = [
        f"{source.choice(_SPEAKERS)}: {' '.join(vocabulary.draw(source, words_per_turn)).capitalize()}."
        for _ in range(turns)
    ]
    summary = " ".join(vocabulary.draw(source, 25)).capitalize() + "."
    transcript = "\n".join(lines)
    xml = f"""<?xml version="1.0" encoding="UTF-8"?>
<tp:transmissionPacket xmlns:tp="{_NAMESPACE}" version="2.0" id="{packet_id}">
  <tp:header>
    <tp:id>{packet_id}</tp:id>
    <tp:packet_created>{to_iso(moment)}</tp:packet_created>
    <tp:model>{source.choice(_MODELS)}</tp:model>
    <tp:researcher>Mara</tp:researcher>
    <tp:topic>{topic}</tp:topic>
    <tp:challenge_phrases><tp:item>Give me the hard truth</tp:item></tp:challenge_phrases>
  </tp:header>
  <tp:behaviorProfile>
    <tp:behavioralMetrics>
      <tp:metric><tp:name>critical_thinking</tp:name><tp:value>{source.random():.2f}</tp:value></tp:metric>
    </tp:behavioralMetrics>
    <tp:tags><tp:item>bench</tp:item></tp:tags>
  </tp:behaviorProfile>
  <tp:body>
    <tp:summary>{summary}</tp:summary>
    <tp:transcript>{transcript}</tp:transcript>
  </tp:body>
</tp:transmissionPacket>
"""
    return packet_id, xml


def write_packets(folder: Path, first: int, count: int, *, turns: int = 8, words_per_turn: int = 30) -> int:
    """Write packets `first` to `first + count - 1` as files; returns their bytes in all."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = InventedWords(seed=7)
    size = 0
    for number in range(first, first + count):
        packet_id, xml = make_packet(number, 7, vocabulary, turns, words_per_turn)
        size += (folder / f"{packet_id}.xml").write_bytes(xml.encode())
    return size


BANDS = {"common": slice(0, 100), "middling": slice(100, 1000), "rare": slice(1000, None)}
"""Ranks of the vocabulary by how common its words are: a common word is on 3 to 80 % of all pages, a middling one
on 0.3 to 3 %, a rare one on fewer."""


def make_queries(count: int, seed: int = 11) -> list[str]:
    """Questions of two to five words, from common to rare in equal parts."""
    source = random.Random(seed)
    words = InventedWords(seed=7).words
    bands = [words[part] for part in BANDS.values()]
    return [" ".join(source.sample(bands[number % 3], source.randint(2, 5))) for number in range(count)]


Vectors = NDArray[np.float32]
CLUSTERS = 1000
SPREAD = 1.0
"""Length of the noise beside a centre's 1: two vectors of one cluster have a cosine of about 1 / (1 + SPREAD ** 2)."""


class Mixture:
    """Unit vectors of `dimension` around random centres; the same arguments give the same vectors."""

    def __init__(self, dimension: int, seed: int = 1) -> None:
        self._seed = seed
        source = np.random.default_rng(seed)
        self._centres = _unit(source.normal(size=(CLUSTERS, dimension)).astype(np.float32))

    def draw(self, count: int, stream: int) -> Vectors:
        """(count, dimension) float32, rows of length 1; each `stream` number gives others."""
        source = np.random.default_rng((self._seed, stream))
        chosen = np.minimum(CLUSTERS ** source.random(count), CLUSTERS - 1).astype(np.int64)  # few clusters have most
        dimension = self._centres.shape[1]
        noise = source.standard_normal((count, dimension), np.float32) * np.float32(SPREAD / np.sqrt(dimension))
        return _unit(self._centres[chosen] + noise)


def _unit(rows: Vectors) -> Vectors:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


PAGES_PER_PACKET = 10  # eight turns, a summary and the header group
_TURNS, _WORDS_PER_TURN, _SEED = 8, 30, 7
_PACKETS_AT_ONCE = 256
_VECTORS_AT_ONCE = 4096


class Space(msgspec.Struct, frozen=True):
    """Which vector space the made vectors are written into: an embedder's fingerprint and dimension."""

    fingerprint: str
    dimension: int


def own_space(config: Config) -> Space:
    """The space of the embedder that a daemon with these settings runs. Raises NotFound without its model."""
    embedder = WorkerEmbedder(embedding_model(config), config.embedder, SystemClock("UTC"))  # not started
    return Space(embedder.fingerprint, embedder.dimension)


async def take_in(
    home: Path, config: Config, first: int, count: int, *, turns: int = _TURNS, words_per_turn: int = _WORDS_PER_TURN
) -> float:
    """Ingest packets `first` to `first + count - 1`; seconds that the archive took. Raises BadInput."""
    databases = HomeDatabases(home)
    archive = LocalArchive(databases, config, SystemClock("UTC"), None, Metrics())
    await archive.start()
    took = 0.0
    try:
        vocabulary = InventedWords(seed=_SEED)
        for begin in range(first, first + count, _PACKETS_AT_ONCE):
            numbers = range(begin, min(begin + _PACKETS_AT_ONCE, first + count))
            packets = [make_packet(number, _SEED, vocabulary, turns, words_per_turn) for number in numbers]
            began = time.perf_counter()
            documents = [(f"{packet_id}.xml", xml.encode()) for packet_id, xml in packets]
            outcomes = await archive.ingest_documents(documents, RequestContext())
            took += time.perf_counter() - began
            for outcome in outcomes:
                if outcome.outcome != "accepted":
                    raise BadInput(f"made packet {outcome.path}: {outcome.outcome}, {outcome.reason}")
    finally:
        await archive.close()
        databases.close()
    return took


def open_tenant(home: Path) -> Tenant:
    """The default tenant of a home without an archive around it; close its file."""
    databases = HomeDatabases(home, 1)
    return Tenant(DEFAULT_TENANT, databases.folder(DEFAULT_TENANT), databases.file(DEFAULT_TENANT))


def add_vectors(home: Path, space: Space, mixture: Mixture) -> int:
    """Give every page without a vector a made one; how many that were."""
    tenant = open_tenant(home)
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


def _now_ms() -> int:
    return to_epoch_ms(SystemClock("UTC").now())
