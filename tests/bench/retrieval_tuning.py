"""Chooses the ranking's weights from labelled conversations: `python -m tests.bench.retrieval_tuning LOCOMO_FILE`.

One set of weights for all data. What it is worth is measured by leaving one conversation out at a time: weights learnt
from the others rank the questions of the one that was left out, and only those figures are printed beside the weights.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.archive.finding import query_terms, ranking
from gaiad.base.config import Config, load_config
from gaiad.base.ports import Embedder
from gaiad.bench import retrieval as scores
from gaiad.bench.retrieval import Row, turn_measures, units_of
from gaiad.bench.retrieval_archive import FilledArchive, filled, own_embedder
from gaiad.bench.retrieval_data import Collection, RetrievalQuestion, read_conversations
from gaiad.wire.schemas import Hit

Table = NDArray[np.float32]
PARTS = (
    *("bm25", "window", "before", "dense", "near", "session", "session_dense"),
    *("name", "own", "when", "number", "names", "substance"),
)
"""What is tuned. Preferences (time, match) and bare words are the request's; `spread` follows from all the others."""
WEIGHTS_SUM = 2.0
_STEPS = 200
_RATE = 0.15
_PENALTY = 1e-3
_START = 0.5


class TuningQuestion(msgspec.Struct, frozen=True):
    """One question, its candidates (page id, packet id), their unweighted parts (candidates, parts), which hold it."""

    question: RetrievalQuestion
    pages: list[tuple[str, str]]
    parts: Table
    holds: NDArray[np.bool_]


class Talk(msgspec.Struct, frozen=True):
    """A conversation's questions, what its pages show, and the packet of every turn."""

    name: str
    asked: list[TuningQuestion]
    units: dict[str, list[str]]
    groups: dict[str, str]


async def collect(collections: Sequence[Collection], config: Config, embedder: Embedder | None) -> list[Talk]:
    """Every question's candidates as the archive offers them, with each part of the score at weight 1."""
    talks = []
    for collection in collections:
        async with filled(collection, config, embedder) as archive:
            archive.use({f"weight_{part}": 1.0 for part in PARTS})
            asked = [await _candidates(archive, question) for question in collection.questions]
            talks.append(Talk(collection.name, asked, archive.units, collection.group_of()))
    return talks


async def _candidates(archive: FilledArchive, question: RetrievalQuestion) -> TuningQuestion:
    hits = await archive.explained(question.text)
    parts = np.array([_parts(hit) for hit in hits], np.float32).reshape(len(hits), len(PARTS))
    holds = [not set(archive.units.get(hit.page_id, ())).isdisjoint(question.evidence) for hit in hits]
    return TuningQuestion(question, [(hit.page_id, hit.packet_id) for hit in hits], parts, np.array(holds, np.bool_))


def _parts(hit: Hit) -> list[float]:
    boosts = hit.explanation.boosts if hit.explanation else {}
    return [boosts.get(part, 0.0) for part in PARTS]


def learn(asked: Sequence[TuningQuestion]) -> Table:
    """Weights, none below 0, under which evidence is likelier than the other candidates (a softmax over each list)."""
    usable = [one for one in asked if one.holds.any()]
    table = np.concatenate([one.parts for one in usable]).astype(np.float32)
    holds = np.concatenate([one.holds for one in usable])
    lengths = np.array([len(one.holds) for one in usable])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    of = np.repeat(np.arange(len(usable)), lengths)
    share = (1.0 / np.add.reduceat(holds.astype(np.float32), starts) / np.float32(len(usable)))[of].astype(np.float32)
    weights = np.full(len(PARTS), _START, np.float32)
    mean, spread = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        slope = table.T @ _slopes(table @ weights, holds, share, starts, of) + _PENALTY * weights
        mean = 0.9 * mean + 0.1 * slope
        spread = 0.999 * spread + 0.001 * slope**2
        pace = _RATE if step < 0.7 * _STEPS else 0.3 * _RATE
        weights -= pace * (mean / (1 - 0.9**step)) / (np.sqrt(spread / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights, 0.0)
    return weights.astype(np.float32)


def _slopes(
    ranked: NDArray[Any], holds: NDArray[np.bool_], share: NDArray[Any], starts: NDArray[Any], of: NDArray[Any]
) -> NDArray[Any]:
    """The loss's slope at every score: each evidence stands alone against the candidates that are none."""
    raised = np.exp(ranked - np.maximum.reduceat(ranked, starts)[of])
    others = np.where(holds, 0.0, raised)
    total = np.add.reduceat(others, starts)[of] + np.where(holds, raised, 0.0)
    pressed = np.add.reduceat(np.where(holds, share / total, 0.0), starts)[of]
    slopes: NDArray[Any] = np.where(holds, -share * (1 - raised / total), others * pressed)
    return slopes


def left_out(talks: Sequence[Talk], spread: float) -> list[Row]:
    """Measures of every question under weights learnt without its conversation, and `spread` as it is set."""
    rows = []
    for talk in talks:
        weights = learn([one for other in talks if other is not talk for one in other.asked])
        rows += [_measured(talk, one, _scaled(weights), spread) for one in talk.asked]
    return rows


def _measured(talk: Talk, one: TuningQuestion, weights: Table, spread: float) -> Row:
    total = one.parts @ weights
    if query_terms.wanted(one.question.text).several:
        packet_of = np.unique([packet for _, packet in one.pages], return_inverse=True)[1]
        total = total + ranking.spread(total, np.arange(len(total)), packet_of.astype(np.int32), spread)
    order = np.argsort(-total, kind="stable")
    ranked = [one.pages[place] for place in order]
    packets = list(dict.fromkeys(packet for _, packet in ranked))
    return turn_measures(units_of(ranked, talk.units), packets, one.question, talk.groups)


def settings(weights: Table) -> dict[str, float]:
    """The [search] settings for these weights, brought to a sum of `WEIGHTS_SUM`."""
    return {f"weight_{part}": round(float(value), 3) for part, value in zip(PARTS, _scaled(weights), strict=True)}


def _scaled(weights: Table) -> Table:
    return weights * np.float32(WEIGHTS_SUM / max(float(weights.sum()), 1e-9))


async def tune(source: Path, config: Config) -> Mapping[str, Any]:
    """{"settings": from all conversations, "left_out": means over the questions of conversations left out}."""
    async with own_embedder(config) as embedder:
        talks = await collect(read_conversations(source), config, embedder)
    everything = learn([one for talk in talks for one in talk.asked])
    return {"settings": settings(everything), "left_out": scores.means(left_out(talks, config.search.weight_spread))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="conversations as LoCoMo has them, two or more")
    print(json.dumps(asyncio.run(tune(parser.parse_args().file, load_config())), indent=2))
