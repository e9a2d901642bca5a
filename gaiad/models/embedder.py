"""The Embedder port on top of a supervised worker: batches by length, drops repeats, retries once when a worker dies.

The daemon's side only: it imports no model library, and knows fingerprint and dimension from the file alone, before the
worker is up. Computing and tokenising happen in the child.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.base.clock import Clock
from gaiad.base.config import EmbedderConfig
from gaiad.base.errors import BadInput, Unavailable, WorkerDied
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.gguf.gguf_header import file_sha256, read_header
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Embed, Load, Ready, Reply, Vectors
from gaiad.models.supervision.queueing import Pending
from gaiad.models.supervision.supervisor import SupervisedModel, Supervisor

SPACE_VERSION = 1
REQUEST_TEXTS = 64
REQUEST_CHARS = 200_000
CACHED_QUERIES = 512
_BACKLOG_CALLS = 4
_CANARY_TEXT = "The quick brown fox jumps over the lazy dog."

Vector = NDArray[np.float32]


class EmbedderHead(msgspec.Struct, frozen=True, kw_only=True):
    """What names the vector space of a model: the SHA-256 of its file, its width, how it pools."""

    sha256: str
    embedding: int
    pooling: str


class WorkerEmbedder(SupervisedModel):
    """Unit vectors from an embedding GGUF in a child process (JIT: dense retrieval).

    Raises BadInput at once when the file is missing or is not a model; with `head`, which says what the file will be,
    it may be missing until `start`. `start` returns before the worker is ready.
    """

    def __init__(
        self,
        path: Path,
        config: EmbedderConfig,
        clock: Clock,
        *,
        role: str = "embedder",
        restart_policy: RestartPolicy | None = None,
        head: EmbedderHead | None = None,
    ) -> None:
        self._path = path.absolute()
        self._head = head = head or _read_head(self._path)
        fingerprint = f"{head.sha256}:{head.pooling}:{head.embedding}:unit:v{SPACE_VERSION}"
        self._backlog_limit = max(1, config.max_backlog_pages) * _BACKLOG_CALLS
        self._backlog = 0
        self._cache: OrderedDict[bytes, Vector] = OrderedDict()
        supervisor = Supervisor(
            role,
            Load(
                version=PROTOCOL_VERSION,
                engine="embed",
                path=str(self._path),
                threads=config.threads,
                batch_tokens=config.batch_tokens,
            ),
            Embed(id=0, texts=[_CANARY_TEXT], priority=int(Priority.PERSON)),
            self._check_canary,
            clock,
            restart_policy or RestartPolicy(start_s=config.start_timeout_s),
        )
        super().__init__(supervisor, fingerprint)

    @property
    def dimension(self) -> int:
        return self._head.embedding

    async def embed(self, texts: Sequence[str], call: RequestContext) -> Vector:
        """Shape (len(texts), dimension), float32, rows of length 1.

        Raises WorkerDied (after one retry), Unavailable (backlog full, worker failed), DeadlineExceeded, Cancelled.
        """
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # a lone surrogate is not UTF-8
        keys = [_content_key(text) for text in texts]
        remember = call.priority == Priority.PERSON
        found = {key: self._cache[key] for key in keys if key in self._cache}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            computed = await self._compute(list(missing.values()), call)
            found.update(zip(missing, computed, strict=True))
        if remember:
            self._remember({key: found[key] for key in keys[:CACHED_QUERIES]})
        rows = np.empty((len(keys), self.dimension), dtype=np.float32)
        for row, key in enumerate(keys):
            rows[row] = found[key]
        return rows

    async def _compute(self, texts: list[str], call: RequestContext) -> Vector:
        """Vectors of different texts, in their order."""
        self._admit(len(texts), call)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        self._backlog += len(texts)
        try:
            chunks = list(_chunk([(index, texts[index]) for index in order]))
            sent: list[Pending] = []
            try:
                for chunk in chunks:
                    sent.append(await self._submit(chunk, call))
                for chunk, pending in zip(chunks, sent, strict=True):
                    rows[[index for index, _ in chunk]] = await self._finish(chunk, pending, call)
            except BaseException:
                for pending in sent:
                    self._supervisor.abandon(pending)
                raise
        finally:
            self._backlog -= len(texts)
        return rows

    async def _submit(self, chunk: "Chunk", call: RequestContext) -> Pending:
        texts, priority = [text for _, text in chunk], int(call.priority)
        return await self._supervisor.submit(
            lambda request_id: Embed(id=request_id, texts=texts, priority=priority), call
        )

    async def _finish(self, chunk: "Chunk", pending: Pending, call: RequestContext) -> Vector:
        """The chunk's vectors; embedding twice does no harm, so a death under it is tried again once."""
        try:
            reply = await self._supervisor.result(pending, call)
        except WorkerDied:
            reply = await self._supervisor.result(await self._submit(chunk, call), call)
        return self._vectors(reply, len(chunk))

    def _vectors(self, reply: Reply, count: int) -> Vector:
        if not isinstance(reply, Vectors) or (reply.count, reply.dimension) != (count, self.dimension):
            raise Unavailable(f"{self._path}: the worker answered with something other than {count} vectors")
        return np.frombuffer(reply.data, dtype="<f4").reshape(count, self.dimension).astype(np.float32, copy=False)

    def _admit(self, texts: int, call: RequestContext) -> None:
        """Refuse background work beyond the backlog; one call is always let in when nothing waits."""
        limit = self._backlog_limit * (2 if call.priority == Priority.PERSON else 1)
        if self._backlog and self._backlog + texts > limit:
            raise Unavailable(f"{self._backlog} texts already wait for the embedder (limit {limit}); try again", 1.0)

    def _remember(self, vectors: dict[bytes, Vector]) -> None:
        for key, vector in vectors.items():
            self._cache[key] = vector.copy()
            self._cache.move_to_end(key)
        while len(self._cache) > CACHED_QUERIES:
            self._cache.popitem(last=False)

    def _check_canary(self, ready: Ready, reply: Reply) -> str:
        if ready.dimension != self.dimension:
            return f"its header promises {self.dimension} numbers a vector and the model makes {ready.dimension}"
        if not isinstance(reply, Vectors):
            return f"it cannot embed a plain sentence ({getattr(reply, 'reason', reply)}); choose an embedding GGUF"
        norm = float(np.linalg.norm(self._vectors(reply, 1)))
        return "" if abs(norm - 1.0) < 1e-3 else f"a plain sentence gave a vector of length {norm:g}, not 1"


Chunk = list[tuple[int, str]]


def _read_head(path: Path) -> EmbedderHead:
    header = read_header(path)
    if header.pooling == "rank":
        raise BadInput(f"{path}: ranks pairs of texts and makes no embeddings; choose an embedding GGUF")
    return EmbedderHead(sha256=file_sha256(path), embedding=header.embedding, pooling=header.pooling)


def _chunk(items: Chunk) -> list[Chunk]:
    """Requests small enough to cancel and retry cheaply; a huge text gets one of its own."""
    chunks: list[Chunk] = []
    chars = 0
    for index, text in items:
        if not chunks or len(chunks[-1]) >= REQUEST_TEXTS or chars + len(text) > REQUEST_CHARS:
            chunks.append([])
            chars = 0
        chunks[-1].append((index, text))
        chars += len(text)
    return chunks


def _content_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()
