"""How long a Cognition Packet takes to be made in a long session, in this process: without a daemon, without research.

The tokens are counted by the tokenizers' child with a GGUF's vocabulary, as in the daemon.
"""

import os
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.archive.archive import LocalArchive
from gaiad.bench.made_session import SESSION, made_questions, made_turns
from gaiad.bench.rows import Row, percentile
from gaiad.chat_schemas import ChatRequest
from gaiad.clock import SystemClock
from gaiad.config import Config, load_config
from gaiad.ids import IdMaker
from gaiad.ledger.cognition_log import CognitionLog
from gaiad.logs import configure_logs
from gaiad.memory_schemas import SessionTurn
from gaiad.metrics import Metrics
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.pool.making import Workshop
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.provision import default_model_path
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.roles import assign
from gaiad.turn.cognition import Assembler, Prepared
from gaiad.turn.gathering import Names
from gaiad.turn.remembering import Keeper
from prompts.compress import BudgetOverrun
from prompts.packet import CognitionPacket
from prompts.registry import RegistryWatch

MTU = 4096
_MEMORY = 2**30
_START_S = 60.0


class Bench:
    """An assembler on a home of its own; `overruns` are the compressions it made."""

    def __init__(self, assembler: Assembler, clock: SystemClock, overruns: list[BudgetOverrun]) -> None:
        self.overruns = overruns
        self._assembler = assembler
        self._ids = IdMaker(clock)

    async def prepare(
        self, message: str, turns: list[SessionTurn], previous: CognitionPacket | None
    ) -> tuple[Prepared, float]:
        """The packet for `message` after `turns`, and the milliseconds it took."""
        names = Names(SESSION, self._ids.make("turn"), self._ids.make("cog"))
        request = ChatRequest(message=message, session_id=SESSION, role="codemind", mtu=MTU)
        started = time.perf_counter()
        gathered = await self._assembler.gather(request, names, turns, Call(), lambda _name, _data: None)
        prepared = await self._assembler.pack(gathered, request.role, names.full_id, previous, Call())
        return prepared, (time.perf_counter() - started) * 1000


@asynccontextmanager
async def open_assembler(home: Path, model: Path, *, with_embedder: bool) -> AsyncIterator[Bench]:
    """The role codemind is `model`; nobody writes summaries. Raises Unavailable without an embedder's file."""
    configure_logs("error", "text")
    clock, overruns = SystemClock("UTC"), list[BudgetOverrun]()
    config = load_config(environment={}, assignments=[f"roles.codemind={model}"])
    embedder = WorkerEmbedder(default_model_path(os.environ), config.embedder, clock) if with_embedder else None
    archive = LocalArchive(home, config, clock, None, Metrics())
    pool, log = _pool(config, clock), CognitionLog(home / "cognition", clock)
    await archive.start()
    await pool.start()
    try:
        if embedder:
            await embedder.start()
            await embedder.wait_ready(_START_S)
        assembler = Assembler(
            config=config.cognition,
            archive=archive,
            researcher=Researcher(archive, clock, config.research),
            registry=RegistryWatch(home),
            pool=pool,
            embedder=embedder,
            clock=clock,
            keeper=Keeper(archive, log, clock),
            report=overruns.append,
        )
        yield Bench(assembler, clock, overruns)
    finally:
        if embedder:
            await embedder.close()
        await pool.close()
        await log.close()
        await archive.close()


async def assembly_rows(bench: Bench, turns: Sequence[SessionTurn]) -> list[Row]:
    """A session that grows turn by turn; no compression is possible."""
    previous: CognitionPacket | None = None
    took: list[float] = []
    for number, message in enumerate(made_questions(len(turns))):
        prepared, ms = await bench.prepare(message, [*turns[:number]], previous)
        previous = prepared.built.packet
        if number:  # the first one starts the tokenizer's child
            took.append(ms)
    return [
        Row(what=f"a packet at MTU {MTU}, {len(turns)} turns", value=statistics.median(took), unit="ms p50"),
        Row(what="  without compression", value=percentile(took), unit="ms p95", aim="<= 10"),
        Row(what="  the longest", value=max(took), unit="ms"),
    ]


async def compression_rows(bench: Bench, turns: int, samples: int) -> list[Row]:
    """Each packet is the first of another long session: its turns are counted, and those that leave it summarised."""
    took: list[float] = []
    for number, message in enumerate(made_questions(1 + samples)):
        prepared, ms = await bench.prepare(message, made_turns(turns, seed=number), None)
        rows = {row.field: row for row in prepared.built.manifest.fields}
        assert rows["history"].method == "extractive", rows["history"]
        took += [ms] if number else []  # the first one starts the tokenizer's child
    read = statistics.median(overrun.original_tokens for overrun in bench.overruns)
    return [
        Row(what=f"  with the extractive pass over {read:.0f} tokens", value=statistics.median(took), unit="ms p50"),
        Row(what="", value=percentile(took), unit="ms p95", aim="<= 400"),
    ]


def _pool(config: Config, clock: SystemClock) -> ModelPool:
    roles, models = assign(config.roles, config.models.known)
    shop = Workshop(settings=config.models, clock=clock, words=TokenWorker(clock), environment=os.environ)
    return ModelPool(roles, [Pooled(name, model) for name, model in models.items()], shop, _MEMORY)
