"""Generation beside a bare llama.cpp loop: both take turns on the same machine, and the median of the ratios counts.

A disturbance hits both alike; who goes first changes from round to round. Both sample with the same chain, and the bare
loop gets as many tokens as ours read or wrote the last time: a model may end its replies early.
"""

import asyncio
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from gaiad.base.errors import Unavailable
from gaiad.bench.model import Ask, Pace, Reached, Sizes, cells, threads
from gaiad.models.generator import GeneratorSettings
from gaiad.models.supervision.process import worker_environment
from gaiad.models.supervision.protocol import KEPT_SEQUENCES
from gaiad.wire.generation import Sampling


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The context's sizes, as the worker's are: `cells` and `batch` in tokens; one sequence more keeps the prefix."""

    threads: int
    cells: int
    batch: int
    sequences: int
    flash: bool
    sampling: Sampling = Sampling()


class BenchTask(msgspec.Struct, frozen=True, kw_only=True):
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


class BareLoopProcess:
    """Give it one task at a time."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def run(self, task: BenchTask) -> Figure:
        """What the loop reached. Raises Unavailable when it died."""
        return msgspec.json.decode(await self.exchange(task), type=Figure)

    async def exchange(self, message: msgspec.Struct) -> bytes:
        """Send one line, return the line that answers it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(msgspec.json.encode(message) + b"\n")
        answer = await self._child.stdout.readline()
        if not answer:
            raise Unavailable(f"the bare llama.cpp loop ended with status {await self._child.wait()}; run `make` again")
        return answer


@asynccontextmanager
async def bare_loop(model: Path, setting: Setting) -> AsyncIterator[BareLoopProcess]:
    """The loop with its model loaded, for the length of the block."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tests.bench.raw_generation", str(model)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=worker_environment(os.environ),
    )
    loop = BareLoopProcess(child)
    try:
        await loop.exchange(setting)
        yield loop
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


def bare_setting(path: Path, settings: GeneratorSettings, flash: str) -> Setting:
    """The context a worker with these settings opens for the file, with the attention that it chose."""
    return Setting(
        threads=threads(settings),
        cells=cells(path, settings),
        batch=settings.batch_tokens,
        sequences=settings.parallel + KEPT_SEQUENCES,
        flash=flash == "on",
    )


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Medians in tokens a second; `ratio` is the median of the rounds' ratios of ours to the bare loop's."""

    sequences: int
    ours: float
    bare: float
    ratio: float


class Duel:
    """Ours and the bare loop on one model."""

    def __init__(self, ask: Ask, bare: BareLoopProcess, sizes: Sizes) -> None:
        self._pace = Pace(ask, sizes)
        self._bare = bare
        self._sizes = sizes

    async def decode(self, sequences: int) -> Pair:
        """Writing by `sequences` streams at once after a beginning that all of them share."""
        return await self._rounds("decode", sequences)

    async def prefill(self, sequences: int) -> Pair:
        """Reading of `sequences` prompts at once, none of which begins like another."""
        return await self._rounds("prefill", sequences)

    async def _rounds(self, what: Literal["prefill", "decode"], sequences: int) -> Pair:
        rounds: list[tuple[float, float]] = []
        tokens = 0
        for number in range(self._sizes.rounds):
            ours = await self._ours(what, sequences) if number % 2 == 0 else None
            tokens = ours.tokens if ours else tokens
            prefix = self._pace.prefix_tokens if what == "decode" else 0
            bare = await self._bare.run(BenchTask(what=what, sequences=sequences, tokens=tokens, prefix=prefix))
            ours = ours or await self._ours(what, sequences)
            rounds.append((ours.rate, bare.rate))
        return Pair(
            sequences=sequences,
            ours=statistics.median(ours for ours, _ in rounds),
            bare=statistics.median(bare for _, bare in rounds),
            ratio=statistics.median(ours / bare for ours, bare in rounds),
        )

    async def _ours(self, what: Literal["prefill", "decode"], sequences: int) -> Reached:
        return await (self._pace.prefill(sequences) if what == "prefill" else self._pace.decode(sequences))
