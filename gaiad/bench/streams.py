"""Several requests for text at once, and when each of their tokens came: what all measures of generation look at."""

import asyncio
import random
import string
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from gaiad.base.errors import Unavailable
from gaiad.base.ports import Model, RequestContext
from gaiad.base.tasks import TaskGroup
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
