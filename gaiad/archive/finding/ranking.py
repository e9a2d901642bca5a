"""How pages are ranked, as pure functions over arrays. Everything boosts and nothing filters.

Scores are put on one scale before they are added: BM25 as a share of the best page's, cosines as a share of the way
from the pool's mean to its best. The parts of a fused score add up to it, which is what `--explain` prints.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]
_NOTHING = 1e-30
_SHORT_BYTES = 40
_FULL_BYTES = 400
_QUESTION_BYTES = 150
_MOST_BETTER = 3


@dataclass(frozen=True, slots=True)
class Weights:
    """Shares of the fused score; a part whose weight is 0 plays no role."""

    bm25: float
    words: float
    window: float
    before: float
    dense: float
    near: float
    session: float
    session_dense: float
    name: float
    own: float
    when: float
    number: float
    names: float
    substance: float
    spread: float
    time: float
    match: float
    neighbour_1: float
    neighbour_2: float


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """The candidate pages: positions and, aligned with them, what each part has to say (0 to 1 unless said).

    Scores of words are BM25 on any scale: of the page, of the pages before it, of its session. `words` are the shares
    that a query of bare words asks for, 0 for a question. `dense` is `above_mean`, `near` what smoothing adds to it.
    """

    positions: Positions
    lexical: Scores
    words: Scores
    window: Scores
    before: Scores
    session_words: Scores
    dense: Scores
    near: Scores
    session: NDArray[np.int32]
    substance: Scores
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


def smooth_at(
    scores: Scores, positions: Positions, link_1: Scores, link_2: Scores, share_1: float, share_2: float
) -> Scores:
    """What `smooth` makes of the pages at `positions`, to the last bit; its cost follows them and not the archive."""
    smoothed = scores[positions]
    for step, links, share in ((1, link_1, share_1), (2, link_2, share_2)):
        if share and len(scores) > step:
            later = np.flatnonzero(positions >= step)
            before = positions[later] - step
            smoothed[later] += np.float32(share) * links[before] * scores[before]
            earlier = np.flatnonzero(positions < len(scores) - step)
            own = positions[earlier]
            smoothed[earlier] += np.float32(share) * links[own] * scores[own + step]
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


def substance(length: Scores, asks: NDArray[np.uint8]) -> Scores:
    """How much a page can tell, 0 to 1: nothing to speak of in a few bytes, all from 400 on; half for a question.

    A question mark for every 150 bytes makes a page a question.
    """
    size = np.minimum(np.log1p(length / _SHORT_BYTES) / math.log1p(_FULL_BYTES / _SHORT_BYTES), 1.0)
    asking = np.minimum(asks * _QUESTION_BYTES / np.maximum(length, 1.0), 1.0)
    told: Scores = np.maximum(size - 0.5 * asking, 0.0).astype(np.float32)
    return told


def fuse(pool: CandidatePool, weights: Weights) -> Fused:
    """The weighted sum of all parts, each on its own 0 to 1 scale."""
    session_dense = best_of_session(pool.dense, pool.session)
    parts = {
        "bm25": _part(weights.bm25, pool.lexical),
        "words": np.float32(weights.words) * pool.words,
        "window": np.float32(weights.window) * pool.window,
        "before": np.float32(weights.before / _best(pool.lexical)) * pool.before,
        "dense": _part(weights.dense, pool.dense),
        "near": np.float32(weights.near / _best(pool.dense)) * pool.near,
        "session": _part(weights.session, pool.session_words),
        "session_dense": _part(weights.session_dense, session_dense),
        "name": np.float32(weights.name) * pool.named,
        "substance": np.float32(weights.substance) * pool.substance,
        "time": np.float32(weights.time) * pool.in_period,
        "match": np.float32(weights.match) * pool.matched,
    }
    total = np.zeros(len(pool.positions), np.float32)
    for part in parts.values():
        total = total + part
    return Fused(total, parts)


def spread(total: Scores, positions: Positions, session: NDArray[np.int32], weight: float) -> Scores:
    """What a page loses, 0 or less, for each page of its session that is better, three at most.

    What somebody "has done" spreads over days: the best page of one day is worth more than the fifth of another.
    """
    order = np.lexsort((positions, -total, session))
    ordered = session[order]
    better = np.zeros(len(total), np.float32)
    better[order] = np.arange(len(total)) - np.searchsorted(ordered, ordered)
    return np.float32(-weight) * np.minimum(better, np.float32(_MOST_BETTER))


def with_parts(fused: Fused, more: dict[str, Scores]) -> Fused:
    """The fused score with further parts added to it."""
    total = fused.total
    for part in more.values():
        total = total + part
    return Fused(total, {**fused.parts, **more})


def as_share(scores: Scores) -> Scores:
    """Scores as shares of the best one."""
    return scores / np.float32(_best(scores))


def _part(weight: float, scores: Scores) -> Scores:
    return np.float32(weight / _best(scores)) * scores


def order_by_score(total: Scores, positions: Positions) -> NDArray[np.int64]:
    """Indices into the pool, best first; the earlier page first among equals, whatever order the pool was in."""
    return np.lexsort((positions, -total)).astype(np.int64)
