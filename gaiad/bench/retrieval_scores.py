"""How good a ranking is, as pure functions: recall, hits, reciprocal ranks, nDCG, and intervals of their means.

A ranking is a list of ids, best first, each once; what should be in it is a set of ids, or ids with grades.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

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
