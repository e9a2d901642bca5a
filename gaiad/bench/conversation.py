"""What a turn costs before the model writes: making its packet, and how much of its prompt was read before."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.bench.assembly import MTU, assembly_rows, compression_rows, open_assembler
from gaiad.bench.corpus import make_queries, write_packets
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_session import SESSION, made_questions, made_turns, write_chat_llama
from gaiad.bench.rows import Row, percentile
from gaiad.chat_schemas import ChatRequest
from gaiad.clock import SystemClock
from gaiad.config import load_config
from gaiad.metrics import Metrics
from gaiad.ports import Call

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
    archive = LocalArchive(home, load_config(environment={}), SystemClock("UTC"), None, Metrics())
    await archive.start()
    try:
        await archive.remember_turns(turns, Call())
    finally:
        await archive.close()
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
