"""Context Memory with many outputs, as JSON: `python -m tests.bench.context FOLDER [MEASURE]...`.

FOLDER has agents' outputs as JSON files; each made output holds several of them under new ids, about 10 KB. `sizes`
fills stores of 1,000 to 100,000 outputs and asks them; `checkpoint` makes and reads one of 500 MB; `cache` plays agents
that read several times a task; `packing` compresses; `langgraph` saves the same 1,000 steps with LangGraph's
SqliteSaver, where that is installed.
"""

import asyncio
import importlib
import json
import math
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gaiad.base.clock import SystemClock, from_epoch_ms, to_iso
from gaiad.base.ports import RequestContext
from gaiad.context.export import TreeRecord
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import AgentOutput, RecordQuery, StateQuery
from gaiad.wire.context_reviews import ReviewQuery, SimilarQuery, TrendQuery
from tests.makers.context import make_service, output, review, state

SIZES, AGENTS, REPEATS = (1_000, 10_000, 100_000), ("generation", "reflection", "ranking", "evolution"), 60
_CALL = RequestContext()
_LATEST_MS = 1_764_590_400_000


class RandomVectors:
    """An embedder whose vectors are drawn: what is measured is the scan."""

    fingerprint, dimension = "random", 384

    async def embed(self, texts: list[str], call: RequestContext) -> Any:
        drawn = np.random.default_rng(len(texts)).normal(size=(len(texts), 384)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def made_outputs(folder: Path, count: int, samples: int = 6) -> Iterator[AgentOutput]:
    """Outputs of several agents; every tenth has a state, each names one of a tenth as many hypotheses."""
    texts = [path.read_text() for path in sorted(folder.glob("*.json"))]
    draw = random.Random(1)
    for number in range(count):
        bodies = [json.loads(draw.choice(texts))["results"] for _ in range(samples)]
        for body in bodies:
            body["id"] = f"{draw.getrandbits(128):032x}"
            body.get("review", {}).update(id=body["id"], hypothesis_id=f"h{draw.randrange(max(1, count // 10))}")
            body.pop("hypothesis_id", None)
        at = to_iso(from_epoch_ms(_LATEST_MS - (count - number) * 1000))
        own = {"step": number} if number % 10 == 0 else None
        yield output(f"t{number}", AGENTS[number % 4], at, primary=bodies, own=own, confidence=draw.random())


@contextmanager
def opened(embedder: Any = None) -> Iterator[tuple[ContextStore, ContextUpkeep, HomeDatabases]]:
    with tempfile.TemporaryDirectory(prefix="gaiad-context-") as scratch:
        databases = HomeDatabases(Path(scratch) / "home")
        try:
            yield ContextStore(databases, SystemClock(), embedder), ContextUpkeep(databases, SystemClock()), databases
        finally:
            databases.close()


async def fill(upkeep: ContextUpkeep, outputs: Iterator[AgentOutput], count: int) -> None:
    """In the order of their time, ten iterations."""
    batch: list[TreeRecord] = []
    for number, one in enumerate(outputs):
        batch.append(TreeRecord(one, 1 + number * 10 // count, ""))
        if len(batch) == 200:
            await upkeep._store(batch, _CALL)
            batch = []
    await upkeep._store(batch, _CALL)


async def timed(ask: Callable[[int], Awaitable[object]], repeats: int = REPEATS) -> tuple[float, float]:
    """Median and p95 in milliseconds."""
    times = []
    for number in range(repeats):
        began = time.perf_counter()
        await ask(number)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return round(times[repeats // 2], 3), round(times[int(repeats * 0.95) - 1], 3)


async def sizes(folder: Path) -> dict[str, Any]:
    """Median and p95 in ms at each size, and the exponent of the median's growth from the first to the last."""
    rows: dict[str, dict[str, Any]] = {}
    for count in SIZES:
        with opened(RandomVectors()) as (store, upkeep, _databases):
            await fill(upkeep, made_outputs(folder, count, 6 if count <= 10_000 else 1), count)
            for number in range(count // 100):
                at = to_iso(from_epoch_ms(_LATEST_MS - number * 60_000))
                await upkeep._store([TreeRecord(state(at, f"focus {number}"), 10, "")], _CALL)
            await store.add(review(10), _CALL)
            await store.similar(SimilarQuery(), _CALL)
            fresh = list(made_outputs(folder, REPEATS, 6))
            rows[str(count)] = {
                "mb_of_json": round((await store.used(_CALL)).json_bytes / 1e6, 1),
                "full": await timed(lambda _: store.state(StateQuery(request_type="full"), _CALL)),
                "partial": await timed(
                    lambda n: store.state(StateQuery(request_type="partial", agent_type=AGENTS[n % 4]), _CALL)
                ),
                "summary": await timed(lambda _: store.state(StateQuery(), _CALL)),
                "by_hypothesis": await timed(lambda n: store.find("output", RecordQuery(hypothesis_id=f"h{n}"), _CALL)),
                "feedback": await timed(lambda _: store.feedback(ReviewQuery(), _CALL)),
                "trends": await timed(lambda _: store.trends(TrendQuery(), _CALL)),
                "similar": await timed(lambda _: store.similar(SimilarQuery(), _CALL)),
                "write": await timed(lambda n, new=fresh: store.add(new[n], _CALL)),  # type: ignore[misc]
            }
    first, last = rows[str(SIZES[0])], rows[str(SIZES[-1])]
    span = math.log(SIZES[-1] / SIZES[0])
    growth = {name: round(math.log(last[name][0] / first[name][0]) / span, 3) for name in first if name != "mb_of_json"}
    return {"median_and_p95_ms": rows, "growth_exponent": growth}


async def checkpoint(_: Path) -> dict[str, Any]:
    """50 agents with 10 MB of state each: seconds to make a checkpoint, and to recover from it after opening anew."""
    with opened() as (store, _upkeep, databases):
        draw = random.Random(2)
        for number in range(50):
            text = f"{draw.getrandbits(2_000_000):x}" * 20
            await store.add(output("t", f"agent-{number}", primary=None, own={"memory": text[:10_000_000]}), _CALL)
        began = time.perf_counter()
        made = await store.checkpoint("bench", {}, _CALL)
        made_s, home = time.perf_counter() - began, databases.home
        databases.close()
        began = time.perf_counter()
        again = HomeDatabases(home)
        found = await ContextStore(again, SystemClock(), None).recovery("", _CALL)
        size = len(msgspec.json.encode(found))
        recovered_s = time.perf_counter() - began
        again.close()
    return {
        "mb": round(made.bytes / 1e6),
        "made_s": round(made_s, 2),
        "recovered_s": round(recovered_s, 2),
        "answer": size,
    }


async def cache(folder: Path) -> dict[str, Any]:
    """Eight agents, 50 tasks each in turn: ten reads a task (feedback 4, summary 3, own state 3), then an output."""
    with opened() as (store, _upkeep, databases):
        service = make_service(store, databases, SystemClock())
        await service.add(state(), _CALL)
        await service.add(review(), _CALL)
        for number in range(400):
            agent = f"agent-{number % 8}"
            for turn in range(4):
                await service.feedback(ReviewQuery(agent_type=agent), _CALL)
                if turn < 3:
                    await service.state(StateQuery(), _CALL)
                    await service.state(StateQuery(request_type="partial", agent_type=agent), _CALL)
            await service.add(output(f"t{number}", agent, own={"n": number}), _CALL)
        counted = service._metrics.counters()
    hits, misses = counted["context_cache_hits"], counted["context_cache_misses"]
    return {"hits": hits, "misses": misses, "hit_rate": round(hits / (hits + misses), 3)}


async def packing(folder: Path) -> dict[str, Any]:
    """Bytes of JSON and packed, as the samples are (one an output) and seconds for 10,000."""
    with opened() as (store, upkeep, _databases):
        await fill(upkeep, made_outputs(folder, 10_000, 1), 10_000)
        used, began = await store.used(_CALL), time.perf_counter()
        done = await upkeep.clean_up(1, _CALL, dry_run=False)
        took = time.perf_counter() - began
        after = await store.used(_CALL)
    smaller = round(1 - after.stored_bytes / used.stored_bytes, 3)
    return {"json": used.json_bytes, "packed": after.stored_bytes, "smaller_by": smaller, "s": round(took, 1),
            "bodies": done.bodies}  # fmt: skip


async def langgraph(folder: Path) -> dict[str, Any]:
    """1,000 steps of a state of about 10 KB, a tenth of it new at each step: ms a step (mean) and bytes on disk."""
    states = [one.results.primary_output for one in made_outputs(folder, 1_000)]
    found: dict[str, Any] = {}
    with opened() as (store, upkeep, databases):
        began = time.perf_counter()
        for number, content in enumerate(states):
            await store.add(
                output(f"t{number}", "steps", primary=None, own={"step": number, "content": content}), _CALL
            )
        found["ours_ms"] = round((time.perf_counter() - began), 3)
        path = databases.folder("local") / "tenant.db"
        databases.file("local").empty_log()
        found["ours_bytes"] = (await store.used(_CALL)).stored_bytes
        found["ours_file"] = path.stat().st_size
        await upkeep.clean_up(1, _CALL, dry_run=False)
        found["ours_packed_bytes"] = (await store.used(_CALL)).stored_bytes
    try:
        saver_of = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
    except ImportError:
        return {**found, "langgraph": "not installed"}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "langgraph.db"
        connection = sqlite3.connect(path, check_same_thread=False)
        saver = saver_of(connection)
        saver.setup()
        config: dict[str, Any] = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        began = time.perf_counter()
        for number, content in enumerate(states):
            values = {"step": number, "content": content}
            saved = {"v": 1, "id": f"{number:032d}", "ts": "2025-12-01T10:00:00Z", "channel_values": values,
                     "channel_versions": {}, "versions_seen": {}, "pending_sends": []}  # fmt: skip
            config = saver.put(config, saved, {"source": "loop", "step": number, "writes": {}, "parents": {}}, {})
        found["langgraph_ms"] = round((time.perf_counter() - began), 3)
        (found["langgraph_synchronous"],) = connection.execute("PRAGMA synchronous").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        found["langgraph_file"] = path.stat().st_size
    return found


MEASURES = {"sizes": sizes, "checkpoint": checkpoint, "cache": cache, "packing": packing, "langgraph": langgraph}

if __name__ == "__main__":
    for name in sys.argv[2:] or MEASURES:
        print(json.dumps({name: asyncio.run(MEASURES[name](Path(sys.argv[1])))}), flush=True)
