"""How long people wait: for the first token of a prompt that is partly known, for the next while another prompt is
read, for a place that a cancelled request held.
"""

import asyncio
import itertools
import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gaiad.base.errors import Cancelled
from gaiad.base.ports import RequestContext
from gaiad.bench.model import Ask, Trace, asking, open_worker, prompt, request
from gaiad.bench.rows import Row, percentile
from gaiad.models.generator import GeneratorSettings
from tests.bench.over_socket import asking_daemon
from tests.makers.llama_files import half_billion

PROMPT_TOKENS = 2000
_SHARED = 0.9
_ROUNDS = 3
_LONG_REPLY = 2000
_CANCELS = 24
_numbers = itertools.count(100)


def measure_prefix() -> list[Row]:
    """Time to the first token, cold and with nine tenths known, alone and beside two streams; what those notice."""
    return asyncio.run(_prefix())


async def _prefix() -> list[Row]:
    with asking_daemon(half_billion(os.environ)) as ask:
        rows = _first_rows("alone", [await _cold_and_warm(ask) for _ in range(_ROUNDS)])
        async with _running(ask, 2) as traces:
            begun = [len(trace.pieces) for trace in traces]
            rows += _first_rows("beside two streams", [await _cold_and_warm(ask) for _ in range(_ROUNDS)])
            gaps = [gap for trace, start in zip(traces, begun, strict=True) for gap in _gaps_ms(trace, start)]
    what = f"between two pieces of a stream while {PROMPT_TOKENS} of others are read"
    return [
        *rows,
        Row(what=what, value=statistics.median(gaps), unit="ms p50"),
        Row(what="", value=percentile(gaps, 0.95), unit="ms p95", aim="<= 400"),
    ]


async def _cold_and_warm(ask: Ask) -> tuple[float, float]:
    """Seconds to the first token of a prompt, then of another that shares nine tenths with it."""
    text = prompt(PROMPT_TOKENS, next(_numbers))
    shared = int(len(text) * _SHARED)
    other = text[:shared] + prompt(len(text) - shared + 1, next(_numbers))
    return await _first_s(ask, text), await _first_s(ask, other)


async def _first_s(ask: Ask, text: str) -> float:
    trace = Trace()
    await ask(request(text, 2), trace, RequestContext())
    return trace.first_s


@asynccontextmanager
async def _running(ask: Ask, streams: int) -> AsyncIterator[list[Trace]]:
    """So many streams that write for as long as the block runs."""
    calls, traces = [RequestContext() for _ in range(streams)], [Trace() for _ in range(streams)]
    async with asyncio.TaskGroup() as group:
        for number, (call, trace) in enumerate(zip(calls, traces, strict=True)):
            group.create_task(ask(request(prompt(50, number), _LONG_REPLY, number), trace, call), name="bench/running")
        for trace in traces:
            await trace.reach(2)
        try:
            yield traces
        finally:
            for call in calls:
                call.cancel()


def _first_rows(where: str, rounds: Sequence[tuple[float, float]]) -> list[Row]:
    cold, warm = (statistics.median(times[which] for times in rounds) for which in (0, 1))
    ratio = statistics.median(warm / cold for cold, warm in rounds)
    return [
        Row(what=f"first token of {PROMPT_TOKENS}, cold, {where}", value=cold, unit="s"),
        Row(what="  of another that shares nine tenths", value=warm, unit="s"),
        Row(what="  ratio", value=ratio, unit="ratio", aim="<= 0.15"),
    ]


def _gaps_ms(trace: Trace, start: int) -> list[float]:
    """Between two pieces, from piece `start` on: who waits for a piece of several tokens waits once, and that long."""
    return [(after - before) * 1e3 for (before, _), (after, _) in itertools.pairwise(trace.pieces[start:])]


def measure_cancel() -> list[Row]:
    """From a cancel until the place is another's: what that one waited less the reading of its own prompt."""
    return asyncio.run(_cancel())


async def _cancel() -> list[Row]:
    async with open_worker(half_billion(os.environ), GeneratorSettings(parallel=1)) as worker:
        ask = asking(worker)
        await ask(request("next", 1), Trace(), RequestContext())  # the next one's prompt is known from here on
        writing = [await _freed_ms(ask, prompt(20, 1), tokens=3, delay_s=0.0) for _ in range(_CANCELS)]
        reading = [await _freed_ms(ask, prompt(1000, next(_numbers)), tokens=0, delay_s=0.3) for _ in range(_CANCELS)]
    return [
        Row(what="cancel to free place, amid a reply", value=percentile(writing, 0.95), unit="ms p95", aim="<= 50"),
        Row(what="  amid the reading of a prompt", value=percentile(reading, 0.95), unit="ms p95", aim="<= 50"),
        Row(what="  median of both", value=statistics.median(writing + reading), unit="ms p50"),
    ]


async def _freed_ms(ask: Ask, text: str, *, tokens: int, delay_s: float) -> float:
    """Cancel a request after `tokens` tokens and a moment more; another waits for its place."""
    call, trace, following = RequestContext(), Trace(), Trace()

    async def cancelled() -> None:
        try:
            await ask(request(text, _LONG_REPLY), trace, call)
        except Cancelled:
            return

    async with asyncio.TaskGroup() as group:
        group.create_task(cancelled(), name="bench/cancelled")
        await trace.reach(tokens)
        group.create_task(ask(request("next", 1), following, RequestContext()), name="bench/following")
        await asyncio.sleep(delay_s + random.uniform(0.05, 0.1))
        cancelled_at = time.perf_counter()
        call.cancel()
    assert following.end is not None
    return (following.ended - cancelled_at) * 1e3 - following.end.prefill_ms - following.end.decode_ms
