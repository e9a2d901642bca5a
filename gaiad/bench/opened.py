"""A generating worker open for the length of a measurement, and the bare loop's settings that equal the worker's."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.clock import SystemClock
from gaiad.models.child.raw_tasks import Setting
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT, KEPT_SEQUENCES, MAX_THREADS
from gaiad.models.tokens.token_worker import TokenWorker


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


def bare_setting(path: Path, settings: GeneratorSettings, flash: str) -> Setting:
    """The context a worker with these settings opens for the file, with the attention that it chose."""
    window = settings.context or min(read_header(path).context, DEFAULT_CONTEXT)
    return Setting(
        threads=settings.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS),
        cells=max(settings.cells, window) + 1,
        batch=settings.batch_tokens,
        sequences=settings.parallel + KEPT_SEQUENCES,
        flash=flash == "on",
    )
