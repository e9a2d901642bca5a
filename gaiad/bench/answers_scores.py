"""How good answers are, as pure functions: what they cite against what holds the evidence, when they say NOT_FOUND, and
whether their confidence comes true.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from gaiad.bench.answers_data import ADVERSARIAL, UNKNOWN, Asked
from gaiad.bench.rows import percentile

STEPS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
"""Where the bands of confidence begin."""
_ROUNDS, _SEED = 1000, 20240901


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A question and what came of it; `cited` are packets in the order of the answer."""

    asked: Asked
    status: str
    cited: tuple[str, ...]
    confidence: float
    iterations: int
    took_ms: float

    @property
    def found_nothing(self) -> bool:
        return self.status in ("NOT_FOUND", "CLARIFY")

    @property
    def first_right(self) -> bool:
        return bool(self.cited) and self.cited[0] in self.asked.packets

    @property
    def any_right(self) -> bool:
        return not set(self.cited).isdisjoint(self.asked.packets)


def citing(rows: Sequence[Answered]) -> dict[str, float]:
    """Cited packets of questions with one right packet: precision over all cited ones, recall over questions, F1."""
    counts = np.array([(len(row.cited), row.any_right) for row in rows], float).reshape(-1, 2)
    return {name: round(float(value), 4) for name, value in zip(_CITING, _citing(counts), strict=True)}


_CITING = ("precision", "recall", "f1", "packets_cited")


def _citing(counts: Any) -> tuple[float, float, float, float]:
    """From rows of (packets cited, whether one of them is right)."""
    cited, right, questions = counts[:, 0].sum(), counts[:, 1].sum(), len(counts)
    precision = right / cited if cited else 0.0
    recall = right / questions if questions else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0, cited / questions if questions else 0.0


def citing_interval(rows: Sequence[Answered]) -> dict[str, list[float]]:
    """[low, high] of `citing`: the middle 95 % of draws of as many questions with replacement, seeded."""
    counts = np.array([(len(row.cited), row.any_right) for row in rows], float).reshape(-1, 2)
    if not len(counts):
        return {}
    source = np.random.default_rng(_SEED)
    drawn = [_citing(counts[source.integers(0, len(counts), len(counts))]) for _ in range(_ROUNDS)]
    low, high = np.quantile(np.array(drawn), (0.025, 0.975), axis=0)
    return {name: [round(float(low[n]), 4), round(float(high[n]), 4)] for n, name in enumerate(_CITING)}


def calibration(rows: Sequence[Answered]) -> list[dict[str, float]]:
    """By band of confidence: answers, their mean confidence, the share whose first, and any, cited packet is right."""
    bands = []
    for begin, end in pairwise(STEPS):
        inside = [row for row in rows if not row.found_nothing and begin <= row.confidence < end]
        if inside:
            bands.append(
                {
                    "from": begin,
                    "answers": len(inside),
                    "confidence": _mean([row.confidence for row in inside]),
                    "first_right": _mean([row.first_right for row in inside]),
                    "any_right": _mean([row.any_right for row in inside]),
                }
            )
    return bands


def miscalibration(rows: Sequence[Answered]) -> float:
    """Mean distance of confidence from the share of right first packets, over bands by their answers (ECE)."""
    bands = calibration(rows)
    answers = sum(band["answers"] for band in bands)
    off = sum(band["answers"] * abs(band["confidence"] - band["first_right"]) for band in bands)
    return round(off / answers, 4) if answers else 0.0


def summary(rows: Sequence[Answered]) -> dict[str, Any]:
    """Everything but the curve, of one run over all questions."""
    single = [row for row in rows if row.asked.single]
    return {
        "single": {
            "questions": len(single),
            **citing(single),
            "first_right": _mean([row.first_right for row in single]),
            "iterations": _mean([float(row.iterations) for row in single]),
            "ci95": citing_interval(single),
        },
        "by_category": {name: _of_category(rows, name) for name in sorted({row.asked.category for row in rows})},
        "answerable": _not_found([row for row in rows if row.asked.answerable]),
        "unknown": _not_found([row for row in rows if row.asked.category == UNKNOWN]),
        "category_5": _not_found([row for row in rows if row.asked.category == ADVERSARIAL]),
        "confidence": {"miscalibration": miscalibration(single), "bands": calibration(single)},
        "took_ms": _times(rows),
    }


def _of_category(rows: Sequence[Answered], name: str) -> Mapping[str, float]:
    own = [row for row in rows if row.asked.category == name]
    return {
        **_not_found(own),
        "any_right": _mean([row.any_right for row in own]),
        "iterations": _mean([float(row.iterations) for row in own]),
    }


def _not_found(rows: Sequence[Answered]) -> dict[str, float]:
    return {"questions": len(rows), "not_found": _mean([row.found_nothing for row in rows])}


def _times(rows: Sequence[Answered]) -> dict[str, float]:
    times = [row.took_ms for row in rows]
    return {"p50": percentile(times, 0.5), "p95": percentile(times)} if times else {}


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4) if values else 0.0
