"""Texts to unit vectors with llama.cpp, inside the worker's process.

Several texts share a batch, sorted by length. A text longer than the model's window is split and its windows' vectors
are averaged, weighted by tokens: nothing is cut off. A more urgent request stops the running batch, which is run again.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaiad.models.child.inbox import Inbox, QueuedRequest
from gaiad.models.child.llama import (
    ABORTED,
    AbortFlag,
    Batch,
    LlamaTokenizer,
    Log,
    ModelFileError,
    library,
    load_model,
    open_embedding_context,
)
from gaiad.models.child.step_plan import ThreadThrottle
from gaiad.models.supervision.protocol import MAX_THREADS, PROTOCOL_VERSION, Embed, Failed, Load, Ready, Reply, Vectors

MAX_SEQUENCES = 64
MAX_WINDOW_TOKENS = 8192


class EmbedEngine:
    """One model, one context. `serve` runs on one thread; `interrupt` may be set from any."""

    def __init__(self, load: Load) -> None:
        path = Path(load.path)
        self.interrupt = AbortFlag()
        self._model = load_model(path, Log())
        if not library.llama_model_n_params(self._model):
            raise ModelFileError(f"{path}: has a vocabulary and no weights; choose a complete embedding GGUF")
        try:
            self._tokenizer = LlamaTokenizer(self._model)
            self._open_context(load)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error

    def _open_context(self, load: Load) -> None:
        trained = int(library.llama_model_n_ctx_train(self._model))
        self._window = min(trained, MAX_WINDOW_TOKENS)
        self._content = self._window - len(self._tokenizer.prefix) - len(self._tokenizer.suffix)
        if self._content < 1:
            raise ModelFileError(f"its window of {trained} tokens leaves no room for text; choose another model")
        self._aim = max(1, load.batch_tokens)
        capacity = max(self._aim, self._window)
        threads = load.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)
        self._crowding = ThreadThrottle(threads)
        self._context = open_embedding_context(
            self._model,
            tokens=capacity,
            sequences=MAX_SEQUENCES,
            threads=threads,
            pooling=_pooling(self._model),
            abort=self.interrupt,
        )
        self._dimension = int(library.llama_model_n_embd_out(self._model))
        self._batch = Batch(capacity)
        self._memory = library.llama_get_memory(self._context)

    def describe(self) -> Ready:
        return Ready(
            version=PROTOCOL_VERSION,
            pid=os.getpid(),
            dimension=self._dimension,
            window=self._window,
        )

    def open_line(self, reply: Callable[[Reply], None]) -> Inbox:
        """Where the reader thread puts requests; `reply` is how they are answered."""
        self._reply = reply
        self._inbox = Inbox(self.interrupt, reply)
        return self._inbox

    def serve(self) -> None:
        """Work until the inbox closes."""
        inbox, reply = self._inbox, self._reply
        while (job := inbox.take()) is not None:
            progress = self._begin(job)
            while progress.remaining and inbox.carry_on(job):
                problem = self._run_batch(progress)
                if problem:
                    reply(Failed(id=job.id, code="engine", reason=problem))
                    break
            else:
                if progress.remaining or job.cancelled:
                    inbox.put_back(job)
                else:
                    reply(progress.result(job.id))

    def close(self) -> None:
        library.llama_batch_free(self._batch.handle)
        library.llama_free(self._context)
        library.llama_model_free(self._model)

    def _begin(self, job: QueuedRequest) -> "EmbeddingProgress":
        if job.state is None:
            request: Embed = job.request
            progress = EmbeddingProgress(len(request.texts), self._dimension)
            for row, text in enumerate(request.texts):
                for tokens in self._windows(text):
                    progress.windows.append((row, tokens))
            progress.windows.sort(key=lambda window: len(window[1]))
            job.state = progress
        kept: EmbeddingProgress = job.state
        return kept

    def _windows(self, text: str) -> Iterator[list[int]]:
        """The text's tokens in equal pieces that fit the window, each with the ids the model wants around it."""
        tokens = self._tokenizer.encode(text)
        pieces = max(1, -(-len(tokens) // self._content))
        size = -(-len(tokens) // pieces)
        for piece in range(pieces):
            content = tokens[piece * size : (piece + 1) * size]
            yield [*self._tokenizer.prefix, *content, *self._tokenizer.suffix] or [0]

    def _run_batch(self, progress: "EmbeddingProgress") -> str:
        """Compute the next batch; "" when it is done or was interrupted, else what went wrong."""
        windows = progress.next_windows(self._aim)
        self._batch.clear()
        for _, tokens in windows:
            self._batch.add(tokens)
        status = self._compute()
        if status == ABORTED:
            return ""
        if status != 0:
            return f"llama.cpp answered {status} to a batch of {self._batch.handle.n_tokens} tokens"
        for sequence, (row, tokens) in enumerate(windows):
            pointer = library.llama_get_embeddings_seq(self._context, sequence)
            if not pointer:
                return f"llama.cpp returned no vector for sequence {sequence}; the model has no pooled embeddings"
            vector = np.ctypeslib.as_array(pointer, shape=(self._dimension,))
            if not np.isfinite(vector).all():
                return "the model returned a vector that is not finite; its weights are damaged, replace the file"
            progress.add(row, vector, len(tokens))
        progress.done += len(windows)
        return ""

    def _compute(self) -> int:
        """llama.cpp's status."""
        tokens = self._batch.handle.n_tokens
        threads = self._crowding.threads(tokens)
        library.llama_set_n_threads(self._context, threads, threads)
        began, own = time.perf_counter(), time.process_time()
        status = self._encode()
        if status != ABORTED:
            self._crowding.note(threads, tokens, time.perf_counter() - began, time.process_time() - own)
        return status

    def _encode(self) -> int:
        if self._memory:
            library.llama_memory_clear(self._memory, False)
            return int(library.llama_decode(self._context, self._batch.handle))
        return int(library.llama_encode(self._context, self._batch.handle))


class EmbeddingProgress:
    """What is done of one request: windows sorted by length, and the weighted sum of vectors per text."""

    def __init__(self, rows: int, dimension: int) -> None:
        self.windows: list[tuple[int, list[int]]] = []
        self.done = 0
        self.tokens = 0
        self._sums: NDArray[np.float32] = np.zeros((rows, dimension), dtype=np.float32)

    @property
    def remaining(self) -> int:
        return len(self.windows) - self.done

    def next_windows(self, aim_tokens: int) -> list[tuple[int, list[int]]]:
        """As many windows as fit the aim; always one, for a window may be larger than the aim."""
        chosen: list[tuple[int, list[int]]] = []
        total = 0
        for row, tokens in self.windows[self.done : self.done + MAX_SEQUENCES]:
            total += len(tokens)
            if chosen and total > aim_tokens:
                break
            chosen.append((row, tokens))
        return chosen

    def add(self, row: int, vector: NDArray[np.float32], tokens: int) -> None:
        """Add one window's vector, brought to length 1, weighted by its tokens."""
        norm = float(np.linalg.norm(vector))
        if norm > 0.0:
            self._sums[row] += vector * (tokens / norm)
        self.tokens += tokens

    def result(self, request_id: int) -> Vectors:
        norms = np.linalg.norm(self._sums, axis=1, keepdims=True)
        rows = self._sums / np.where(norms > 0.0, norms, 1.0)
        return Vectors(
            id=request_id,
            count=rows.shape[0],
            dimension=rows.shape[1],
            tokens=self.tokens,
            data=rows.astype("<f4").tobytes(),
        )


def _pooling(model: Any) -> int:
    """The model's own pooling, mean when it names none. Raises ModelFileError for a ranking model."""
    value = ctypes.create_string_buffer(64)
    architecture = ctypes.create_string_buffer(64)
    library.llama_model_meta_val_str(model, b"general.architecture", architecture, len(architecture))
    key = architecture.value + b".pooling_type"
    if library.llama_model_meta_val_str(model, key, value, len(value)) <= 0:
        return int(library.LLAMA_POOLING_TYPE_MEAN)
    pooling = int(value.value)
    if pooling == library.LLAMA_POOLING_TYPE_RANK:
        raise ModelFileError("it ranks pairs of texts and makes no embeddings; choose an embedding GGUF")
    return pooling if pooling > 0 else int(library.LLAMA_POOLING_TYPE_MEAN)
