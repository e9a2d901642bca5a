"""Research runs that are killed and taken up again, as JSON: `python -m tests.bench.resumed_runs [TRIALS] [SEED]`.

Each trial is a long run with a scripted model whose process is killed once or twice: at a random point of its
writes, searches and replies, or at a random moment. Then it comes to its end in another process. Counted: runs whose
result is not that of an undisturbed run, steps that were done again though they were done, and steps that are missing.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.archive.finding.search import Searcher
from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, load_config
from gaiad.base.events import EventHub
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pooled import PooledModel
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.research.payload.kept_runs import KIND, payload_of
from gaiad.research.thinking.asking import Limits
from gaiad.research.thinking.by_model import Thinker
from gaiad.service.jobs import JobRunner
from gaiad.service.research import ResearchService
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs, RunJournal
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, TextDelta
from gaiad.wire.schemas import ResearchRequest
from gaiad.wire.status import ModelStatus

RUN = "res_1"
QUESTION = "Where is the float switch wired and which valve does it close?"
_PLACES = ("cellar", "basin", "attic", "harbour", "lock", "well", "mill", "yard", "barn", "quay", "shed", "weir")
_MS = ("took_ms", "queue_ms", "prefill_ms", "decode_ms")


class Kill:
    """Kills this process at its nth point; 0 is never. What happens is written to a file, durable at once."""

    def __init__(self, log: Path, at: int) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._left = at
        self.points = 0

    def point(self) -> None:
        self.points += 1
        if self.points == self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, *words: str) -> None:
        os.write(self._log, (" ".join(words) + "\n").encode())


def reply_to(request: GenerateRequest) -> str:
    """By what is asked alone, so that every life of the run hears the same."""
    assert request.schema is not None
    asked = "".join(part.text for message in request.messages for part in message.content)
    place = _PLACES[int(sha256(asked.encode()).hexdigest(), 16) % len(_PLACES)]
    fields = request.schema["properties"]
    if "actions" in fields:
        return json.dumps(
            {"actions": [{"tool": "bm25", "query": f"switch {place}", "pageIds": [], "k": 4, "note": ""}]}
        )
    if "is_sufficient" in fields:
        return json.dumps({"is_sufficient": False, "confidence": 0.5, "missing_aspects": [f"the {place}"],
                           "refinement_suggestions": [f"valve {place} {len(asked)}"]})  # fmt: skip
    labels = fields["sentences"]["items"]["properties"]["sources"]["items"]["enum"]
    return json.dumps({"sentences": [{"text": "The float switch is wired in series.", "sources": labels[:1]}]})


def model_with(kill: Kill, clock: SystemClock) -> PooledModel:
    """A model of the pool that says what `reply_to` does."""

    async def generate(
        name: str, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        asked = sha256(msgspec.json.encode(request)).hexdigest()[:12]
        kill.tell("model", asked)
        text = reply_to(request)
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            kill.point()
            await asyncio.sleep(0.001)
            yield TextDelta(text=piece, tokens=len(piece))
        kill.point()
        yield Generated(text=text, reason="end", stop="", prompt_tokens=10, cached_tokens=0, tokens=10, seed=0,
                        fingerprint="f", queue_ms=0.0, prefill_ms=0.0, decode_ms=0.0)  # fmt: skip

    served = SimpleNamespace(tokenizer=WordTokenizer(clock), fingerprint="f")
    status = ModelStatus(role="prime", kind="scripted", path_or_url="", state="ready", pid=0, reason="")
    pooled: Any = SimpleNamespace(
        name="prime", config=SimpleNamespace(kind="scripted"), window=8000, sampling=Sampling(), served=served,
        trouble="", status=lambda _role: status,
    )  # fmt: skip
    return PooledModel(lambda: pooled, generate, cast(Any, None))


def watched(kill: Kill) -> None:
    """Put points before and after every write and search, and note what the journal holds for good."""
    write, begin, end = HomeDatabases.write, RunJournal.begin, RunJournal.end
    search, names = Searcher.search, dict[str, str]()

    async def writes(self: HomeDatabases, *given: Any) -> Any:
        kill.point()
        done = await write(self, *given)
        kill.point()
        return done

    async def begins(self: RunJournal, name: str, asked: bytes, **more: Any) -> Any:
        key, known = await begin(self, name, asked, **more)
        names[key] = name
        kill.tell("begun" if known is None else "known", key, name)
        return key, known

    async def ends(self: RunJournal, key: str, result: bytes) -> None:
        await end(self, key, result)
        kill.tell("kept", key, names[key])
        kill.point()

    async def searches(self: Searcher, *given: Any) -> Any:
        kill.point()
        return await search(self, *given)

    for owner, name, what in ((HomeDatabases, "write", writes), (RunJournal, "begin", begins),
                              (RunJournal, "end", ends), (Searcher, "search", searches)):  # fmt: skip
        setattr(owner, name, what)


async def live(home: Path, log: Path, at: int, config: Config) -> tuple[dict[str, Any], int]:
    """One life of the run; its result, and how many points it passed."""
    kill, clock = Kill(log, at), SystemClock()
    databases = HomeDatabases(home)
    archive = LocalArchive(databases, config, clock, None, Metrics())
    await archive.start()
    watched(kill)
    runner = JobRunner(Jobs(databases, clock), clock, EventHub(clock))
    thinker = Thinker(
        model_with(kill, clock), Limits(calls=40, tokens=200_000, seconds=300.0), clock, 12, lambda _: None
    )
    service = ResearchService(
        databases, config.research, clock, archive, lambda _config: thinker, runner, Metrics(), 300.0
    )
    call = RequestContext()
    await runner.resume(["local"])
    known = await runner.jobs.newest("local")
    payload = payload_of(ResearchRequest(query=QUESTION), call)
    await runner.wait(known[0] if known else await runner.submit(KIND, "local", payload, job_id=RUN))
    run = await service.run(RUN, call)
    left = await databases.read("local", lambda c: c.execute("SELECT count(*) FROM journal").fetchone()[0], 0)
    assert left == 0, "the journal of an ended run is dropped"
    found = msgspec.to_builtins(run.result) if run.result else {"error": run.error}
    await service.close()
    await runner.stop()
    await archive.close()
    databases.close()
    return {name: value for name, value in found.items() if name not in _MS}, kill.points


def in_child(home: Path, log: Path, at: int, config: Config, after_s: float = 0.0) -> dict[str, Any] | None:
    """A life in a process of its own, killed at a point or after some seconds; None when it was."""
    told = log.with_suffix(".result")
    told.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        try:
            result, points = asyncio.run(live(home, log, at, config))
            told.write_text(json.dumps({"result": result, "points": points}, default=str, sort_keys=True))
        finally:
            os._exit(0)
    if after_s:
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(told.read_text()) if told.exists() else None


async def fill(home: Path, config: Config) -> None:
    clock, databases = SystemClock(), HomeDatabases(home)
    archive = LocalArchive(databases, config, clock, None, Metrics())
    await archive.start()
    texts = [f"The float switch in the {place} is wired in series with valve {place}." for place in _PLACES]
    documents = [(f"{number}.xml", _PACKET.format(number, text).encode()) for number, text in enumerate(texts)]
    await archive.ingest_documents(documents, RequestContext())
    await archive.close()
    databases.close()


_PACKET = """<transmission_packet><header><id>TP-{0}</id><timestamp>2025-11-27T09:30:00Z</timestamp>
<original_model>m</original_model><topic>Pump {0}</topic></header><body><summary>A note.</summary>
<content>{1}</content></body></transmission_packet>"""


def steps(log: Path) -> tuple[Counter[str], Counter[str], int]:
    """How often each step was kept, how often it was begun after that, and how often a model was asked."""
    kept, again, asked = Counter[str](), Counter[str](), 0
    for line in log.read_text().splitlines():
        event, key, *_ = line.split()
        asked += event == "model"
        if event == "begun" and key in kept:
            again[key] += 1
        if event == "kept" or (event == "known" and key not in kept):  # killed between the commit and this log
            kept[key] += 1
    return kept, again, asked


def measure(trials: int, seed: int) -> dict[str, Any]:
    config, draw = load_config((), {}, ["embedder.kind=none", "research.max_iterations=5"]), random.Random(seed)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="gaiad-runs-") as scratch:
        root = Path(scratch)
        pid = os.fork()
        if not pid:
            asyncio.run(fill(root / "filled", config))
            os._exit(0)
        os.waitpid(pid, 0)
        shutil.copytree(root / "filled", root / "whole")
        began = time.monotonic()
        whole = in_child(root / "whole", root / "whole.log", 0, config)
        took_s = time.monotonic() - began
        assert whole is not None
        wanted, _, asked = steps(root / "whole.log")
        for number in range(trials):
            home, log, kills = root / f"h{number}", root / f"{number}.log", draw.randint(1, 2)
            shutil.copytree(root / "filled", home)
            end: dict[str, Any] | None = None
            for _ in range(kills):
                by_time = number % 2 == 1 and draw.random() < 0.6
                at = 0 if by_time else draw.randint(1, whole["points"])
                end = in_child(home, log, at, config, draw.uniform(0.05, took_s) if by_time else 0.0)
                found["kills"] += end is None
            end = end or in_child(home, log, 0, config)
            kept, again, calls = steps(log)
            if end is None or end["result"] != whole["result"]:
                found["other_result"] += 1
                print(json.dumps({"trial": number, "kills": kills, "end": end and end["result"]}), file=sys.stderr)
            found["done_again"] += sum(again.values()) + sum(count - 1 for count in kept.values())
            found["missing"] += len(set(wanted) - set(kept))
            found["calls_in_flight"] += calls - asked
            shutil.rmtree(home)
    return {
        "trials": trials, "steps": len(wanted), "model_calls": asked, "points": whole["points"],
        "status": whole["result"].get("status"), **dict.fromkeys(("other_result", "done_again", "missing"), 0), **found,
    }  # fmt: skip


if __name__ == "__main__":
    trials, seed = (int(sys.argv[1]) if len(sys.argv) > 1 else 200), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(json.dumps(measure(trials, seed)))
