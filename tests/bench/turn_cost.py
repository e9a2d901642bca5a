"""What a turn costs before the model writes: making its packet, and how much of its prompt was read before.

Packets are made in this process, without a daemon and without research; tokens are counted by the tokenizers' child
with a GGUF's vocabulary, as in the daemon.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, assign, load_config
from gaiad.base.ids import IdMaker
from gaiad.base.logs import configure_logs
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_archive import make_queries, write_packets
from gaiad.bench.rows import Row, percentile
from gaiad.ledger.turn_log import CognitionLog
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.provision import default_model_path
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.research.loop import Researcher
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.cognition import Assembler, Prepared
from gaiad.turn.prompt_factory import Names
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest
from gaiad.wire.memory import SessionTurn
from prompts.compress import BudgetOverrun
from prompts.packet import CognitionPacket
from prompts.registry import RegistryWatch
from tests.bench.made_session import SESSION, made_questions, made_turns, write_chat_llama

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
        gathered = await self._assembler.gather(request, names, turns, RequestContext(), lambda _name, _data: None)
        prepared = await self._assembler.pack(gathered, request.role, names.full_id, previous, RequestContext())
        return prepared, (time.perf_counter() - started) * 1000


@asynccontextmanager
async def open_assembler(home: Path, model: Path, *, with_embedder: bool) -> AsyncIterator[Bench]:
    """The role codemind is `model`; nobody writes summaries. Raises Unavailable without an embedder's file."""
    configure_logs("error", "text")
    clock, overruns = SystemClock("UTC"), list[BudgetOverrun]()
    config = load_config(environment={}, assignments=[f"roles.codemind={model}"])
    embedder = WorkerEmbedder(default_model_path(os.environ), config.embedder, clock) if with_embedder else None
    databases = HomeDatabases(home)
    archive = LocalArchive(databases, config, clock, None, Metrics())
    pool, log = _pool(config, clock), CognitionLog(databases, clock)
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
            turn_store=TurnStore(archive, log, clock),
            report=overruns.append,
        )
        yield Bench(assembler, clock, overruns)
    finally:
        if embedder:
            await embedder.close()
        await pool.close()
        await archive.close()
        databases.close()


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
    dependencies = ModelDependencies(
        settings=config.models, clock=clock, tokenizer_process=TokenWorker(clock), environment=os.environ
    )
    return ModelPool(roles, [Pooled(name, model) for name, model in models.items()], dependencies, _MEMORY)


_TURNS = 200
_RENDERS = 60
_COMPRESSIONS = 20
_SPOKEN = 12
_REPLY_TOKENS = 100
_PACKETS = 200
_SETTLED = 3  # the turn from which on the aim holds


class Share(msgspec.Struct, frozen=True):
    """One turn's prompt: tokens in all, read before, and of retrieved pages."""

    prompt: int
    cached: int
    context: int


def measure_chat() -> list[Row]:
    """Packets of a long session, in this process and over the socket; then a session's share of the prefix cache."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        model = write_chat_llama(Path(scratch) / "chat.gguf")
        rows = asyncio.run(_assembly(Path(scratch) / "long", model))
        rows += _over_socket(Path(scratch) / "long", model)
        return [*rows, *_cache(Path(scratch), model)]


async def _assembly(home: Path, model: Path) -> list[Row]:
    turns = made_turns(_TURNS)
    async with open_assembler(home, model, with_embedder=False) as bench:
        rows = await assembly_rows(bench, turns)
    async with open_assembler(home, model, with_embedder=True) as bench:
        rows += await compression_rows(bench, _TURNS, _COMPRESSIONS)
    databases = HomeDatabases(home)
    archive = LocalArchive(databases, load_config(environment={}), SystemClock("UTC"), None, Metrics())
    await archive.start()
    try:
        await archive.remember_turns(turns, RequestContext())
    finally:
        await archive.close()
        databases.close()
    return rows


def _over_socket(home: Path, model: Path) -> list[Row]:
    took = []
    with running_daemon("embedder.kind=none", f"roles.codemind={model}", home=home) as daemon:
        for message in made_questions(_RENDERS):
            request = ChatRequest(message=message, session_id=SESSION, role="codemind", mtu=MTU)
            started = time.perf_counter()
            daemon.client.render_packet(request)
            took.append((time.perf_counter() - started) * 1000)
    return [Row(what="  over the socket, turns read from the memory", value=percentile(took[1:]), unit="ms p95")]


def _cache(scratch: Path, model: Path) -> list[Row]:
    with running_daemon("embedder.kind=none", f"roles.prime={model}", home=scratch / "short") as daemon:
        daemon.client.load_model("prime")
        alone = _session(daemon, "alone", made_questions(_SPOKEN))
        write_packets(scratch / "packets", 0, _PACKETS)
        daemon.ingest(scratch / "packets")
        questions = [f"What did we say about {query}?" for query in make_queries(_SPOKEN, seed=3)]
        looking = _session(daemon, "looking", questions)
    return [*_share_rows("", ">= 85", alone), *_share_rows(", with retrieved context", "", looking)]


def _session(daemon: BenchDaemon, session_id: str, messages: list[str]) -> list[Share]:
    shares = []
    for number, message in enumerate(messages):
        request = ChatRequest(message=message, session_id=session_id, max_tokens=_REPLY_TOKENS, seed=number)
        _await_quiet(daemon)
        done: dict[str, Any] = [*daemon.client.chat_events(request)][-1].data
        record = daemon.client.cognition_packet(done["turn_id"], request.tenant)
        context = next(row["tokens"] for row in record.manifest["fields"] if row["field"] == "context")
        shares.append(Share(done["tokens"]["prompt"], done["tokens"]["cached"], context))
    return shares


def _await_quiet(daemon: BenchDaemon) -> None:
    """As after the pause that a person makes: the model has read ahead."""
    while any(row.running for row in daemon.client.models()):
        time.sleep(0.01)


def _share_rows(how: str, aim: str, shares: list[Share]) -> list[Row]:
    rows = [
        Row(
            what=f"prompt from the prefix cache, turn {number}{how}",
            value=100 * share.cached / share.prompt,
            unit=f"% of {share.prompt}",
            aim=aim if number >= _SETTLED else "",
        )
        for number, share in enumerate(shares, start=1)
        if number >= 2
    ]
    settled = shares[_SETTLED - 1 :]
    if any(share.context for share in settled):
        part = sum(share.context for share in settled) / sum(share.prompt for share in settled)
        rows.append(Row(what="  retrieved context is", value=100 * part, unit="% of prompts"))
    return rows
