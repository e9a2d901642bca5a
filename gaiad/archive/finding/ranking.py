"""How pages are ranked, as pure functions over arrays. Everything boosts and nothing filters.

Scores are put on one scale before they are added: BM25 as a share of the best page's, cosines as a share of the way
from the pool's mean to its best. The parts of a fused score add up to it, which is what `--explain` prints.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]
_NOTHING = 1e-30


@dataclass(frozen=True, slots=True)
class Weights:
    """Shares of the fused score; a part whose weight is 0 plays no role."""

    bm25: float
    dense: float
    session: float
    name: float
    time: float
    match: float
    neighbour_1: float
    neighbour_2: float


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidate pages: positions and, aligned with them, what each part has to say (0 to 1 unless said)."""

    positions: Positions
    lexical: Scores
    lexical_smoothed: Scores
    dense: Scores
    dense_smoothed: Scores
    session: NDArray[np.int32]
    named: Scores
    in_period: Scores
    matched: Scores


@dataclass(frozen=True, slots=True)
class Fused:
    """Total score of each page of the pool, and the parts it is the sum of."""

    total: Scores
    parts: dict[str, Scores]


def smooth(scores: Scores, link_1: Scores, link_2: Scores, share_1: float, share_2: float) -> Scores:
    """Each page's score with `share_1` of those one step and `share_2` of those two steps away in the same packet.

    `link_1[i]` is 1 where page i+1 follows page i, `link_2[i]` where i+2 does; lengths n-1 and n-2.
    """
    smoothed = scores.copy()
    for step, links, share in ((1, link_1, share_1), (2, link_2, share_2)):
        if share and len(scores) > step:
            weights = np.float32(share) * links
            smoothed[step:] += weights * scores[:-step]
            smoothed[:-step] += weights * scores[step:]
    return smoothed


def best_positions(scores: Scores, count: int) -> Positions:
    """Positions of the `count` highest scores above 0, best first, the earlier page first among equals."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > count:
        values = scores[positive]
        threshold = np.partition(values, len(values) - count)[len(values) - count]
        positive = positive[values >= threshold]
    order = np.argsort(-scores[positive], kind="stable")
    return positive[order][:count].astype(np.int64)


def above_mean(cosines: Scores) -> Scores:
    """Cosines on a scale where the known ones' mean is 0 and the best is 1; unknown (NaN) and lower ones are 0."""
    known = cosines[~np.isnan(cosines)]
    if not len(known):
        return np.zeros_like(cosines)
    mean, best = float(known.mean()), float(known.max())
    if best - mean < 1e-6:
        return np.where(np.isnan(cosines), np.float32(0), np.float32(1)).astype(np.float32)
    scaled: Scores = np.nan_to_num(np.clip((cosines - mean) / (best - mean), 0, None), nan=0.0).astype(np.float32)
    return scaled


def best_of_session(scores: Scores, session: NDArray[np.int32]) -> Scores:
    """For each page the best score of its session, so that a session that has one good page lifts its others."""
    if not len(scores):
        return scores
    best = np.zeros(int(session.max()) + 1, np.float32)
    np.maximum.at(best, session, scores)
    return best[session]


def _best(scores: Scores) -> float:
    """What scores are divided by; 1 when none is more than nothing (a divisor that float32 can take the inverse of)."""
    best = float(scores.max(initial=0.0))
    return best if best > _NOTHING else 1.0


def fuse(pool: Pool, weights: Weights) -> Fused:
    """The weighted sum of all parts, each on its own 0 to 1 scale."""
    lexical_best, dense_best = _best(pool.lexical_smoothed), _best(pool.dense_smoothed)
    bm25 = np.float32(weights.bm25 / lexical_best) * pool.lexical
    dense = np.float32(weights.dense / dense_best) * pool.dense
    neighbours = np.float32(weights.bm25 / lexical_best) * (pool.lexical_smoothed - pool.lexical) + np.float32(
        weights.dense / dense_best
    ) * (pool.dense_smoothed - pool.dense)
    own = bm25 + dense + neighbours
    scale = _best(own)
    parts = {
        "bm25": bm25,
        "dense": dense,
        "neighbours": neighbours,
        "session": np.float32(weights.session / scale) * best_of_session(own, pool.session),
        "name": np.float32(weights.name) * pool.named,
        "time": np.float32(weights.time) * pool.in_period,
        "match": np.float32(weights.match) * pool.matched,
    }
    total = np.zeros(len(pool.positions), np.float32)
    for part in parts.values():
        total = total + part
    return Fused(total, parts)


def order_by_score(total: Scores, positions: Positions) -> NDArray[np.int64]:
    """Indices into the pool, best first; the earlier page first among equals, whatever order the pool was in."""
    return np.lexsort((positions, -total)).astype(np.int64)
