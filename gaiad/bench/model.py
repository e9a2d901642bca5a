"""One model of the user's beside a bare loop, in about a minute whatever its size: `gaiad models bench`."""

import asyncio
from pathlib import Path

import msgspec

from gaiad.bench.bare_loop import BareLoop, bare_loop
from gaiad.bench.beside_bare import Duel, Pair, Sizes
from gaiad.bench.generation import STREAMS
from gaiad.bench.opened import bare_setting, open_worker
from gaiad.bench.streams import asking
from gaiad.logs import configure_logs
from gaiad.models.child.raw_tasks import Task
from gaiad.models.generator import GeneratorSettings
from gaiad.models.gguf.gguf_info import read_info

_TURN_S = 1.0
_ROUNDS = 3


class SequenceRates(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens a second of all sequences together, medians; a ratio is the median of ours to the bare loop's."""

    sequences: int
    prefill: float
    prefill_bare: float
    prefill_ratio: float
    decode: float
    decode_bare: float
    decode_ratio: float


class ModelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`flash_attention` is what was measured to be faster here; the bare loop has the same."""

    path: str
    fingerprint: str
    threads: int
    flash_attention: bool
    unit: str
    rates: list[SequenceRates]


def measure_model(path: Path) -> ModelFigures:
    """Prefill and decode at 1, 2, 4 and 8 sequences. Raises BadInput, Unavailable."""
    configure_logs("critical", "text")
    info = read_info(path)
    return asyncio.run(_measure(path, info.fingerprint))


async def _measure(path: Path, fingerprint: str) -> ModelFigures:
    settings = GeneratorSettings(parallel=max(STREAMS))
    async with open_worker(path, settings) as worker:
        setting = bare_setting(path, settings, worker.flash)
        async with bare_loop(path, setting) as bare:
            duel = Duel(asking(worker), bare, await _fitting(bare, setting.cells))
            rates = [_rates(await duel.prefill(count), await duel.decode(count)) for count in STREAMS]
    return ModelFigures(
        path=str(path),
        fingerprint=fingerprint,
        threads=setting.threads,
        flash_attention=setting.flash,
        unit="tokens/s",
        rates=rates,
    )


async def _fitting(bare: BareLoop, cells: int) -> Sizes:
    """As much in a turn as the bare loop does in about a second, and as the context holds."""
    await bare.run(Task(what="prefill", sequences=1, tokens=8))
    read = await bare.run(Task(what="prefill", sequences=1, tokens=min(64, cells // 8)))
    written = await bare.run(Task(what="decode", sequences=1, tokens=4, prefix=8))
    share = cells // 4
    return Sizes(
        prefix=min(max(32, int(read.rate * _TURN_S)), 1000, share),
        decode=min(max(8, int(written.rate * _TURN_S)), 48, share // max(STREAMS)),
        prefill=min(max(64, int(read.rate * _TURN_S)), 512, share),
        rounds=_ROUNDS,
    )


def _rates(prefill: Pair, decode: Pair) -> SequenceRates:
    return SequenceRates(
        sequences=decode.sequences,
        prefill=round(prefill.ours, 1),
        prefill_bare=round(prefill.bare, 1),
        prefill_ratio=round(prefill.ratio, 3),
        decode=round(decode.ours, 1),
        decode_bare=round(decode.bare, 1),
        decode_ratio=round(decode.ratio, 3),
    )
