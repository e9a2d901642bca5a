"""What the form of a reply costs a running stream with the vocabulary of a real model: with and without, in turns."""

import asyncio
import os
import statistics
from typing import Any

import msgspec

from gaiad.bench.model import Ask, asking, open_worker, prompt, request, shared_rate, together
from gaiad.bench.rows import Row
from gaiad.models.generator import GeneratorSettings
from tests.makers.llama_files import half_billion

_ROUNDS = 5
_TOKENS = 48
_PREFIX = 300
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def measure_forms() -> list[Row]:
    """Decode at one and at four streams, free and held to a JSON Schema with a text in it."""
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    rows: list[Row] = []
    async with open_worker(half_billion(os.environ), GeneratorSettings()) as worker:
        ask = asking(worker)
        await _rate(ask, 1, _SCHEMA)  # compiles the form and reads the prompt
        for streams in (1, 4):
            rows += _rows(streams, [await _turn(ask, streams, number) for number in range(_ROUNDS)])
    return rows


async def _turn(ask: Ask, streams: int, number: int) -> tuple[float, float]:
    """Tokens a second free and held; who goes first changes."""
    if number % 2:
        held = await _rate(ask, streams, _SCHEMA)
        return await _rate(ask, streams, None), held
    return await _rate(ask, streams, None), await _rate(ask, streams, _SCHEMA)


async def _rate(ask: Ask, streams: int, schema: dict[str, Any] | None) -> float:
    free = [request(prompt(_PREFIX, 0), _TOKENS, seed) for seed in range(streams)]
    traces = await together(ask, [msgspec.structs.replace(one, schema=schema) for one in free])
    return shared_rate(traces)


def _rows(streams: int, turns: list[tuple[float, float]]) -> list[Row]:
    free, held = (statistics.median(rates[which] for rates in turns) for which in (0, 1))
    cost = statistics.median(1.0 - held / free for free, held in turns)
    return [
        Row(what=f"decode without a form, {streams} at once", value=free, unit="tokens/s"),
        Row(what="  with a JSON Schema", value=held, unit="tokens/s"),
        Row(what="  cost", value=cost * 100, unit="%", aim="<= 10"),
    ]
