"""Text from a daemon over its socket, as a client gets it: one connection and one reading thread a stream.

The daemon runs the model under measurement in its role prime and nothing else.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gaiad.base.ports import Priority, RequestContext
from gaiad.bench.daemon_process import running_daemon
from gaiad.bench.model import Ask, Trace
from gaiad.client.client import Client
from gaiad.client.connection import ServerEvent
from gaiad.wire.generation import GenerateBody, Generated, GenerateRequest, TextDelta

_STREAMS = 16


@contextmanager
def asking_daemon(model: Path, *settings: str) -> Iterator[Ask]:
    """A daemon with `model` in memory, to be asked for at most 16 streams at a time."""
    with running_daemon("embedder.kind=none", f"roles.prime={model}", *settings) as daemon:
        daemon.client.load_model("prime")
        with _asking(daemon.home) as ask:
            yield ask


@contextmanager
def _asking(home: Path) -> Iterator[Ask]:
    with ThreadPoolExecutor(_STREAMS, thread_name_prefix="bench-stream") as threads:

        async def ask(request: GenerateRequest, trace: Trace, call: RequestContext) -> None:
            loop = asyncio.get_running_loop()

            def read() -> None:
                with Client(home) as client:
                    for event in client.generate_events(_body(request, call)):
                        if call.cancelled:
                            return
                        loop.call_soon_threadsafe(trace.note, _piece(event), time.perf_counter())

            await loop.run_in_executor(threads, read)

        yield ask


def _piece(event: ServerEvent) -> TextDelta | Generated:
    if event.event == "delta":
        return msgspec.convert(event.data, TextDelta)
    return msgspec.convert(event.data, Generated)


def _body(request: GenerateRequest, call: RequestContext) -> GenerateBody:
    return GenerateBody(
        prompt="".join(segment.text for segment in request.segments),
        max_tokens=request.max_tokens,
        seed=request.seed,
        temperature=request.sampling.temperature,
        top_k=request.sampling.top_k,
        top_p=request.sampling.top_p,
        schema=request.schema,
        background=call.priority is Priority.BACKGROUND,
    )
