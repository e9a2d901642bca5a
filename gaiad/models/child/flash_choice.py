"""Whether the flash kernel of attention is faster, for this model on this machine: measured when it is loaded.

What decides is how full the memory is and with whose tokens. The plain kernel works through every cell in use, the
flash kernel passes over those that a sequence does not see: on an almost empty memory it is a little slower, with some
kept conversations beside the running ones twice as fast. So the trial fills a small memory by copies of a short text,
half of them visible, and takes a step of writing and a piece of reading in turns. Child processes only.
"""

import ctypes
import math
import time
from collections.abc import Callable
from typing import Any

from gaiad.models.child.bindings import library
from gaiad.models.child.llama import Batch, ContextMemory, ModelFileError

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
