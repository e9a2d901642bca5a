"""The model and its one context as the generating engine sees them: fill a batch, decode it, one beat of the heart.

Which attention kernel the context uses is measured when the model is loaded, on this machine. What decides is how full
the memory is and with whose tokens: the plain kernel works through every cell in use, the flash kernel passes over
those that a sequence does not see. On an almost empty memory it is a little slower, with some kept conversations beside
the running ones twice as fast. So the trial fills a small memory by copies of a short text, half of them visible, and
takes a step of writing and a piece of reading in turns.
"""

import ctypes
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaiad.models.child.llama import (
    ABORTED,
    AbortFlag,
    Batch,
    ContextMemory,
    Log,
    ModelFileError,
    library,
    load_model,
    open_generation_context,
)
from gaiad.models.child.stream_state import StreamState
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT, KEPT_SEQUENCES, MAX_THREADS, Load

TRIAL_CELLS = 4096
TRIAL_BATCH = 16
TRIAL_SEQUENCES = 3  # besides those that write: what is loaded, what the others see, what they do not see
_TEXT = 32
_SEEN = 4  # one copy in four: a cache is full after some use, and one conversation is a part of it
_TURNS = 5
_LIMIT_S = 2.5
_NOISE = 0.05
_READ_PER_WRITTEN = 2.0  # tokens of a prompt that are new, for each token of a reply

OpenTrial = Callable[[bool], Any]
"""A context of TRIAL_CELLS cells and TRIAL_BATCH tokens a step, with flash attention or without."""


def flash_pays(open_trial: OpenTrial, token: int, sequences: int) -> bool:
    """False when the flash kernel is clearly slower, or cannot be had. What noise or a slow machine leaves open is
    decided for it: at worst it costs a tenth, and the plain one more than half once the memory has filled.
    """
    trials: list[_Trial] = []
    turns: list[list[float]] = []
    try:
        for flash in (False, True):
            trials.append(_Trial(open_trial(flash), token, sequences))
        trials[0].touch()
        end = time.monotonic() + _LIMIT_S
        for _ in range(1 + _TURNS):
            turns.append([trial.cost_s(end) for trial in trials])
    except TrialOver:
        pass
    except ModelFileError:
        return False
    finally:
        for trial in trials:
            trial.close()
    if len(turns) < 2:
        return True
    plain_s, flash_s = (min(turn[which] for turn in turns[1:]) for which in (0, 1))
    return flash_s <= plain_s * (1.0 + _NOISE)


class TrialOver(Exception):
    """The time is up or llama.cpp refused a step; what was measured until then counts."""


class _Trial:
    """One context, filled. Sequence 0 sees what all writing ones see, before they are copied from it."""

    def __init__(self, context: Any, token: int, sequences: int) -> None:
        self._context = context
        self._end = math.inf
        self._batch = Batch(max(TRIAL_BATCH, sequences))
        self._token = token
        self._sequences = sequences
        self._memory = ContextMemory(context)
        self._length = 0

    def close(self) -> None:
        library.llama_batch_free(self._batch.handle)
        library.llama_free(self._context)

    def touch(self) -> None:
        """Read a token, and with it the weights from the disk, which a trial of time must not contain."""
        self._step([(0, 1)])

    def cost_s(self, end: float) -> float:
        """Seconds for a token of every sequence and its share of prompt; the first call fills the memory.

        Raises TrialOver, also when it is later than `end`.
        """
        self._end = end
        if not self._length:
            self._read()
            self._fill()
        write = self._step([(sequence, 1) for sequence in range(self._sequences)])
        read = self._step([(0, TRIAL_BATCH)])
        return write + read * _READ_PER_WRITTEN * self._sequences / TRIAL_BATCH

    def _read(self) -> None:
        """A short text into sequence 0."""
        while self._length < _TEXT:
            self._step([(0, TRIAL_BATCH)], keep=True)
            self._length += TRIAL_BATCH

    def _fill(self) -> None:
        """Copies of the text into cells of their own, in turn for the writing sequences to see and not to see."""
        source, seen, unseen = range(self._sequences, self._sequences + TRIAL_SEQUENCES)
        size = int(library.llama_state_seq_get_size(self._context, 0))
        state = (ctypes.c_uint8 * size)()
        library.llama_state_seq_get_data(self._context, state, size, 0)
        for number in range((TRIAL_CELLS - TRIAL_BATCH) // self._length - 1):
            if not library.llama_state_seq_set_data(self._context, state, size, source):
                break
            self._memory.copy(source, seen if number % _SEEN == 0 else unseen, self._length)
            self._memory.truncate(source, 0)
        self._memory.copy(seen, 0, self._length)
        for sequence in range(1, self._sequences):
            self._memory.copy(0, sequence, self._length)

    def _step(self, counts: list[tuple[int, int]], *, keep: bool = False) -> float:
        """Seconds to decode so many more tokens of each sequence."""
        if time.monotonic() > self._end:
            raise TrialOver
        self._batch.clear()
        for sequence, count in counts:
            self._batch.append([self._token] * count, self._length, sequence, logits=count == 1)
        started = time.perf_counter()
        status = int(library.llama_decode(self._context, self._batch.handle))
        library.llama_synchronize(self._context)
        took = time.perf_counter() - started
        if status != 0:
            raise TrialOver
        if not keep:
            for sequence, _ in counts:
                self._memory.truncate(sequence, self._length)
        return took


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
            raise ModelFileError(f"{path}: does not generate text; choose the GGUF of a decoder")
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
