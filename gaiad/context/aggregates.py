"""Sums that are kept as records come: per iteration, per agent and strategy, per pattern; trends are read from them."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gaiad.base.clock import iso_of_ms
from gaiad.context.hypotheses import Named, count_named, named_in
from gaiad.context.records import Described
from gaiad.wire.context import AgentOutput, ContextRecord, Direction, MetaReviewStorage, RecordKind
from gaiad.wire.context_reviews import EffectivenessTrend, IterationTotals, PatternTrend, TrendQuery, Trends

_LONGEST = 200
_PATTERN_KEYS = ("name", "pattern", "description")


class Counted(NamedTuple):
    """What of a record goes into the sums. `patterns` are a review's, with how often it saw each."""

    named: Named | None = None
    strategy: str = ""
    confidence: float = 0.0
    consumed: float = 0.0
    patterns: Mapping[str, int] = {}


def counted(record: ContextRecord) -> Counted:
    """Pure; done before the transaction."""
    match record:
        case AgentOutput():
            results, strategy = record.results, record.results.metadata.get("strategy")
            return Counted(
                named=named_in([results.primary_output, results.metadata]),
                strategy=strategy[:_LONGEST] if isinstance(strategy, str) else "",
                confidence=results.confidence_score,
                consumed=results.resource_consumed,
            )
        case MetaReviewStorage():
            return Counted(patterns=_patterns(record.critique.common_patterns))
        case _:
            return Counted()


def _patterns(given: Iterable[str | dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pattern in given:
        count = 1
        if isinstance(pattern, dict):
            names = (pattern[key] for key in _PATTERN_KEYS if isinstance(pattern.get(key), str))
            seen = pattern.get("frequency", pattern.get("count"))
            count = seen if isinstance(seen, int) and 0 < seen < 1 << 31 else 1
            name = next(names, "")
        else:
            name = pattern
        if name := " ".join(name.split())[:_LONGEST]:
            found[name] = found.get(name, 0) + count
    return found


def count(connection: sqlite3.Connection, new: Described, what: Counted, number: int, iteration: int) -> None:
    """Add a new record to the sums, within the transaction that stores it."""
    columns = tuple(int(new.kind == kind) for kind in ("state", "output", "review"))
    connection.execute(
        "INSERT INTO context_iterations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (iteration) DO UPDATE SET"
        " states = states + ?2, outputs = outputs + ?3, reviews = reviews + ?4, bytes = bytes + ?5,"
        " first_ms = min(first_ms, ?6), last_ms = max(last_ms, ?6)",
        (iteration, *columns, len(new.body.content), new.at_ms),
    )
    if what.named is not None:
        count_named(connection, what.named, number, new.at_ms)
        connection.execute(
            "INSERT INTO context_effectiveness VALUES (?1, ?2, ?3, 1, ?4, ?5) ON CONFLICT DO UPDATE SET"
            " outputs = outputs + 1, confidence = confidence + ?4, consumed = consumed + ?5",
            (iteration, new.agent, what.strategy, what.confidence, what.consumed),
        )
    if new.kind == "review":
        connection.execute("DELETE FROM context_patterns WHERE iteration = ?", (iteration,))
        rows = [(name, iteration, times) for name, times in what.patterns.items()]
        connection.executemany("INSERT INTO context_patterns VALUES (?, ?, ?)", rows)


def uncount(
    connection: sqlite3.Connection, kind: RecordKind, agent: str, what: Counted, iteration: int, size: int
) -> None:
    """Take a deleted record of `size` bytes of JSON out of the sums (a review's patterns with it)."""
    columns = tuple(int(kind == one) for one in ("state", "output", "review"))
    connection.execute(
        "UPDATE context_iterations SET states = states - ?2, outputs = outputs - ?3, reviews = reviews - ?4,"
        " bytes = bytes - ?5 WHERE iteration = ?1",
        (iteration, *columns, size),
    )
    connection.execute("DELETE FROM context_iterations WHERE states + outputs + reviews = 0")
    if what.named is not None:
        connection.execute(
            "UPDATE context_effectiveness SET outputs = outputs - 1, confidence = confidence - ?4,"
            " consumed = consumed - ?5 WHERE iteration = ?1 AND agent = ?2 AND strategy = ?3",
            (iteration, agent, what.strategy, what.confidence, what.consumed),
        )
        connection.execute("DELETE FROM context_effectiveness WHERE outputs = 0")
    if kind == "review":
        connection.execute("DELETE FROM context_patterns WHERE iteration = ?", (iteration,))


# ------------------------------------------------------------------------------------------------------------- trends


def trends(connection: sqlite3.Connection, query: TrendQuery) -> Trends:
    """Over the last iterations that something was stored in."""
    found = connection.execute(
        "SELECT iteration, states, outputs, reviews, bytes, first_ms, last_ms FROM context_iterations"
        " ORDER BY iteration DESC LIMIT ?",
        (query.iterations,),
    ).fetchall()
    totals = [
        IterationTotals(
            iteration=iteration,
            states=states,
            outputs=outputs,
            reviews=reviews,
            bytes=size,
            first_at=iso_of_ms(first_ms),
            last_at=iso_of_ms(last_ms),
        )
        for iteration, states, outputs, reviews, size, first_ms, last_ms in reversed(found)
    ]
    if not totals:
        return Trends(iterations=[], patterns=[], effectiveness=[])
    first, last = totals[0].iteration, totals[-1].iteration
    return Trends(
        iterations=totals,
        patterns=pattern_trends(connection, first, last),
        effectiveness=effectiveness(connection, first, last, query.agent_type),
    )


def pattern_trends(connection: sqlite3.Connection, first: int, last: int) -> list[PatternTrend]:
    """Patterns of reviews in these iterations, the most frequent first."""
    query = "SELECT pattern, iteration, count FROM context_patterns WHERE iteration BETWEEN ? AND ? ORDER BY iteration"
    by_name: dict[str, dict[int, int]] = {}
    newest = 0
    for name, iteration, times in connection.execute(query, (first, last)):
        by_name.setdefault(name, {})[iteration] = times
        newest = max(newest, iteration)
    ordered = sorted(by_name.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [
        PatternTrend(
            pattern=name,
            counts={str(iteration): times for iteration, times in counts.items()},
            direction=direction(counts, newest),
        )
        for name, counts in ordered
    ]


def direction(counts: Mapping[int, int], newest: int) -> Direction:
    """Where a pattern is going: the newest review against the mean since the pattern first came up."""
    now, first = counts.get(newest, 0), min(counts)
    if first == newest:
        return "new"
    if not now:
        return "gone"
    before = sum(times for iteration, times in counts.items() if iteration < newest) / (newest - first)
    return "rising" if now > before else "falling" if now < before else "steady"


def effectiveness(connection: sqlite3.Connection, first: int, last: int, agent: str = "") -> list[EffectivenessTrend]:
    """Each agent's strategies in these iterations, the highest mean confidence first."""
    rows = connection.execute(
        "SELECT agent, strategy, iteration, outputs, confidence, consumed FROM context_effectiveness"
        " WHERE iteration BETWEEN ?1 AND ?2 AND (?3 = '' OR agent = ?3) ORDER BY iteration",
        (first, last, agent),
    )
    by_name: dict[tuple[str, str], list[tuple[int, int, float, float]]] = {}
    for name, strategy, *sums in rows:
        by_name.setdefault((name, strategy), []).append(tuple(sums))
    found = [_trend(*name, sums) for name, sums in by_name.items()]
    return sorted(found, key=lambda one: (-one.mean_confidence, one.agent_type, one.strategy))


def _trend(agent: str, strategy: str, sums: list[tuple[int, int, float, float]]) -> EffectivenessTrend:
    outputs = sum(count for _, count, _, _ in sums)
    means = {iteration: confidence / count for iteration, count, confidence, _ in sums}
    return EffectivenessTrend(
        agent_type=agent,
        strategy=strategy,
        outputs=outputs,
        mean_confidence=sum(confidence for _, _, confidence, _ in sums) / outputs,
        resource_consumed=sum(consumed for _, _, _, consumed in sums),
        confidence_by_iteration={str(iteration): round(mean, 6) for iteration, mean in means.items()},
        improvement=round(slope(means), 6),
    )


def slope(values: Mapping[int, float]) -> float:
    """Least squares; 0 for fewer than two points."""
    if len(values) < 2:
        return 0.0
    x_mean, y_mean = sum(values) / len(values), sum(values.values()) / len(values)
    spread = sum((x - x_mean) ** 2 for x in values)
    return sum((x - x_mean) * (y - y_mean) for x, y in values.items()) / spread
