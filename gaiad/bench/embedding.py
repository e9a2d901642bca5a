"""Embedding through the worker against a bare llama.cpp loop on the same texts, in the same run.

Both take turns on the same texts, and the median of the rounds' ratios counts: a busy machine disturbs both alike.
"""

import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaiad.bench.rows import percentile
from gaiad.clock import SystemClock
from gaiad.config import EmbedderConfig, load_config
from gaiad.errors import Unavailable
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.provision import default_model_path
from gaiad.models.supervision.process import worker_environment
from gaiad.models.supervision.protocol import MAX_THREADS
from gaiad.ports import Call, Priority

ROUNDS = 5
TEXTS = 40
QUERIES = 20
_WORDS = (
    "packet",
    "memory",
    "council",
    "archive",
    "page",
    "vector",
    "daemon",
    "worker",
    "signal",
    "threshold",
    "evidence",
    "careful",
    "recursive",
    "pattern",
    "question",
    "answer",
    "morning",
    "project",
    "window",
    "bridge",
    "garden",
    "letter",
    "market",
    "number",
    "system",
    "machine",
    "history",
    "river",
    "silver",
)


def measure(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Tokens/s of worker and bare loop with their ratio, and a single query's milliseconds idle and while draining."""
    return asyncio.run(_measure(default_model_path(environment)))


async def _measure(model: Path) -> dict[str, Any]:
    config = load_config().embedder
    embedder = WorkerEmbedder(model, config, SystemClock("UTC"))
    await embedder.start()
    try:
        await embedder.wait_ready(config.start_timeout_s)
        rounds = [await _round(embedder, model, config, number) for number in range(ROUNDS)]
        idle = await _query_ms(embedder, "idle")
        draining = await _query_ms_while_draining(embedder)
    finally:
        await embedder.close()
    return {
        "worker_tokens_per_s": round(statistics.median(worker for worker, _ in rounds), 1),
        "raw_tokens_per_s": round(statistics.median(raw for _, raw in rounds), 1),
        "ratio": round(statistics.median(worker / raw for worker, raw in rounds), 3),
        "query_idle_ms_p50": round(statistics.median(idle), 2),
        "query_idle_ms_p95": round(percentile(idle), 2),
        "query_draining_ms_p50": round(statistics.median(draining), 2),
        "query_draining_ms_p95": round(percentile(draining), 2),
    }


async def _round(embedder: WorkerEmbedder, model: Path, config: EmbedderConfig, number: int) -> tuple[float, float]:
    """Tokens/s of worker and bare loop on the same texts; who goes first changes from round to round."""
    texts = _texts(number)
    took = await _worker_seconds(embedder, texts) if number % 2 else 0.0
    bare = await _bare_loop(model, config, texts)
    took = took or await _worker_seconds(embedder, texts)
    return bare["tokens"] / took, bare["tokens"] / bare["seconds"]


async def _worker_seconds(embedder: WorkerEmbedder, texts: list[str]) -> float:
    started = time.perf_counter()
    await embedder.embed(texts, Call(priority=Priority.BACKGROUND))
    return time.perf_counter() - started


async def _bare_loop(model: Path, config: EmbedderConfig, texts: list[str]) -> dict[str, float]:
    threads = config.threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gaiad.models.child.raw_embedding", str(model), str(threads), str(config.batch_tokens)),
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


async def _query_ms(embedder: WorkerEmbedder, label: str) -> list[float]:
    """Milliseconds of queries never asked before, one after the other."""
    took = []
    for number in range(QUERIES):
        started = time.perf_counter()
        await embedder.embed([f"what did the {label} {_WORDS[number % len(_WORDS)]} say in week {number}"], Call())
        took.append((time.perf_counter() - started) * 1000.0)
    return took


async def _query_ms_while_draining(embedder: WorkerEmbedder) -> list[float]:
    stop = asyncio.Event()

    async def drain() -> None:
        number = 1000
        while not stop.is_set():
            number += 1
            await embedder.embed(_texts(number)[:16], Call(priority=Priority.BACKGROUND))

    async with asyncio.TaskGroup() as group:
        group.create_task(drain(), name="bench/drain")
        await asyncio.sleep(0.2)
        took = await _query_ms(embedder, "draining")
        stop.set()
    return took


def _texts(seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(_WORDS, k=source.randint(20, 220))) for _ in range(TEXTS)]


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
