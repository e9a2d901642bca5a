"""Prefill and decode beside the bare loop: both take turns on the same machine, and the median of the ratios counts.

Any disturbance of a round hits both alike; who goes first changes from round to round. Both sample with the same chain,
and the bare loop is given as many tokens as ours read or wrote the last time: a model may end its replies early.
"""

import contextlib
import itertools
import statistics
from collections.abc import Iterator

import msgspec

from gaiad.bench.bare_loop import BareLoop
from gaiad.bench.streams import Ask, Trace, prompt, request, shared_rate, together
from gaiad.errors import Unavailable
from gaiad.generation import Generated
from gaiad.models.child.raw_tasks import Task

_TRIES = 5
_FEWEST = 4


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one turn: `prefix` that all streams share, `decode` a stream, `prefill` over all streams."""

    prefix: int = 1000
    decode: int = 48
    prefill: int = 512
    rounds: int = 5


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Medians in tokens a second; `ratio` is the median of the rounds' ratios of ours to the bare loop's."""

    sequences: int
    ours: float
    bare: float
    ratio: float


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Ours in one round: tokens a second, and how many there were in the sense of a Task."""

    rate: float
    tokens: int


class Duel:
    """Ours and the bare loop on one model. Every prompt it makes is a new one."""

    def __init__(self, ask: Ask, bare: BareLoop, sizes: Sizes) -> None:
        self._ask = ask
        self._bare = bare
        self._sizes = sizes
        self._number = itertools.count(1)
        self._prefix = prompt(sizes.prefix, 0)
        self._prefix_tokens = 0

    async def decode(self, sequences: int) -> Pair:
        """Writing by `sequences` streams at once after a beginning that all of them share."""
        if not self._prefix_tokens:
            (warm,) = await together(self._ask, [request(self._prefix, 1)])
            self._prefix_tokens = warm.end.prompt_tokens if warm.end else 0
        task = Task(what="decode", sequences=sequences, tokens=self._sizes.decode, prefix=self._prefix_tokens)
        return await self._rounds(task, sequences)

    async def prefill(self, sequences: int) -> Pair:
        """Reading of `sequences` prompts at once, none of which begins like another."""
        task = Task(what="prefill", sequences=sequences, tokens=self._sizes.prefill)
        return await self._rounds(task, sequences)

    async def _rounds(self, task: Task, sequences: int) -> Pair:
        rounds: list[tuple[float, float]] = []
        asked = task
        for number in range(self._sizes.rounds):
            ours = None if number % 2 else await self._ours(task)
            if ours:
                asked = msgspec.structs.replace(task, tokens=ours.tokens)
            bare = await self._bare.run(asked)
            ours = ours or await self._ours(task)
            rounds.append((ours.rate, bare.rate))
        return Pair(
            sequences=sequences,
            ours=statistics.median(ours for ours, _ in rounds),
            bare=statistics.median(bare for _, bare in rounds),
            ratio=statistics.median(ours / bare for ours, bare in rounds),
        )

    async def _ours(self, task: Task) -> Reached:
        if task.what == "decode":
            return await self._write(task)
        texts = [prompt(task.tokens // task.sequences, next(self._number)) for _ in range(task.sequences)]
        traces = await together(self._ask, [request(text, 1) for text in texts])
        read = sum(end.prompt_tokens - end.cached_tokens for end in _ends(traces))
        began, ended = min(trace.asked for trace in traces), max(trace.ended for trace in traces)
        return Reached(rate=read / (ended - began), tokens=max(read, task.sequences))

    async def _write(self, task: Task) -> Reached:
        """A model that ends by itself too soon is asked again with other seeds."""
        for _ in range(_TRIES):
            asked = [request(self._prefix, task.tokens, next(self._number)) for _ in range(task.sequences)]
            traces = await together(self._ask, asked)
            if min(trace.tokens for trace in traces) >= min(_FEWEST, task.tokens):
                with contextlib.suppress(Unavailable):
                    written = sum(end.tokens for end in _ends(traces)) // task.sequences
                    return Reached(rate=shared_rate(traces), tokens=max(1, written))
        raise Unavailable(
            f"the model ends its replies before {_FEWEST} tokens, {_TRIES} times; there is no rate to tell"
        )


def _ends(traces: list[Trace]) -> Iterator[Generated]:
    return (trace.end for trace in traces if trace.end is not None)
