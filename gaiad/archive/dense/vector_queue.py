"""Which vector space serves, and the queue that fills it: one slice of pending pages at a time.

After a change of embedder the new space is filled in the background while the old one serves whoever can still embed
queries for it; once the new space is complete the old one is dropped. Spaces never mix.
"""

import asyncio
import shutil
import sqlite3

import numpy as np

from gaiad.archive.dense import vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock, to_epoch_ms
from gaiad.base.errors import BadInput
from gaiad.base.ports import Embedder, RequestContext
from gaiad.base.tasks import TaskGroup

_SNAPSHOT_EVERY = 4_096
"""New vectors after which the index file is written even while the queue goes on."""


_BUILD_AGAIN_S = 3600.0
_ASIDE_MAX = 100
"""Pages without a usable vector above which the model is taken to be at fault, and no page is left aside for it."""


class VectorSpaces:
    """`serving` answers queries in its space; `filling` is the current embedder's space while that is incomplete."""

    def __init__(self, tenant: Tenant, exact_scan_max: int, clock: Clock) -> None:
        self._tenant = tenant
        self._exact_scan_max = exact_scan_max
        self._clock = clock
        self._since_snapshot = 0
        self._aside: dict[int, str] = {}  # pages that the current space has no usable vector of, with their names
        self._turn = asyncio.Lock()
        self._tasks = TaskGroup(f"vectors:{tenant.name}")
        self._building: asyncio.Task[bool] | None = None
        self._build_again = 0.0
        self._closing = False
        self.serving: VectorIndex | None = None
        self.filling: VectorIndex | None = None

    def open(self, embedder: Embedder | None) -> None:
        """Load the space that has vectors, and the embedder's when that is another. Blocks: call it in a thread."""
        known = self._tenant.file.read(vectors.spaces)
        self.serving = self.filling = None
        self._aside = {}
        filled = [space for space in known if space[3]]
        for _, fingerprint, dimension, _ in filled[:1]:
            self.serving = self._load(fingerprint, dimension)
        if embedder is not None:
            self.use(embedder)

    def use(self, embedder: Embedder) -> None:
        """From now on pages are embedded by `embedder`; a new space is filled beside the serving one. Blocks."""
        if self.serving is None or self.serving.fingerprint == embedder.fingerprint:
            self.serving = self.serving or self._load(embedder.fingerprint, embedder.dimension)
            self.filling = None
        elif self.filling is None or self.filling.fingerprint != embedder.fingerprint:
            self.filling = self._load(embedder.fingerprint, embedder.dimension)
            self._finish_change()

    def indexes(self) -> list[VectorIndex]:
        """The indexes in memory, serving first."""
        return [index for index in (self.serving, self.filling) if index is not None]

    @property
    def current(self) -> VectorIndex | None:
        """The index that new pages are embedded for."""
        return self.filling or self.serving

    @property
    def problems(self) -> list[str]:
        problems = [problem for index in self.indexes() for problem in index.problems]
        if names := sorted(self._aside.values()):
            problems.append(
                f"{len(names)} pages of {self._tenant.name} are found by words only, for the embedding model made NaN"
                f" or infinity of them ({', '.join(names[:5])}{', …' if names[5:] else ''}); the next start tries again"
            )
        return problems

    def count(self) -> int:
        """Vectors that answer queries now."""
        return self.serving.count if self.serving else 0

    def pending_count(self) -> int:
        """Pages that wait for a vector of the current space. Blocks."""
        return max(0, self.current.pending_count() - len(self._aside)) if self.current else 0

    def forget(self, pages: list[int]) -> None:
        """Take pages out of every space's search."""
        for index in self.indexes():
            index.forget(pages)
        for page in pages:
            self._aside.pop(page, None)

    def snapshot(self) -> None:
        """Write the index files that have changed. Blocks."""
        for index in self.indexes():
            index.snapshot()
        self._since_snapshot = 0

    async def drain(self, embedder: Embedder, call: RequestContext, limit: int) -> int:
        """Embed one slice of at most `limit` pending pages; the number done, 0 when none waits.

        Raises what the embedder raises; the slice then waits for the next call.
        """
        async with self._turn:
            index = self.current
            if index is None or index.fingerprint != embedder.fingerprint:
                await asyncio.to_thread(self.use, embedder)
                index, self._aside = self.current, {}
            assert index is not None
            waiting = await asyncio.to_thread(index.pending, limit, list(self._aside))
            if waiting:
                pages, texts = [page for page, _ in waiting], [text for _, text in waiting]
                found = await embedder.embed(texts, call)
                if found.shape != (len(waiting), index.dimension):
                    raise BadInput(f"the embedder made vectors of shape {found.shape}, its space has {index.dimension}")
                await asyncio.to_thread(self._take_up, index, pages, found, texts)
                self._since_snapshot += len(waiting)
            await asyncio.to_thread(self._settle, done=not waiting)
            self._start_build()
            return len(waiting)

    def _take_up(self, index: VectorIndex, pages: list[int], found: vectors.Vectors, texts: list[str]) -> None:
        """Store what can be stored; a page whose vector cannot waits aside, or all vectors would wait behind it."""
        fit = vectors.storable(found)
        kept = np.flatnonzero(fit).tolist()
        index.add([pages[row] for row in kept], found[fit], [texts[row] for row in kept])
        unfit = [pages[row] for row in np.flatnonzero(~fit).tolist()]
        if len(self._aside) + len(unfit) > _ASIDE_MAX:
            raise BadInput(f"the embedder returned NaN or infinity for {_ASIDE_MAX} or more pages; check its model")
        self._aside |= self._tenant.file.read(lambda connection: vectors.page_names(connection, unfit))

    async def close(self) -> None:
        """End a running build, start none any longer, and write the index files that have changed."""
        self._closing = True
        for index in self.indexes():
            index.stop_build()
        await self._tasks.stop()
        async with self._turn:
            await asyncio.to_thread(self.snapshot)

    def _start_build(self) -> None:
        """Build an hnswlib base in the background when the serving index has outgrown its present one.

        After a build that failed the next waits `_BUILD_AGAIN_S`: it may fail as that one did.
        """
        index = self.serving
        idle = self._building is None or self._building.done()
        if self._closing or index is None or not (idle and index.wants_build):
            return
        if not index.refusal or self._clock.monotonic() >= self._build_again:
            self._building = self._tasks.start("build", self._build(index))

    async def _build(self, index: VectorIndex) -> bool:
        try:
            return await asyncio.to_thread(index.build_base)
        finally:
            self._build_again = self._clock.monotonic() + _BUILD_AGAIN_S

    def _settle(self, *, done: bool) -> None:
        if done and self.filling is not None:
            self._finish_change()
        if (done and self._since_snapshot) or self._since_snapshot >= _SNAPSHOT_EVERY:
            self.snapshot()

    def _finish_change(self) -> None:
        """Let the filled space serve and drop the old one, once no page waits."""
        old, new = self.serving, self.filling
        if old is None or new is None or new.pending(1, list(self._aside)):
            return
        self.serving, self.filling = new, None

        def drop(connection: sqlite3.Connection) -> None:
            for space, fingerprint, _, _ in vectors.spaces(connection):
                if fingerprint != new.fingerprint:
                    vectors.drop_space(connection, space)

        self._tenant.file.write(drop)
        shutil.rmtree(old.folder, ignore_errors=True)
        new.snapshot()

    def _load(self, fingerprint: str, dimension: int) -> VectorIndex:
        index = VectorIndex(self._tenant, fingerprint, dimension, self._exact_scan_max)
        index.load(to_epoch_ms(self._clock.now()))
        return index
