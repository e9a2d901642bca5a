"""The bare llama.cpp loop that generation is measured against: `python -m tests.bench.raw_generation MODEL`.

Reads a Setting, says that it is ready, then answers a Task a line with a Figure, all JSON. Same file, threads, context,
batch and sampler chain as the worker has; one llama_decode a step for all sequences. No socket, no queue, no abort
callback, no text: token ids in, token ids out.
"""

import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from gaiad.models.child.llama import AbortFlag, Batch, ContextMemory, Log, library, load_model, open_generation_context
from gaiad.models.child.sampling import Sampler
from gaiad.models.child.vocabulary import Vocabulary
from tests.bench.bare_loop import BenchTask, Figure, Setting


class BareLoop:
    """A model, one context, one sampler a sequence."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self._setting = setting
        self._model = load_model(path, Log())
        self._vocabulary = Vocabulary(self._model)
        self._batch = Batch(setting.batch + setting.sequences)
        self._context = open_generation_context(
            self._model,
            cells=setting.cells,
            batch=self._batch.capacity,
            sequences=setting.sequences + 1,
            threads=setting.threads,
            flash=setting.flash,
            abort=AbortFlag(),
        )
        library.llama_set_abort_callback(self._context, library.ggml_abort_callback(0), None)
        self._memory = ContextMemory(self._context)
        self._prefix = 0
        self._drawn = 0

    def run(self, task: BenchTask) -> Figure:
        """One measurement; the memory is empty but for the prefix that decoding starts from."""
        for sequence in range(self._setting.sequences):
            self._memory.truncate(sequence, 0)
        return self._prefill(task) if task.what == "prefill" else self._decode(task)

    def _prefill(self, task: BenchTask) -> Figure:
        prompts = [self._prompt(task.tokens // task.sequences) for _ in range(task.sequences)]
        started = time.perf_counter()
        self._read(dict(enumerate(prompts)))
        return Figure(tokens=sum(map(len, prompts)), seconds=time.perf_counter() - started)

    def _decode(self, task: BenchTask) -> Figure:
        self._keep_prefix(task.prefix)
        for sequence in range(task.sequences):
            self._memory.copy(self._setting.sequences, sequence, task.prefix)
        samplers = [Sampler(seed, self._setting.sampling, self._vocabulary) for seed in range(task.sequences)]
        tokens = self._prompt(task.sequences)
        started = time.perf_counter()
        for position in range(task.prefix, task.prefix + task.tokens):
            self._batch.clear()
            for sequence, token in enumerate(tokens):
                self._batch.append([token], position, sequence, logits=True)
            self._run()
            tokens = [sampler.choose(self._context, index) for index, sampler in enumerate(samplers)]
        seconds = time.perf_counter() - started
        for sampler in samplers:
            sampler.close()
        return Figure(tokens=task.tokens * task.sequences, seconds=seconds)

    def _keep_prefix(self, length: int) -> None:
        """Have `length` tokens in the sequence behind the last; they are read once."""
        if length != self._prefix:
            self._memory.truncate(self._setting.sequences, 0)
            self._read({self._setting.sequences: self._prompt(length)})
            self._prefix = length

    def _read(self, prompts: dict[int, list[int]]) -> None:
        """Read the prompts, each in its sequence, in batches as full as they may be."""
        self._batch.clear()
        for sequence, prompt in prompts.items():
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
        usual = max(1, min(256, self._vocabulary.size - 3))
        return [3 + (self._drawn * 31 + place * (6 + self._drawn)) % usual for place in range(count)]


def main(arguments: list[str]) -> int:
    setting = msgspec.json.decode(sys.stdin.readline(), type=Setting)
    loop = BareLoop(Path(arguments[0]), setting)
    _say({"ready": True})
    for line in sys.stdin:
        _say(loop.run(msgspec.json.decode(line, type=BenchTask)))
    return 0


def _say(value: Any) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
