"""The model and its one context as the generating engine sees them: fill a batch, decode it, one beat of the heart."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaiad.models.child.bindings import library
from gaiad.models.child.flash_choice import TRIAL_BATCH, TRIAL_CELLS, TRIAL_SEQUENCES, flash_pays
from gaiad.models.child.llama import (
    ABORTED,
    AbortFlag,
    Batch,
    ContextMemory,
    Log,
    ModelFileError,
    load_model,
    open_generation_context,
)
from gaiad.models.child.stream_state import StreamState
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT, KEPT_SEQUENCES, MAX_THREADS, Load

DECODED, FULL = 0, 1
MAX_SEQUENCES = 64


class GenerateContext:
    """`numbers` sequences for requests and the cache, one more for the heart; `window` tokens at most per request."""

    def __init__(self, path: Path, load: Load) -> None:
        self.interrupt = AbortFlag()
        self._model = load_model(path, Log())
        if not library.llama_model_n_params(self._model):
            raise ModelFileError(f"{path}: has a vocabulary and no weights; choose a complete GGUF")
        if not library.llama_model_has_decoder(self._model) or library.llama_model_has_encoder(self._model):
            raise ModelFileError(f"{path}: makes no text by itself; choose a GGUF of a decoder")
        try:
            self._open(load)
            self._prove()
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error

    def _open(self, load: Load) -> None:
        trained = int(library.llama_model_n_ctx_train(self._model))
        if load.context > trained:
            raise ModelFileError(
                f"a context of {load.context} tokens is asked for, it was trained for {trained}; lower models.context, "
                "or the model's own context in models.known"
            )
        if not 1 <= load.sequences <= MAX_SEQUENCES:
            raise ModelFileError(f"{load.sequences} sequences are asked for; 1 to {MAX_SEQUENCES} can be had")
        self.window = load.context or min(trained, DEFAULT_CONTEXT)
        self.vocabulary = Vocabulary(self._model)
        self.numbers = load.sequences + KEPT_SEQUENCES
        self.chunk = max(1, load.batch_tokens)
        self._heart = self.numbers
        self._threads = load.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)
        self.flash = load.flash == "on" or (load.flash == "auto" and self._measure_flash(load.sequences))
        self._batch = Batch(self.chunk + load.sequences)
        cells = max(load.cells, self.window) + 1
        self.handle = self._new_context(cells, self._batch.capacity, self.numbers + 1, flash=self.flash)
        if not library.llama_get_memory(self.handle):
            raise ModelFileError("it keeps no memory of what it has read and makes no text; choose a GGUF of a decoder")
        self.memory = ContextMemory(self.handle)
        self.cells = min(max(load.cells, self.window), int(library.llama_n_ctx(self.handle)) - 1)

    def _new_context(self, cells: int, batch: int, sequences: int, *, flash: bool) -> Any:
        return open_generation_context(
            self._model,
            cells=cells,
            batch=batch,
            sequences=sequences,
            threads=self._threads,
            flash=flash,
            abort=self.interrupt,
        )

    def _measure_flash(self, sequences: int) -> bool:
        batch, all_sequences = max(TRIAL_BATCH, sequences), sequences + TRIAL_SEQUENCES
        return flash_pays(
            lambda flash: self._new_context(TRIAL_CELLS, batch, all_sequences, flash=flash),
            self.vocabulary.probe,
            sequences,
        )

    def _prove(self) -> None:
        """Read two tokens, look at the numbers, and learn whether the memory can be cut in part."""
        self._batch.clear()
        index = self._batch.append([self.vocabulary.probe] * 2, 0, self._heart, logits=True)
        status = self.decode()
        if status != DECODED:
            raise ModelFileError(f"llama.cpp answered {status} to its first two tokens; choose another model")
        logits = library.llama_get_logits_ith(self.handle, index)
        if not np.isfinite(np.ctypeslib.as_array(logits, shape=(self.vocabulary.size,))).all():
            raise ModelFileError("its first numbers are not finite; its weights are damaged, replace the file")
        self.memory.partial = self.memory.truncate(self._heart, 1)
        self.memory.truncate(self._heart, 0)

    def fill(self, planned: Sequence[tuple[StreamState, int]]) -> dict[int, int]:
        """Put each stream's next tokens into the batch. Where logits will be, by request id."""
        self._batch.clear()
        outputs: dict[int, int] = {}
        for stream, count in planned:
            assert stream.held is not None
            start = stream.held.length
            last = start + count == len(stream.tokens)
            tokens = stream.tokens[start : start + count]
            index = self._batch.append(tokens, start, stream.held.id, logits=last)
            if last:
                outputs[stream.id] = index
        return outputs

    def decode(self) -> int:
        """llama.cpp's status: DECODED, FULL, ABORTED, or an error below 0."""
        return int(library.llama_decode(self.handle, self._batch.handle))

    def beat(self) -> int:
        """Decode one token on the reserved sequence; the status of `decode`."""
        self._batch.clear()
        self._batch.append([self.vocabulary.probe], 0, self._heart, logits=True)
        status = self.decode()
        if status != ABORTED:
            self.memory.truncate(self._heart, 0)
        return status

    def close(self) -> None:
        library.llama_batch_free(self._batch.handle)
        library.llama_free(self.handle)
        library.llama_model_free(self._model)
