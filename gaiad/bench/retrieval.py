"""`gaiad bench retrieval`: how well the archive finds labelled evidence, by turn and by session, or by document.

The real archive in this process, one a conversation, searched as `gaiad search` does. `--ablate` measures again with
one ingredient of the ranking left out at a time. Missed evidence is counted by where it was lost.
"""

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from gaiad.base.config import Config, load_config
from gaiad.base.errors import BadInput
from gaiad.bench.retrieval_archive import FilledArchive, filled, own_embedder
from gaiad.bench.retrieval_data import (
    Collection,
    RetrievalQuestion,
    conversation_files,
    fingerprint,
    read_beir,
    read_conversations,
)

Format = Literal["locomo", "beir"]
Row = dict[str, float]
INGREDIENTS: dict[str, dict[str, float]] = {
    "words": {"weight_bm25": 0.0, "weight_window": 0.0, "weight_before": 0.0, "weight_session": 0.0},
    "vectors": {"weight_dense": 0.0, "weight_near": 0.0, "weight_session_dense": 0.0},
    "cues": {"weight_own": 0.0, "weight_when": 0.0, "weight_number": 0.0, "weight_names": 0.0},
    **{
        part: {f"weight_{part}": 0.0}
        for part in (
            *("bm25", "window", "before", "dense", "near", "session", "session_dense"),
            *("name", "own", "when", "number", "names", "substance", "spread"),
        )
    },
}
"""What `--ablate` leaves out, one at a time, as changes of the [search] settings."""
_SHOWN = 10
_TURN, _SESSION = "turn ", "session "


def run_retrieval(source: Path, form: Format, *, ablate: bool, loop: bool = False, as_json: bool) -> None:
    """Measure and print, as JSON or as a line a measure. Raises BadInput, NotFound."""
    found = measure_retrieval(source, form, ablate=ablate, loop=loop)
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for line in table(found):
        print(line)


def table(found: Mapping[str, Any], name: str = "") -> list[str]:
    """Every figure on a line of its own under its path, such as `by_category 1 turn recall@10  0.45`."""
    lines = []
    for key, value in found.items():
        path = f"{name} {key}".strip()
        lines += table(value, path) if isinstance(value, dict) else [f"{path:<44}  {value}"]
    return lines


def measure_retrieval(
    source: Path, form: Format, *, ablate: bool = False, loop: bool = False, config: Config | None = None
) -> dict[str, Any]:
    """The figures for a LoCoMo file or a BEIR folder; blocks for seconds to minutes. Raises BadInput, NotFound.

    `loop` adds those of what the researcher's loop finds, its second hop and refinements included (conversations only).
    """
    if loop and form != "locomo":
        raise BadInput("the loop is measured on conversations: give --format locomo with --loop")
    began = time.perf_counter()
    collections = read_conversations(source) if form == "locomo" else read_beir(source)
    if not any(collection.questions for collection in collections):
        raise BadInput(f"{source}: no question has evidence that is there")
    variants = {"": {}, **(INGREDIENTS if ablate else {})}
    outcome = asyncio.run(_run(collections, variants, config or load_config(), loop=loop))
    rows = outcome.rows[""]
    result: dict[str, Any] = {"dataset": source.name, "sha256": fingerprint(_files(source)), "questions": len(rows)}
    result |= _parted(means(rows)) if form == "locomo" else means(rows)
    if form == "locomo":
        result["by_category"] = {
            name: {"questions": len(some), **_parted(means(some))} for name, some in outcome.by_category().items()
        }
        if loop:
            result["loop"] = outcome.of_loop()
    spread = intervals(rows)
    result["ci95"] = _parted(spread) if form == "locomo" else spread
    result["missed"] = dict(outcome.missed)
    result["skipped"] = {
        name: sum(getattr(one.skipped, name) for one in collections) for name in ("questions", "evidence")
    }
    result["ablation"] = {
        f"without {name}": _parted(means(found)) if form == "locomo" else means(found)
        for name, found in outcome.rows.items()
        if name
    }
    return {**result, "took_s": round(time.perf_counter() - began, 1)}


class RetrievalFigures:
    """Rows of measures by variant ("" is the configured ranking), and where missed evidence was lost."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self.loop: list[Row] = []
        self.rounds: list[int] = []
        self.categories: list[str] = []
        self.missed: Counter[str] = Counter({"evidence": 0, "not_retrieved": 0, "cut": 0, "ranked_low": 0})

    def by_category(self) -> dict[str, list[Row]]:
        """The configured ranking's rows by category of question, in the categories' order."""
        return self._parted(self.rows[""])

    def of_loop(self) -> dict[str, Any]:
        """The figures of what the researcher's loop found, in its order."""
        return {
            **_parted(means(self.loop)),
            "by_category": {name: _parted(means(some)) for name, some in self._parted(self.loop).items()},
            "ci95": _parted(intervals(self.loop)),
            "iterations": round(sum(self.rounds) / len(self.rounds), 2),
        }

    def _parted(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        parts: defaultdict[str, list[Row]] = defaultdict(list)
        for category, row in zip(self.categories, rows, strict=True):
            parts[category].append(row)
        return dict(sorted(parts.items()))


async def _run(
    collections: Sequence[Collection], variants: Mapping[str, Mapping[str, float]], config: Config, *, loop: bool
) -> RetrievalFigures:
    outcome = RetrievalFigures()
    async with own_embedder(config) as embedder:
        for collection in collections:
            async with filled(collection, config, embedder) as archive:
                await _ask(collection, archive, variants, outcome)
                if loop:
                    await _research(collection, archive, outcome)
    return outcome


async def _ask(
    collection: Collection,
    archive: FilledArchive,
    variants: Mapping[str, Mapping[str, float]],
    outcome: RetrievalFigures,
) -> None:
    groups = collection.group_of()
    for name, changes in variants.items():
        archive.use(changes)
        for question in collection.questions:
            ranked = await archive.find(question.text)
            units = units_of(ranked, archive.units)
            if not name:
                outcome.missed.update(await _lost(question, units, archive))
            if not groups:
                outcome.rows[name].append(document_measures(units, question))
                continue
            packets = list(dict.fromkeys(packet for _, packet in ranked))
            outcome.rows[name].append(turn_measures(units, packets, question, groups))
            if not name:
                outcome.categories.append(question.category)


async def _research(collection: Collection, archive: FilledArchive, outcome: RetrievalFigures) -> None:
    groups = collection.group_of()
    archive.use({})
    for question in collection.questions:
        ranked, rounds = await archive.researched(question.text)
        packets = list(dict.fromkeys(packet for _, packet in ranked))
        outcome.loop.append(turn_measures(units_of(ranked, archive.units), packets, question, groups))
        outcome.rounds.append(rounds)


async def _lost(question: RetrievalQuestion, units: Sequence[str], archive: FilledArchive) -> Counter[str]:
    """How much evidence is not among the first ten, by reason.

    ranked_low: further down the list; cut: not on the list, though a retriever alone has it among its candidates;
    not_retrieved: no retriever has.
    """
    wanted = {unit for unit, grade in question.evidence.items() if grade > 0}
    lost = Counter({"evidence": len(wanted)})
    missing = wanted - set(units[:_SHOWN])
    lost["ranked_low"] = len(missing & set(units))
    missing -= set(units)
    if missing:
        alone: set[str] = set()
        for mode in ("bm25", "dense") if archive.dense else ("bm25",):
            alone |= set(units_of(await archive.find(question.text, mode), archive.units))
        lost["cut"] = len(missing & alone)
        lost["not_retrieved"] = len(missing - alone)
    return lost


def units_of(ranked: Sequence[tuple[str, str]], units: Mapping[str, Sequence[str]]) -> list[str]:
    """What the ranked pages show, best first, each once. A page that shows none takes a place of its own."""
    return list(dict.fromkeys(unit for page, _ in ranked for unit in units.get(page) or [page]))


def turn_measures(
    turns: Sequence[str], packets: Sequence[str], question: RetrievalQuestion, groups: Mapping[str, str]
) -> Row:
    """Every measure of one question about a conversation: by turn, and by session."""
    wanted = list(question.evidence)
    sessions = list(dict.fromkeys(groups[turn] for turn in wanted))
    return {
        **{f"{_TURN}recall@{depth}": recall(turns, wanted, depth) for depth in (5, 10, 20)},
        f"{_TURN}all@10": all_found(turns, wanted, 10),
        f"{_TURN}mrr": reciprocal_rank(turns, wanted),
        f"{_SESSION}hit@1": hit(packets, sessions, 1),
        **{f"{_SESSION}recall@{depth}": recall(packets, sessions, depth) for depth in (1, 5, 10)},
    }


def document_measures(documents: Sequence[str], question: RetrievalQuestion) -> Row:
    """Every measure of one BEIR query; only grades above 0 are relevant."""
    wanted = [unit for unit, grade in question.evidence.items() if grade > 0]
    return {
        "ndcg@10": discounted_gain(documents, question.evidence, 10),
        **{f"recall@{depth}": recall(documents, wanted, depth) for depth in (10, 100)},
        "mrr": reciprocal_rank(documents, wanted),
    }


def _files(source: Path) -> list[Path]:
    """The file, or a folder's (BEIR's three, LoCoMo's *.json)."""
    of_beir = [source / name for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")]
    return of_beir if of_beir[0].is_file() else conversation_files(source)


def _parted(measures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{"turn": {...}, "session": {...}} of measures named `turn recall@5` and so on."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in measures.items():
        part, _, measure = name.partition(" ")
        parts.setdefault(part, {})[measure] = value
    return parts


_ROUNDS = 1000
_SEED = 20240901


def recall(ranking: Sequence[str], wanted: Sequence[str], depth: int) -> float:
    """The share of `wanted` among the first `depth`."""
    return len(set(wanted) & set(ranking[:depth])) / len(set(wanted))


def all_found(ranking: Sequence[str], wanted: Sequence[str], depth: int) -> float:
    """1 when every one of `wanted` is among the first `depth`, else 0."""
    return float(set(wanted) <= set(ranking[:depth]))


def hit(ranking: Sequence[str], wanted: Sequence[str], depth: int) -> float:
    """1 when any of `wanted` is among the first `depth`, else 0."""
    return float(not set(wanted).isdisjoint(ranking[:depth]))


def reciprocal_rank(ranking: Sequence[str], wanted: Sequence[str]) -> float:
    """1 / place of the first of `wanted`, 0 when none is in the ranking."""
    places = (place for place, found in enumerate(ranking, start=1) if found in set(wanted))
    return 1 / next(places, math.inf)


def discounted_gain(ranking: Sequence[str], grades: Mapping[str, int], depth: int) -> float:
    """nDCG at `depth` with linear gains, as BEIR counts it; 0 when nothing has a grade above 0."""
    gains = [grades.get(found, 0) for found in ranking[:depth]]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every measure over the questions, to four places; {} without questions."""
    if not rows:
        return {}
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def intervals(rows: Sequence[Mapping[str, float]], rounds: int = _ROUNDS) -> dict[str, list[float]]:
    """[low, high] of every mean: the middle 95 % of `rounds` draws of as many questions with replacement, seeded."""
    if not rows:
        return {}
    names = list(rows[0])
    table = np.array([[row[name] for name in names] for row in rows])
    source = np.random.default_rng(_SEED)
    drawn = np.array([table[source.integers(0, len(rows), len(rows))].mean(axis=0) for _ in range(rounds)])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return {name: [round(float(low[n]), 4), round(float(high[n]), 4)] for n, name in enumerate(names)}
