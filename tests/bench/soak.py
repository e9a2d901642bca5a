"""A thousand requests with cancels and deaths of the worker between them: does each get an answer, does memory grow?"""

import asyncio
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gaiad.base.errors import Cancelled, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.metrics import resident_bytes
from gaiad.base.ports import Priority, RequestContext
from gaiad.bench.model import open_worker, prompt, request
from gaiad.bench.rows import Row
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.wire.generation import Generated
from tests.makers.llama_files import write_tiny_llama

_CALLERS = 12
_READY_S = 60.0
_HUNG_S = 120.0
_LOST = "lost"
_SETTLED = 0.5  # of the requests; from there on nobody is killed and memory is watched


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """`ends` counts how requests ended, `deaths` those of the worker; memory as the largest distance from its median,
    over the last half.
    """

    ends: dict[str, int]
    deaths: int
    parent_drift: float
    worker_drift: float
    zombies: int


def measure_soak(requests: int = 1000, kills: int = 10) -> list[Row]:
    """1,000 requests of mixed sizes, a fifth of them cancelled, and 10 SIGKILLs of the worker at random."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        found = asyncio.run(soak(write_tiny_llama(Path(scratch) / "tiny.gguf"), requests, kills))
    lost = found.ends.pop(_LOST, 0)
    return [
        Row(what=f"of {requests} requests: without an answer or an error", value=lost, unit="requests", aim="0"),
        *(Row(what=f"  {end}", value=count, unit="requests") for end, count in sorted(found.ends.items())),
        Row(
            what="  memory of the parent, drift in the last half", value=found.parent_drift * 100, unit="%", aim="<= 5"
        ),
        Row(what="  memory of the worker", value=found.worker_drift * 100, unit="%", aim="<= 5"),
        Row(what="  deaths of the worker", value=found.deaths, unit="deaths"),
        Row(what="  zombies", value=found.zombies, unit="processes", aim="0"),
    ]


async def soak(model: Path, requests: int, kills: int) -> Soak:
    """Several callers work through the requests."""
    source = random.Random(19)
    deaths = set(source.sample(range(1, int(requests * _SETTLED)), kills))
    async with open_worker(model, GeneratorSettings(threads=1, parallel=4, queue=_CALLERS, flash="off")) as worker:
        run = _Run(worker, requests, deaths, source)
        async with asyncio.TaskGroup() as group:
            for _ in range(_CALLERS):
                group.create_task(run.work(), name="bench/caller")
        zombies, restarts = _zombies(), worker.status().restarts
    parents, workers = zip(*run.memory, strict=True)
    return Soak(
        ends=run.ends,
        deaths=restarts,
        parent_drift=_drift(parents),
        worker_drift=_drift(workers),
        zombies=zombies,
    )


class _Run:
    """What the callers share: the next request's number, how requests ended, and memory as it was."""

    def __init__(self, worker: WorkerGenerator, requests: int, deaths: set[int], source: random.Random) -> None:
        self._worker = worker
        self._requests = requests
        self._deaths = deaths
        self._source = source
        self._next = 0
        self.ends: Counter[str] = Counter()
        self.memory: list[tuple[int, int]] = []

    async def work(self) -> None:
        """Send one request after the other until all are sent."""
        while self._next < self._requests:
            number, self._next = self._next, self._next + 1
            if number in self._deaths:
                await self._kill()
            try:
                async with asyncio.timeout(_HUNG_S):
                    self.ends[await self._one(number)] += 1
            except TimeoutError:
                self.ends[_LOST] += 1
            pid = self._worker.status().pid
            if pid and number > self._requests * _SETTLED:  # it is 0 between two lives
                self.memory.append((resident_bytes(os.getpid()), resident_bytes(pid)))

    async def _kill(self) -> None:
        """Once the worker has come back from the last time."""
        await self._worker.wait_ready(_READY_S)
        os.kill(self._worker.status().pid, signal.SIGKILL)

    async def _one(self, number: int) -> str:
        """How the request ended."""
        source = self._source
        call = RequestContext(priority=source.choice((Priority.PERSON, Priority.BACKGROUND)))
        asked = request(prompt(source.randint(2, 600), source.randint(0, 50)), source.randint(1, 120), number)
        cancel_after = source.randint(0, 20) if source.random() < 0.2 else -1
        try:
            async for event in self._worker.generate(asked, call):
                if isinstance(event, Generated):
                    return "whole"
                if 0 <= cancel_after <= event.tokens:
                    call.cancel()
        except (Cancelled, DeadlineExceeded, Unavailable, WorkerDied) as error:
            return type(error).__name__
        return _LOST


def _drift(values: Sequence[int]) -> float:
    """The largest distance from the median, as a share of it."""
    middle = sorted(values)[len(values) // 2]
    return max(abs(value - middle) for value in values) / middle


def _zombies() -> int:
    """Children of this process that ended and were not collected."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        count += state == "Z" and int(parent) == os.getpid()
    return count
