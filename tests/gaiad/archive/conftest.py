"""A tenant filled row by row, and an embedder whose vectors are counts of words: what finding pages is tested with."""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaiad.archive.dense.vector_queue import VectorSpaces
from gaiad.archive.finding.search import Searcher
from gaiad.archive.storing.records import index_pages, unindex_pages
from gaiad.base.clock import FrozenClock, to_epoch_ms
from gaiad.base.config import load_config
from gaiad.base.errors import WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import SearchRequest, SearchResponse
from gaiad.wire.status import ModelStatus
from tests.makers.archives import open_tenant

DIMENSION = 48
_PACKET = (
    "INSERT INTO packets (packet_id, revision, sha256, size, dialect, media_type, timestamp_ms, timestamp_derived,"
    " zone_missing, id_derived, session_id, topic, original_model, current_model, summary, verdict, canonical, source,"
    " modified_ms, received_ms, derived_version)"
    " VALUES (?, 0, ?, 1, 'generic', 'application/xml', ?, 0, 0, 0, ?, ?, ?, ?, ?, 'verified', x'', '', 0, 0, 1)"
)
_PAGE = (
    'INSERT INTO pages (page_id, packet, sequence, section, path, speaker, heading, text, start, "end", timestamp_ms,'
    " active) VALUES (?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?, 1)"
)


class WordEmbedder:
    """Every word has a random direction; a text's vector is the sum of its words', made unit length."""

    def __init__(self, fingerprint: str = "words-1") -> None:
        self.fingerprint = fingerprint
        self.dimension = DIMENSION
        self.failing = ""
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], call: RequestContext) -> np.ndarray:
        if self.failing:
            raise WorkerDied(self.failing)
        self.texts += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        total = np.full(DIMENSION, 1e-3, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            seed = int.from_bytes(hashlib.sha256((self.fingerprint + word).encode()).digest()[:8], "big")
            total += np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
        return total / np.linalg.norm(total)

    def status(self) -> ModelStatus:
        return ModelStatus(
            role="embedder", kind="scripted", path_or_url="", state="ready", pid=0, reason="", fingerprint="words"
        )


class Shelf:
    """One tenant on disk and what is searched with; `close` as the daemon would."""

    def __init__(self, home: Path, exact_scan_max: int = 50_000, **settings: Any) -> None:
        self.home = home
        self.config = load_config((), {}, [f"search.{key}={value}" for key, value in settings.items()])
        self.clock = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
        self.exact_scan_max = exact_scan_max
        self.reopen()

    def reopen(self) -> None:
        self.tenant = open_tenant(self.home)
        self.spaces = VectorSpaces(self.tenant, self.exact_scan_max, self.clock)
        self.searcher = Searcher(self.tenant, self.spaces, self.config, self.clock)

    def packet(self, packet_id: str, texts: Sequence[str | tuple[str, str, str]], **fields: Any) -> list[int]:
        """Store a packet of pages, each a text or (section, speaker, text); returns the pages' row ids."""
        return self.tenant.file.write(lambda c: _insert(c, packet_id, texts, **fields))

    def retire(self, pages: Sequence[int]) -> None:
        """Switch pages off, as a new revision does."""

        def switch(connection: sqlite3.Connection) -> None:
            for page in pages:
                row = connection.execute(
                    "SELECT id, text, speaker, heading FROM pages WHERE id = ?", (page,)
                ).fetchone()
                unindex_pages(connection, [row])
                connection.execute("UPDATE pages SET active = 0 WHERE id = ?", (page,))

        self.tenant.file.write(switch)
        self.spaces.forget(list(pages))

    async def embed_all(self, embedder: WordEmbedder, limit: int = 500) -> int:
        done = 0
        while count := await self.spaces.drain(embedder, RequestContext(), limit):
            done += count
        return done

    async def find(self, query: str = "", embedder: WordEmbedder | None = None, **fields: Any) -> SearchResponse:
        fields.setdefault("mode", "hybrid" if embedder else "bm25")
        return await self.searcher.search(SearchRequest(query=query, **fields), RequestContext(), embedder)

    async def packets(self, query: str = "", embedder: WordEmbedder | None = None, **fields: Any) -> list[str]:
        return [hit.packet_id for hit in (await self.find(query, embedder, **fields)).hits]

    def close(self) -> None:
        self.tenant.file.close()


def _insert(
    connection: sqlite3.Connection,
    packet_id: str,
    texts: Sequence[str | tuple[str, str, str]],
    *,
    at: str = "2025-11-01T00:00:00+00:00",
    session: str = "",
    topic: str = "",
    model: str = "",
    current_model: str = "",
    summary: str = "",
    tags: Sequence[str] = (),
    metrics: dict[str, float] | None = None,
    heading: str = "",
) -> list[int]:
    sha256 = hashlib.sha256(packet_id.encode()).hexdigest()
    at_ms = to_epoch_ms(datetime.fromisoformat(at))
    values = (packet_id, sha256, at_ms, session, topic, model, current_model, summary)
    packet = connection.execute(_PACKET, values).lastrowid
    rows = [(packet, "tag", tag, None) for tag in tags]
    rows += [(packet, f"metric:{name}", str(value), value) for name, value in (metrics or {}).items()]
    connection.executemany("INSERT INTO metadata VALUES (?, ?, ?, ?)", rows)
    start, indexed = 0, []
    for sequence, item in enumerate(texts):
        section, speaker, text = ("content", "", item) if isinstance(item, str) else item
        end = start + len(text.encode("utf-8", "surrogatepass"))
        page_id = f"{sha256[:16]}-{sequence}"
        row = (page_id, packet, sequence, section, speaker, heading or topic, text, start, end, at_ms)
        indexed.append((connection.execute(_PAGE, row).lastrowid, text, speaker, heading or topic))
        start = end
    index_pages(connection, indexed)
    return [page for page, *_ in indexed]


@pytest.fixture
def make_shelf(tmp_path: Path) -> Iterator[Callable[..., Shelf]]:
    shelves: list[Shelf] = []

    def make(**settings: Any) -> Shelf:
        shelves.append(Shelf(tmp_path / f"home{len(shelves)}", **settings))
        return shelves[-1]

    yield make
    for shelf in shelves:
        shelf.close()


@pytest.fixture
def shelf(make_shelf: Callable[..., Shelf]) -> Shelf:
    return make_shelf()


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def other_embedder() -> WordEmbedder:
    return WordEmbedder("words-2")
