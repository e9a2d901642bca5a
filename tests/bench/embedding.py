"""Embedding through the worker against a bare llama.cpp loop on the same texts, in the same run.

Both take turns on the same texts, and the median of the rounds' ratios counts: a busy machine disturbs both alike.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path

from gaiad.base.config import EmbedderConfig, load_config
from gaiad.base.errors import Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.bench.measures import made_texts, open_embedder
from gaiad.bench.rows import Row
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path
from gaiad.models.supervision.process import worker_environment
from gaiad.models.supervision.protocol import MAX_THREADS

ROUNDS = 5


def measure_embedding() -> list[Row]:
    """Tokens/s of worker and bare loop with their ratio."""
    rounds = asyncio.run(_rounds(default_model_path(os.environ)))
    worker, bare = (statistics.median(each[which] for each in rounds) for which in (0, 1))
    ratio = statistics.median(worker / bare for worker, bare in rounds)
    return [
        Row(what="embedding through the worker", value=worker, unit="tokens/s"),
        Row(what="  bare llama.cpp loop, same texts, same run", value=bare, unit="tokens/s"),
        Row(what="  worker to bare loop", value=ratio, unit="ratio", aim=">= 0.95"),
    ]


async def _rounds(model: Path) -> list[tuple[float, float]]:
    config = load_config().embedder
    async with open_embedder(model) as embedder:
        return [await _round(embedder, model, config, number) for number in range(ROUNDS)]


async def _round(embedder: WorkerEmbedder, model: Path, config: EmbedderConfig, number: int) -> tuple[float, float]:
    """Tokens/s of worker and bare loop on the same texts; who goes first changes from round to round."""
    texts = made_texts(number)
    took = await _worker_seconds(embedder, texts) if number % 2 else 0.0
    bare = await _bare_loop(model, config, texts)
    took = took or await _worker_seconds(embedder, texts)
    return bare["tokens"] / took, bare["tokens"] / bare["seconds"]


async def _worker_seconds(embedder: WorkerEmbedder, texts: list[str]) -> float:
    started = time.perf_counter()
    await embedder.embed(texts, RequestContext(priority=Priority.BACKGROUND))
    return time.perf_counter() - started


async def _bare_loop(model: Path, config: EmbedderConfig, texts: list[str]) -> dict[str, float]:
    threads = config.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.raw_embedding", str(model), str(threads), str(config.batch_tokens)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=worker_environment(os.environ),
    )
    output, _ = await child.communicate(json.dumps(texts).encode())
    if child.returncode != 0:
        raise Unavailable(f"the bare llama.cpp loop ended with status {child.returncode}; run `make` again")
    result: dict[str, float] = json.loads(output)
    return result
