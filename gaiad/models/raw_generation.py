"""The bare llama.cpp loop that generation is measured against: `python -m gaiad.models.raw_generation MODEL`.

Reads one JSON Setting, prints {"ready": ...}, then answers one JSON Task a line with {"tokens", "seconds"}. Same file,
threads, context, batch and sampler settings as the worker has; one llama_decode a step for all sequences. No socket, no
queue, no abort callback, no text: token ids in, token ids out.
"""

import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from gaiad.generation import Sampling
from gaiad.models.bindings import library
from gaiad.models.llama import AbortFlag, Batch, ContextMemory, Log, load_model, open_generation_context
from gaiad.models.sampling import Sampler
from gaiad.models.vocabulary import Vocabulary


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The context's sizes, in tokens, as the worker's are."""

    threads: int
    cells: int
    batch: int
    sequences: int
    flash: bool
    sampling: Sampling = Sampling()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """prefill: `tokens` prompt tokens shared out over `sequences` prompts, none of them read before.

    decode: `tokens` a sequence, after a beginning of `prefix` tokens that all sequences share.
    """

    what: Literal["prefill", "decode"]
    sequences: int
    tokens: int
    prefix: int = 0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What was read or written in all, and how long it took. Loading and what all share are not counted."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class BareLoop:
    """A model, one context, one sampler a sequence."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self._setting = setting
        self._model = load_model(path, Log())
        self._vocabulary = Vocabulary(self._model)
        self._context = open_generation_context(
            self._model,
            cells=setting.cells,
            batch=setting.batch + setting.sequences,
            sequences=setting.sequences,
            threads=setting.threads,
            flash=setting.flash,
            abort=AbortFlag(),
        )
        library.llama_set_abort_callback(self._context, library.ggml_abort_callback(0), None)
        self._memory = ContextMemory(self._context)
        self._batch = Batch(setting.batch + setting.sequences)
        self._drawn = 0

    def run(self, task: Task) -> Figure:
        """One measurement on an empty memory."""
        for sequence in range(self._setting.sequences):
            self._memory.truncate(sequence, 0)
        return self._prefill(task) if task.what == "prefill" else self._decode(task)

    def _prefill(self, task: Task) -> Figure:
        prompts = [self._prompt(task.tokens // task.sequences) for _ in range(task.sequences)]
        started = time.perf_counter()
        self._read(prompts)
        return Figure(tokens=sum(map(len, prompts)), seconds=time.perf_counter() - started)

    def _decode(self, task: Task) -> Figure:
        self._read([self._prompt(task.prefix)])
        for sequence in range(1, task.sequences):
            self._memory.copy(0, sequence, task.prefix)
        samplers = [Sampler(seed, self._setting.sampling, self._vocabulary) for seed in range(task.sequences)]
        tokens = self._prompt(task.sequences)
        started = time.perf_counter()
        for step in range(task.tokens):
            self._batch.clear()
            for sequence, token in enumerate(tokens):
                self._batch.append([token], task.prefix + step, sequence, logits=True)
            self._run()
            tokens = [sampler.choose(self._context, index) for index, sampler in enumerate(samplers)]
        seconds = time.perf_counter() - started
        for sampler in samplers:
            sampler.close()
        return Figure(tokens=task.tokens * task.sequences, seconds=seconds)

    def _read(self, prompts: list[list[int]]) -> None:
        """Read all prompts, each in its sequence, in batches as full as they may be."""
        self._batch.clear()
        for sequence, prompt in enumerate(prompts):
            start = 0
            while start < len(prompt):
                count = min(len(prompt) - start, self._setting.batch - self._batch.handle.n_tokens)
                end = start + count == len(prompt)
                self._batch.append(prompt[start : start + count], start, sequence, logits=end)
                start += count
                if self._batch.handle.n_tokens == self._setting.batch:
                    self._run()
                    self._batch.clear()
        if self._batch.handle.n_tokens:
            self._run()

    def _run(self) -> None:
        status = int(library.llama_decode(self._context, self._batch.handle))
        if status != 0:
            raise RuntimeError(f"llama_decode answered {status}")
        library.llama_synchronize(self._context)

    def _prompt(self, count: int) -> list[int]:
        """`count` tokens such as no earlier call gave."""
        self._drawn += 1
        return [
            3 + (self._drawn * 31 + position * 7) % min(256, self._vocabulary.size - 3) for position in range(count)
        ]


def main(arguments: list[str]) -> int:
    setting = msgspec.json.decode(sys.stdin.readline(), type=Setting)
    loop = BareLoop(Path(arguments[0]), setting)
    _say({"ready": True})
    for line in sys.stdin:
        _say(loop.run(msgspec.json.decode(line, type=Task)))
    return 0


def _say(value: Any) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
