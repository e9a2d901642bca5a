"""A generating worker with its tokenizer child, open for the length of a measurement."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.clock import SystemClock
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.token_worker import TokenWorker


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
