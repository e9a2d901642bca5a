"""Writing and reading through the daemon's socket beside the bare loop, and beside llama-cpp-python's own server."""

import asyncio
import os
import statistics
import time
from pathlib import Path

from gaiad.bench.model import STREAMS, Ask, Sizes, open_worker, prompt, request, together
from gaiad.bench.rows import Row
from gaiad.models.generator import GeneratorSettings
from gaiad.wire.generation import GenerateRequest
from tests.bench.bare_loop import Duel, Pair, bare_loop, bare_setting
from tests.bench.bundled_server import BundledServer, bundled_server
from tests.bench.over_socket import asking_daemon
from tests.makers.llama_files import half_billion

_AIMS = {1: ">= 0.95", 4: ">= 0.90", 8: ">= 0.90"}
_SERVER_STREAMS = 4
_SERVER_TOKENS = 32
_SERVER_PREFIX = 1000
_SERVER_ROUNDS = 3


def measure_generation(sizes: Sizes | None = None) -> list[Row]:
    """Tokens a second at 1, 2, 4 and 8 streams after a shared prefix, and of prompts that share nothing."""
    return asyncio.run(_beside_bare(half_billion(os.environ), sizes or Sizes()))


async def _beside_bare(model: Path, sizes: Sizes) -> list[Row]:
    settings = GeneratorSettings(parallel=max(STREAMS))
    flash = await measured_flash(model, settings)
    rows = [Row(what="flash attention, as measured at load", value=float(flash == "on"), unit="on")]
    with asking_daemon(model, *daemon_settings(settings, flash)) as ask:
        async with bare_loop(model, bare_setting(model, settings, flash)) as bare:
            duel = Duel(ask, bare, sizes)
            for streams in STREAMS:
                rows += _pair_rows("decode", await duel.decode(streams), _AIMS.get(streams, ""))
            for streams in (1, max(STREAMS)):
                rows += _pair_rows("prefill", await duel.prefill(streams), "")
    return rows


async def measured_flash(model: Path, settings: GeneratorSettings) -> str:
    """What a worker with these settings chooses at load."""
    async with open_worker(model, settings) as worker:
        return worker.flash


def daemon_settings(settings: GeneratorSettings, flash: str) -> list[str]:
    """The same for a daemon."""
    return [f"models.parallel={settings.parallel}", f"models.flash_attention={flash}"]


def _pair_rows(what: str, pair: Pair, aim: str) -> list[Row]:
    streams = "1 stream" if pair.sequences == 1 else f"{pair.sequences} streams"
    return [
        Row(what=f"{what} through the daemon, {streams}", value=pair.ours, unit="tokens/s"),
        Row(what="  bare loop, same settings, same run", value=pair.bare, unit="tokens/s"),
        Row(what="  ratio", value=pair.ratio, unit="ratio", aim=aim),
    ]


def measure_server() -> list[Row]:
    """Four streams at once through the daemon, and through the server that llama-cpp-python brings."""
    return asyncio.run(_beside_server(half_billion(os.environ)))


async def _beside_server(model: Path) -> list[Row]:
    settings = GeneratorSettings(parallel=_SERVER_STREAMS)
    flash = await measured_flash(model, settings)
    bare = bare_setting(model, settings, flash)
    rounds: list[tuple[float, float]] = []
    with (
        asking_daemon(model, *daemon_settings(settings, flash)) as ask,
        bundled_server(model, threads=bare.threads, flash=bare.flash) as server,
    ):
        for number in range(1 + _SERVER_ROUNDS):  # the first one reads the prefix, and is not counted
            requests = [_load(_SERVER_STREAMS * number + stream) for stream in range(_SERVER_STREAMS)]
            rounds.append((await _daemon_rate(ask, requests), await _server_rate(server, requests)))
    counted = rounds[1:]
    ours, theirs = (statistics.median(rates[which] for rates in counted) for which in (0, 1))
    ratio = statistics.median(ours / theirs for ours, theirs in counted)
    return [
        Row(what="four streams through the daemon", value=ours, unit="tokens/s"),
        Row(what="  through llama_cpp.server, same load", value=theirs, unit="tokens/s"),
        Row(what="  ratio", value=ratio, unit="ratio", aim="> 1"),
    ]


def _load(seed: int) -> GenerateRequest:
    return request(prompt(_SERVER_PREFIX, 0), _SERVER_TOKENS, seed)


async def _daemon_rate(ask: Ask, requests: list[GenerateRequest]) -> float:
    traces = await together(ask, requests)
    tokens = sum(trace.end.tokens for trace in traces if trace.end is not None)
    return tokens / (max(trace.ended for trace in traces) - min(trace.asked for trace in traces))


async def _server_rate(server: BundledServer, requests: list[GenerateRequest]) -> float:
    started = time.perf_counter()
    tokens = await asyncio.gather(*(asyncio.to_thread(server.complete, one) for one in requests))
    return sum(tokens) / (time.perf_counter() - started)
