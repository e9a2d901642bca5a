"""How fast a model of the user reads and writes on this machine: `gaiad models bench`, about a minute for any size.

Several requests for text are sent at once, and when each of their tokens came is what all measures look at.
"""

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import string
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Unavailable
from gaiad.base.logs import configure_logs
from gaiad.base.ports import Model, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.gguf.gguf_info import read_info
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT, MAX_THREADS
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, Segment, TextDelta


class Trace:
    """One reply as its reader saw it: (monotonic seconds, tokens so far) of every piece, then the end."""

    def __init__(self) -> None:
        self.asked = time.perf_counter()
        self.pieces: list[tuple[float, int]] = []
        self.end: Generated | None = None
        self.ended = 0.0
        self._changed = asyncio.Event()

    def note(self, event: TextDelta | Generated, when: float | None = None) -> None:
        """Call it as soon as the event is there, or say when it was (time.perf_counter)."""
        when = time.perf_counter() if when is None else when
        if isinstance(event, Generated):
            self.end, self.ended = event, when
        else:
            self.pieces.append((when, event.tokens))
        self._changed.set()

    @property
    def tokens(self) -> int:
        """Of the reply, so far."""
        return self.pieces[-1][1] if self.pieces else 0

    @property
    def first_s(self) -> float:
        """From asking to the first piece of text."""
        return self.pieces[0][0] - self.asked

    async def reach(self, tokens: int) -> None:
        """Return when the reply has so many tokens."""
        while self.tokens < tokens and self.end is None:
            self._changed.clear()
            await self._changed.wait()


Ask = Callable[[GenerateRequest, Trace, RequestContext], Coroutine[Any, Any, None]]
"""Send a request and note what comes, to its end."""


def asking(model: Model) -> Ask:
    """Ask a model in this process."""

    async def ask(request: GenerateRequest, trace: Trace, call: RequestContext) -> None:
        events: AsyncIterator[TextDelta | Generated] = model.generate(request, call)
        async for event in events:
            trace.note(event)

    return ask


async def together(ask: Ask, requests: Sequence[GenerateRequest]) -> list[Trace]:
    """All of them at once, to the end of the last."""
    traces = [Trace() for _ in requests]
    asked = [ask(request, trace, RequestContext()) for request, trace in zip(requests, traces, strict=True)]
    async with TaskGroup("bench") as tasks:
        await asyncio.gather(*[tasks.start("stream", each) for each in asked])
    return traces


def shared_rate(traces: Sequence[Trace]) -> float:
    """Tokens a second of all streams while all of them wrote: from the last first piece to the first last one.

    Each stream's own rate between two of its pieces, added up. Raises Unavailable without such a time.
    """
    start = max((trace.pieces[0][0] for trace in traces if trace.pieces), default=0.0)
    end = min((trace.pieces[-1][0] for trace in traces if trace.pieces), default=0.0)
    total = 0.0
    for trace in traces:
        inside = [piece for piece in trace.pieces if start <= piece[0] <= end]
        if len(inside) < 2:
            raise Unavailable("the streams did not write at the same time; no rate can be given")
        (began, had), (ended, has) = inside[0], inside[-1]
        total += (has - had) / (ended - began)
    return total


def prompt(tokens: int, number: int) -> str:
    """Text of `tokens` tokens under a byte-level vocabulary that adds a beginning; another `number`, other letters."""
    return "".join(random.Random(number).choices(string.ascii_lowercase, k=tokens - 1))


def request(
    text: str, tokens: int, seed: int = 0, sampling: Sampling | None = None, stop: Sequence[str] = ()
) -> GenerateRequest:
    """A request for exactly `tokens` tokens, as long as the model does not end by itself."""
    return GenerateRequest(
        segments=[Segment(text)],
        max_tokens=tokens,
        seed=seed,
        sampling=sampling or Sampling(),
        stop=list(stop),
    )


STREAMS = (1, 2, 4, 8)
_TRIES = 5
_FEWEST = 4
_TURN_S = 1.0
_ROUNDS = 3


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one turn: `prefix` that all streams share, `decode` a stream, `prefill` over all streams."""

    prefix: int = 1000
    decode: int = 48
    prefill: int = 512
    rounds: int = 5


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of all streams together, and how many tokens: of prefill in all, of decode a stream."""

    rate: float
    tokens: int


class Pace:
    """Measures one model. Every prompt it makes is a new one; `prefix_tokens` are read before the first decode."""

    def __init__(self, ask: Ask, sizes: Sizes) -> None:
        self._ask = ask
        self._sizes = sizes
        self._number = itertools.count(1)
        self._prefix = prompt(sizes.prefix, 0)
        self.prefix_tokens = 0

    async def prefill(self, sequences: int) -> Reached:
        """Reading of `sequences` prompts at once, none of which begins like another."""
        texts = [prompt(self._sizes.prefill // sequences, next(self._number)) for _ in range(sequences)]
        traces = await together(self._ask, [request(text, 1) for text in texts])
        read = sum(end.prompt_tokens - end.cached_tokens for end in _ends(traces))
        began, ended = min(trace.asked for trace in traces), max(trace.ended for trace in traces)
        return Reached(rate=read / (ended - began), tokens=max(read, sequences))

    async def decode(self, sequences: int) -> Reached:
        """Writing by `sequences` streams at once after a beginning that all of them share.

        A model that ends by itself too soon is asked again with other seeds. Raises Unavailable when it always does.
        """
        if not self.prefix_tokens:
            (warm,) = await together(self._ask, [request(self._prefix, 1)])
            self.prefix_tokens = warm.end.prompt_tokens if warm.end else 0
        for _ in range(_TRIES):
            asked = [request(self._prefix, self._sizes.decode, next(self._number)) for _ in range(sequences)]
            traces = await together(self._ask, asked)
            if min(trace.tokens for trace in traces) >= min(_FEWEST, self._sizes.decode):
                with contextlib.suppress(Unavailable):
                    written = sum(end.tokens for end in _ends(traces)) // sequences
                    return Reached(rate=shared_rate(traces), tokens=max(1, written))
        raise Unavailable(f"the model ends its replies before {_FEWEST} tokens, {_TRIES} times; no rate can be given")


def _ends(traces: list[Trace]) -> Iterator[Generated]:
    return (trace.end for trace in traces if trace.end is not None)


@asynccontextmanager
async def open_worker(path: Path, settings: GeneratorSettings) -> AsyncIterator[WorkerGenerator]:
    """Loaded and ready. Raises BadInput, Unavailable."""
    clock = SystemClock("UTC")
    tokens = TokenWorker(clock)
    generator = WorkerGenerator(path, settings, clock, role="bench", tokenizer=tokens.tokenizer(path))
    try:
        await tokens.start()
        await generator.start()
        await generator.wait_ready(settings.start_timeout_s)
        yield generator
    finally:
        await generator.close()
        await tokens.close()


class SequenceRates(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens a second of all sequences together, medians."""

    sequences: int
    prefill: float
    decode: float


class ModelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`flash_attention` is what was measured to be faster here."""

    path: str
    fingerprint: str
    threads: int
    flash_attention: bool
    unit: str
    rates: list[SequenceRates]


def measure_model(path: Path) -> ModelFigures:
    """Prefill and decode at 1, 2, 4 and 8 sequences. Raises BadInput, Unavailable."""
    configure_logs("critical", "text")
    info = read_info(path)
    return asyncio.run(_measure(path, info.fingerprint))


async def _measure(path: Path, fingerprint: str) -> ModelFigures:
    settings = GeneratorSettings(parallel=max(STREAMS))
    async with open_worker(path, settings) as worker:
        pace = Pace(asking(worker), await _fitting(asking(worker), cells(path, settings)))
        rates = [await _rates(pace, count) for count in STREAMS]
        flash = worker.flash
    return ModelFigures(
        path=str(path),
        fingerprint=fingerprint,
        threads=threads(settings),
        flash_attention=flash == "on",
        unit="tokens/s",
        rates=rates,
    )


def threads(settings: GeneratorSettings) -> int:
    """As many as a worker with these settings uses."""
    return settings.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)


def cells(path: Path, settings: GeneratorSettings) -> int:
    """The size of the context that a worker with these settings opens for the file, in tokens."""
    window = settings.context or min(read_header(path).context, DEFAULT_CONTEXT)
    return max(settings.cells, window) + 1


async def _fitting(ask: Ask, size: int) -> Sizes:
    """As much in a turn as the model does in about a second, and as a context of `size` tokens holds."""
    share = size // 4
    trial = Pace(ask, Sizes(prefix=min(8, share), decode=4, prefill=min(64, size // 8)))
    await trial.prefill(1)
    read, written = await trial.prefill(1), await trial.decode(1)
    return Sizes(
        prefix=min(max(32, int(read.rate * _TURN_S)), 1000, share),
        decode=min(max(8, int(written.rate * _TURN_S)), 48, share // max(STREAMS)),
        prefill=min(max(64, int(read.rate * _TURN_S)), 512, share),
    )


async def _rates(pace: Pace, sequences: int) -> SequenceRates:
    prefill = [(await pace.prefill(sequences)).rate for _ in range(_ROUNDS)]
    decode = [(await pace.decode(sequences)).rate for _ in range(_ROUNDS)]
    return SequenceRates(
        sequences=sequences,
        prefill=round(statistics.median(prefill), 1),
        decode=round(statistics.median(decode), 1),
    )
