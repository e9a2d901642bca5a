"""An archive in this process, on files that are gone afterwards: real reading, pages, indexes and search, no daemon."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.bench.retrieval_data import Collection, Span
from gaiad.clock import Clock, SystemClock
from gaiad.config import Config
from gaiad.errors import BadInput, NotFound
from gaiad.metrics import Metrics
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path
from gaiad.ports import Call, Embedder, Priority
from gaiad.research.loop import Researcher
from gaiad.research.trail import Trail
from gaiad.schemas import Hit, Page, ResearchRequest, SearchMode, SearchRequest

_AT_ONCE = 256


class FilledArchive:
    """One collection, every page with its vector. `units` of a page: which things that can be evidence it shows."""

    def __init__(self, archive: LocalArchive, config: Config, *, dense: bool) -> None:
        self.dense = dense
        self._archive = archive
        self._config = config
        self.units: dict[str, list[str]] = {}

    @property
    def archive(self) -> LocalArchive:
        """What it is filled into."""
        return self._archive

    async def fill(self, collection: Collection) -> None:
        """Take in all documents and wait for their vectors. Raises BadInput for a document that is refused."""
        documents = collection.documents
        for begin in range(0, len(documents), _AT_ONCE):
            outcomes = await self._archive.ingest_documents(documents[begin : begin + _AT_ONCE], Call())
            for outcome in outcomes:
                if outcome.outcome not in ("accepted", "duplicate"):
                    raise BadInput(f"{collection.name}, {outcome.path}: {outcome.outcome}, {outcome.reason}")
                await self._learn_pages(collection, outcome.packet_id)
        while await self._archive.drain_vectors(Call(priority=Priority.BACKGROUND)):
            pass

    async def _learn_pages(self, collection: Collection, packet_id: str) -> None:
        spans = collection.spans.get(packet_id)
        for page in await self._archive.section_pages(packet_id, "full_context", Call()):
            self.units[page.page_id] = shown(page, spans) if spans else [collection.units[packet_id]]

    def use(self, changes: Mapping[str, float]) -> None:
        """Search by the configured weights with these changed."""
        changed = msgspec.structs.replace(self._config.search, **changes)
        self._archive.use_config(msgspec.structs.replace(self._config, search=changed))

    async def find(self, query: str, mode: SearchMode = "hybrid") -> list[tuple[str, str]]:
        """(page id, packet id) of as many hits as one retriever may offer, best first."""
        request = SearchRequest(query=query, mode=mode, limit=self._config.search.candidates)
        hits = (await self._archive.search(request, Call())).hits
        return [(found.page_id, found.packet_id) for found in hits]

    async def researched(self, query: str) -> tuple[list[tuple[str, str]], int]:
        """(page id, packet id) of all that the researcher's loop finds by rules, best first, and its iterations."""
        kept = _LastTrail()
        await Researcher(self._archive, SystemClock("UTC"), self._config.research, kept).research(
            ResearchRequest(query=query), Call()
        )
        if kept.trail is None:
            return [], 0
        found = [(item.page.page_id, item.page.packet_id) for item in kept.trail.evidence]
        return found, len(kept.trail.rounds)

    async def explained(self, query: str) -> list[Hit]:
        """As many hits with the parts of their scores."""
        request = SearchRequest(query=query, limit=self._config.search.candidates, explain=True)
        return (await self._archive.search(request, Call())).hits


class _LastTrail:
    """Holds the trail of a run instead of keeping it."""

    def __init__(self) -> None:
        self.trail: Trail | None = None

    def new_id(self) -> str:
        return "res_bench"

    async def keep(self, trail: Trail, call: Call) -> str:
        self.trail = trail
        return ""


def shown(page: Page, spans: Sequence[Span]) -> list[str]:
    """The units whose bytes the page has any of."""
    return [span.unit for span in spans if span.start < page.end and page.start < span.end]


@asynccontextmanager
async def filled(collection: Collection, config: Config, embedder: Embedder | None) -> AsyncIterator[FilledArchive]:
    """The collection in an archive of its own for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        archive = LocalArchive(Path(scratch), config, SystemClock("UTC"), embedder, Metrics())
        await archive.start()
        try:
            opened = FilledArchive(archive, config, dense=embedder is not None)
            await opened.fill(collection)
            yield opened
        finally:
            await archive.close()


@asynccontextmanager
async def own_embedder(config: Config, environment: Mapping[str, str] = os.environ) -> AsyncIterator[Embedder | None]:
    """The embedder the settings name, in a child of its own; None for kind none. Raises NotFound without a model."""
    if config.embedder.kind == "none":
        yield None
        return
    model = embedding_model(config, environment)
    clock: Clock = SystemClock("UTC")
    embedder = WorkerEmbedder(model, config.embedder, clock)
    await embedder.start()
    try:
        await embedder.wait_ready(config.embedder.start_timeout_s)
        yield embedder
    finally:
        await embedder.close()


def embedding_model(config: Config, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of the embedder the settings name. Raises NotFound with the remedy when it is not there."""
    own = config.embedder.kind == "gguf"
    model = Path(config.embedder.path).expanduser() if own else default_model_path(environment)
    if not model.is_file():
        raise NotFound(f"{model}: no embedding model; run `python -m gaiad.models.provision`")
    return model
