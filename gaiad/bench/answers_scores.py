"""How good answers are, as pure functions: what they cite against what holds the evidence, when they say NOT_FOUND, and
whether their confidence comes true.
"""

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gaiad.bench.retrieval_data import Collection as Questions
from gaiad.bench.rows import percentile

UNKNOWN = "unknown"
ADVERSARIAL = "5"
"""LoCoMo's category of questions that give to one what another said or did."""
_UNKNOWN_FILE = Path(__file__).with_name("unknown_questions.toml")


class LabelledQuestion(msgspec.Struct, frozen=True):
    """A question and the ids of the packets with its evidence; none for an `unknown` one."""

    text: str
    category: str
    packets: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        return self.category not in (UNKNOWN, ADVERSARIAL)

    @property
    def single(self) -> bool:
        """Answerable, with all its evidence in one packet."""
        return self.answerable and len(self.packets) == 1


class Stranger(msgspec.Struct, frozen=True):
    """A question about what is hardly in an archive, with the words that must stand nowhere in it."""

    text: str
    words: tuple[str, ...]


def labelled(collection: Questions) -> list[LabelledQuestion]:
    """The collection's own questions."""
    groups = collection.group_of()
    return [
        LabelledQuestion(
            question.text, question.category, tuple(dict.fromkeys(groups[unit] for unit in question.evidence))
        )
        for question in collection.questions
    ]


def strangers() -> list[Stranger]:
    """The shipped hundred."""
    rows = tomllib.loads(_UNKNOWN_FILE.read_text(encoding="utf-8"))["questions"]
    return [Stranger(text, tuple(words)) for text, *words in rows]


STEPS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
"""Where the bands of confidence begin."""
_ROUNDS, _SEED = 1000, 20240901


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A question and what came of it; `cited` are packets in the order of the answer."""

    asked: LabelledQuestion
    status: str
    cited: tuple[str, ...]
    confidence: float
    iterations: int
    took_ms: float
    found: tuple[str, ...] = ()
    """The packets of the pages found, a page each, best first."""

    @property
    def found_nothing(self) -> bool:
        return self.status in ("NOT_FOUND", "CLARIFY")

    @property
    def first_right(self) -> bool:
        return bool(self.cited) and self.cited[0] in self.asked.packets

    @property
    def any_right(self) -> bool:
        return not set(self.cited).isdisjoint(self.asked.packets)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What every set is measured by. `first` and `mrr` are of the right packet among those found, `all_at_10` counts
    questions whose ten best pages hold all of the answer; `words` is the median of an answer's, 0 where unknown."""

    questions: int
    right: int
    right_packet: int
    not_found: int
    sure: int
    wrong_and_sure: int
    unknown: int
    unknown_told: int
    first: int
    mrr: float
    all_at_10: int
    miscalibration: float
    words: float = 0


SURE = 0.8
"""From this confidence on an answer is sure."""
PAGES_SEEN = 10


def rank_of(right: Collection[str], found: Sequence[str]) -> int:
    """The place of the first right packet among the packets found, from 1; 0 when none is there."""
    packets = list(dict.fromkeys(found))
    return next((place for place, packet in enumerate(packets, 1) if packet in right), 0)


def conversation_figures(rows: Sequence[Answered]) -> Figures:
    """Of questions labelled with packets: an answer is right when the first packet that it cites holds evidence."""
    asked = [row for row in rows if row.asked.answerable]
    unknown = [row for row in rows if row.asked.category == UNKNOWN]
    sure = [row for row in (*asked, *unknown) if row.status == "SUCCESS" and row.confidence >= SURE]
    ranks = [rank_of(row.asked.packets, row.found) for row in asked]
    return Figures(
        questions=len(asked),
        right=sum(row.first_right for row in asked),
        right_packet=sum(row.any_right for row in asked),
        not_found=sum(row.found_nothing for row in asked),
        sure=len(sure),
        wrong_and_sure=sum(not row.first_right for row in sure),
        unknown=len(unknown),
        unknown_told=sum(row.found_nothing for row in unknown),
        first=ranks.count(1),
        mrr=_mean([1 / rank if rank else 0.0 for rank in ranks]),
        all_at_10=sum(set(row.asked.packets) <= set(row.found[:PAGES_SEEN]) for row in asked),
        miscalibration=miscalibration([row for row in asked if row.asked.single]),
    )


def format_sets(found: Mapping[str, Figures]) -> str:
    """A table a set: each figure with its share and the 95 % interval of that (Wilson)."""
    return "\n\n".join("\n".join(_lines(name, row)) for name, row in found.items())


def _lines(name: str, row: Figures) -> Iterator[str]:
    yield f"{name}: {row.questions} questions, {row.unknown} that nothing answers"
    shares = {
        "right": (row.right, row.questions),
        "right packet cited": (row.right_packet, row.questions),
        "NOT_FOUND though answerable": (row.not_found, row.questions),
        "unknown told": (row.unknown_told, row.unknown),
        "wrong though sure (0.8)": (row.wrong_and_sure, row.sure),
        "packet R@1": (row.first, row.questions),
        f"all@{PAGES_SEEN} pages": (row.all_at_10, row.questions),
    }
    for label, (count, total) in shares.items():
        low, high = interval(count, total)
        share = f"{count / total:.3f}  {low:.2f}-{high:.2f}" if total else "-"
        yield f"  {label:<28} {count:>4} of {total:<4} {share}"
    yield f"  {'packet MRR':<28} {row.mrr:.3f}"
    yield f"  {'calibration error':<28} {row.miscalibration:.3f}"
    if row.words:
        yield f"  {'words, median':<28} {row.words:.0f}"


def interval(right: int, total: int) -> tuple[float, float]:
    """Wilson's interval of a share, at 95 %."""
    z = 1.96
    if not total:
        return 0.0, 0.0
    share, square = right / total, z * z / total
    middle = (share + square / 2) / (1 + square)
    reach = z / (1 + square) * math.sqrt(share * (1 - share) / total + square / (4 * total))
    return middle - reach, middle + reach


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
    """`calibration_error` of answers whose first packet is right or not."""
    return calibration_error([(row.confidence, row.first_right) for row in rows if not row.found_nothing])


def calibration_error(answers: Sequence[tuple[float, bool]]) -> float:
    """Mean distance of (confidence, whether right) from each other, over bands by their answers (ECE)."""
    off = 0.0
    for begin, end in pairwise(STEPS):
        inside = [(confidence, right) for confidence, right in answers if begin <= confidence < end]
        if inside:
            confidence, right = np.array(inside, float).mean(axis=0)
            off += len(inside) * abs(float(confidence) - float(right))
    return round(off / len(answers), 4) if answers else 0.0


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
