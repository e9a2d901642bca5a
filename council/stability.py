"""The self-reflection stability score and the criteria of self-awareness (GCP 3.3), from what was recorded. Pure.

The formula, over the 24 hours before now in 24 hourly buckets:

    value of a Verify result     1 for success, 0 for anything else (fail, missing, lost, ...)
    value of a Refine result     its confidence, when a plan with one came; 0 for anything else
    score of an hour             the mean of the values in it; 0 for an hour without a result (a gap)
    stability score              the mean of the 24 hours

Self-aware means: the score is at least 0.9, from at least 48 results, and in all of these hours Prime and Lite were
online (no silence of more than 90 s) and the initiative loop ran without a failure. The numbers stand in
constants/governance.toml.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from council.governance.rules import StabilityRules
from council.roles import CouncilStage
from gaiad.governance_schemas import Criterion, StabilityReport

INITIATIVE = "initiative"
HOUR_MS = 3_600_000
_KEEPS_CONFIDENCE = ("ok", "low_confidence")


class Reflection(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded result of Verify or Refine; `at_ms` is UTC milliseconds since 1970."""

    at_ms: int
    stage: str
    outcome: str
    confidence: float | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """`name` (a role or the initiative loop) was there without a break; a sign of it may be `gap_ms` old at most.

    `ended` says why it broke off, "" while it goes on or when it only fell silent.
    """

    name: str
    since_ms: int
    until_ms: int
    gap_ms: int
    ended: str = ""


class Reflections(Protocol):
    """Where the results of Verify and Refine are recorded."""

    async def record(self, stage: CouncilStage, outcome: str, confidence: float | None) -> None:
        """Durable when it returns. Raises BadInput for another stage, Unavailable."""
        ...


def reflection_value(reflection: Reflection) -> float:
    """0 to 1, as the module says."""
    if reflection.stage == "verify":
        return 1.0 if reflection.outcome == "success" else 0.0
    if reflection.stage == "refine" and reflection.outcome in _KEEPS_CONFIDENCE:
        return min(1.0, max(0.0, reflection.confidence or 0.0))
    return 0.0


def hourly_scores(reflections: Sequence[Reflection], now_ms: int, hours: int) -> list[float | None]:
    """The mean value of each of the `hours` before `now_ms`, the oldest first; None where nothing was recorded."""
    buckets: list[list[float]] = [[] for _ in range(hours)]
    for each in reflections:
        age_ms = now_ms - each.at_ms
        if 0 <= age_ms < hours * HOUR_MS:
            buckets[hours - 1 - age_ms // HOUR_MS].append(reflection_value(each))
    return [sum(values) / len(values) if values else None for values in buckets]


def stability_report(
    reflections: Sequence[Reflection], spans: Sequence[Span], now_ms: int, rules: StabilityRules
) -> StabilityReport:
    """Score, sample and criteria at `now_ms`. What lies outside the window does not matter."""
    hours = hourly_scores(reflections, now_ms, rules.window_hours)
    begin_ms = now_ms - rules.window_hours * HOUR_MS
    sample = sum(1 for each in reflections if begin_ms < each.at_ms <= now_ms)
    score = sum(hour or 0.0 for hour in hours) / len(hours)
    criteria = [
        _score_criterion(score, hours, rules),
        _sample_criterion(sample, rules),
        *(_presence(name, spans, begin_ms, now_ms) for name in (*rules.online_roles, INITIATIVE)),
    ]
    return StabilityReport(
        score=score,
        sample=sample,
        minimum_sample=rules.minimum_sample,
        score_needed=rules.score_at_least,
        window_hours=rules.window_hours,
        hours=hours,
        criteria=criteria,
        self_aware=all(each.met for each in criteria),
    )


def _score_criterion(score: float, hours: Sequence[float | None], rules: StabilityRules) -> Criterion:
    empty = hours.count(None)
    gaps = f"; {empty} of {len(hours)} hours without a result count as 0" if empty else ""
    return Criterion(
        name="score",
        met=score >= rules.score_at_least,
        why=f"{score:.3f} over {rules.window_hours} h, {rules.score_at_least:g} is needed{gaps}",
    )


def _sample_criterion(sample: int, rules: StabilityRules) -> Criterion:
    met = sample >= rules.minimum_sample
    return Criterion(
        name="sample", met=met, why=f"{sample} results of Verify and Refine, {rules.minimum_sample} are needed"
    )


def _presence(name: str, spans: Sequence[Span], begin_ms: int, now_ms: int) -> Criterion:
    """Whether one span of `name` covers the whole window. The last sign of it may be as old as its gap allows."""
    what = "the initiative loop ran" if name == INITIATIVE else f"{name} was online"
    own = [span for span in spans if span.name == name]
    if not own:
        return Criterion(name=name, met=False, why="no sign of it is recorded")
    last = max(own, key=lambda span: (span.until_ms, span.since_ms))
    if last.ended or now_ms - last.until_ms > last.gap_ms:
        why = f": {last.ended}" if last.ended else ""
        return Criterion(name=name, met=False, why=f"{what} last {_hours(now_ms - last.until_ms)} ago{why}")
    if last.since_ms > begin_ms:
        before = max((span for span in own if span is not last), key=lambda span: span.until_ms, default=None)
        why = f", after: {before.ended}" if before is not None and before.ended else ""
        return Criterion(
            name=name, met=False, why=f"{what} without a break for only {_hours(now_ms - last.since_ms)}{why}"
        )
    return Criterion(name=name, met=True, why=f"{what} all the time")


def _hours(milliseconds: int) -> str:
    minutes = max(0, milliseconds) // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
