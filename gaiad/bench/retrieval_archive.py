"""An archive in this process, on files that are gone afterwards: real reading, pages, indexes and search, no daemon."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.clock import Clock, SystemClock
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Embedder, Priority, RequestContext
from gaiad.bench.retrieval_data import Collection, EvidenceSpan
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path
from gaiad.research.loop import Researcher
from gaiad.research.trail import Trail
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.schemas import Hit, Page, ResearchRequest, SearchMode, SearchRequest

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

    async def fill(self, collection: Collection, *, refused: bool = False) -> None:
        """Take in all documents and wait for their vectors. Raises BadInput for a document that is refused, unless
        some may be `refused`."""
        documents = collection.documents
        for begin in range(0, len(documents), _AT_ONCE):
            outcomes = await self._archive.ingest_documents(documents[begin : begin + _AT_ONCE], RequestContext())
            for outcome in outcomes:
                if outcome.outcome not in ("accepted", "duplicate"):
                    if refused:
                        continue
                    raise BadInput(f"{collection.name}, {outcome.path}: {outcome.outcome}, {outcome.reason}")
                await self._learn_pages(collection, outcome.packet_id)
        while await self._archive.drain_vectors(RequestContext(priority=Priority.BACKGROUND)):
            pass

    async def _learn_pages(self, collection: Collection, packet_id: str) -> None:
        spans = collection.spans.get(packet_id)
        for page in await self._archive.section_pages(packet_id, "full_context", RequestContext()):
            self.units[page.page_id] = shown(page, spans) if spans else [collection.units.get(packet_id, packet_id)]

    def use(self, changes: Mapping[str, float]) -> None:
        """Search by the configured weights with these changed."""
        changed = msgspec.structs.replace(self._config.search, **changes)
        self._archive.use_config(msgspec.structs.replace(self._config, search=changed))

    async def find(self, query: str, mode: SearchMode = "hybrid") -> list[tuple[str, str]]:
        """(page id, packet id) of as many hits as one retriever may offer, best first."""
        request = SearchRequest(query=query, mode=mode, limit=self._config.search.candidates)
        hits = (await self._archive.search(request, RequestContext())).hits
        return [(found.page_id, found.packet_id) for found in hits]

    async def researched(self, query: str) -> tuple[list[tuple[str, str]], int]:
        """(page id, packet id) of all that the researcher's loop finds by rules, best first, and its iterations."""
        kept = LastTrail()
        await Researcher(self._archive, SystemClock("UTC"), self._config.research, kept).research(
            ResearchRequest(query=query), RequestContext()
        )
        if kept.trail is None:
            return [], 0
        found = [(item.page.page_id, item.page.packet_id) for item in kept.trail.evidence]
        return found, len(kept.trail.rounds)

    async def explained(self, query: str) -> list[Hit]:
        """As many hits with the parts of their scores."""
        request = SearchRequest(query=query, limit=self._config.search.candidates, explain=True)
        return (await self._archive.search(request, RequestContext())).hits


class LastTrail:
    """Holds the trail of a run instead of keeping it."""

    def __init__(self) -> None:
        self.trail: Trail | None = None

    def new_id(self) -> str:
        return "res_bench"

    async def keep(self, trail: Trail, call: RequestContext) -> str:
        self.trail = trail
        return ""

    def pages(self) -> list[Page]:
        """What the run since the last call found, best first."""
        trail, self.trail = self.trail, None
        return [item.page for item in trail.evidence] if trail else []


def shown(page: Page, spans: Sequence[EvidenceSpan]) -> list[str]:
    """The units whose bytes the page has any of."""
    return [span.unit for span in spans if span.start < page.end and page.start < span.end]


@asynccontextmanager
async def filled(
    collection: Collection,
    config: Config,
    embedder: Embedder | None,
    *,
    refused: bool = False,
    imported: Sequence[Path] = (),
) -> AsyncIterator[FilledArchive]:
    """The collection in an archive of its own for the length of the block, with what is `imported` from other paths."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        databases = HomeDatabases(Path(scratch))
        archive = LocalArchive(databases, config, SystemClock("UTC"), embedder, Metrics())
        await archive.start()
        try:
            opened = FilledArchive(archive, config, dense=embedder is not None)
            async for _ in archive.import_paths(imported, ImportOptions("bench"), RequestContext(), {}):
                pass
            await opened.fill(collection, refused=refused)
            yield opened
        finally:
            await archive.close()
            databases.close()


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
