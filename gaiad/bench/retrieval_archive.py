"""An archive in this process, on files that are gone afterwards: real reading, pages, indexes and search, no daemon."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.clock import Clock, SystemClock
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Embedder, Priority, RequestContext
from gaiad.bench.retrieval_data import Collection
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path
from gaiad.research.trail import Trail
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.schemas import Page

_AT_ONCE = 256


class FilledArchive:
    """One collection, every page with its vector."""

    def __init__(self, archive: LocalArchive, *, dense: bool) -> None:
        self.archive = archive
        self.dense = dense

    async def fill(self, collection: Collection, *, refused: bool = False) -> None:
        """Take in all documents and wait for their vectors. Raises BadInput for a document that is refused, unless
        some may be `refused`."""
        documents = collection.documents
        for begin in range(0, len(documents), _AT_ONCE):
            outcomes = await self.archive.ingest_documents(documents[begin : begin + _AT_ONCE], RequestContext())
            for outcome in outcomes:
                if outcome.outcome not in ("accepted", "duplicate") and not refused:
                    raise BadInput(f"{collection.name}, {outcome.path}: {outcome.outcome}, {outcome.reason}")
        while await self.archive.drain_vectors(RequestContext(priority=Priority.BACKGROUND)):
            pass


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
            opened = FilledArchive(archive, dense=embedder is not None)
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
