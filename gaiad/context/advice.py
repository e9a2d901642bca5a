"""What reviews advise an agent, kept with version, source and effect (CONTEXT, Feedback Propagation).

The advice of a stored review is active from then on. Outcomes (0 to 1, more is better) are counted before and since: an
agent's confidence scores, or what its owner counts. Advice that does not help is retired; a person may strike any.
"""

import math
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import Conflict, NotFound
from gaiad.context.records import texts_in
from gaiad.wire.context import MetaReviewStorage
from gaiad.wire.context_reviews import AdviceEffect

ACTIVE, LONGEST = 3, 200
"""Pieces of advice for an agent at once, and characters of one."""
ENOUGH = 10
"""Outcomes since the advice from which on it is judged."""
_Z = 1.96  # 95 %


class Outcomes(NamedTuple):
    """How many, and the sum of their values."""

    number: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.number if self.number else 0.0


def agent_at(role: str, stage: str) -> str:
    """The name under which a role of the council is advised at one stage only: a planner's advice is no good for its
    answers.
    """
    return f"{role}/{stage}"


def wilson(found: Outcomes) -> tuple[float, float]:
    """Where the mean of values between 0 and 1 is, with 95 % confidence: Wilson's interval, exact for 0 and 1 alone and
    wider than need be for values between.
    """
    if not found.number:
        return 0.0, 1.0
    n, p, z2 = found.number, found.mean, _Z * _Z
    centre, half = (p + z2 / (2 * n)) / (1 + z2 / n), _Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def difference(before: Outcomes, after: Outcomes) -> tuple[float, float, float]:
    """By how much the mean rose, and the interval of it (Newcombe)."""
    (low_b, high_b), (low_a, high_a) = wilson(before), wilson(after)
    rise = after.mean - before.mean
    down = math.hypot(after.mean - low_a, high_b - before.mean)
    up = math.hypot(high_a - after.mean, before.mean - low_b)
    return rise, max(-1.0, rise - down), min(1.0, rise + up)


def outcomes_of(connection: sqlite3.Connection, agent: str, first: int, last: int) -> Outcomes:
    """An agent's confidence scores in these iterations, from kept sums."""
    query = (
        "SELECT coalesce(sum(outputs), 0), coalesce(sum(confidence), 0) FROM context_effectiveness"
        " WHERE agent = ? AND iteration BETWEEN ? AND ?"
    )
    return Outcomes(*connection.execute(query, (agent, first, last)).fetchone())


def take_up(
    connection: sqlite3.Connection,
    review: MetaReviewStorage,
    record: int,
    now_ms: int,
    counted: Mapping[str, Outcomes],
) -> None:
    """Make a review's advice active, within the transaction that stores it. What is active or struck already is not
    given again; the oldest beyond ACTIVE are retired. `counted` are outcomes before it of agents that have other ones
    than confidence scores.
    """
    for agent, given in review.critique.agent_feedback.items():
        known = connection.execute(
            "SELECT text, state, version FROM context_advice WHERE agent = ?", (agent,)
        ).fetchall()
        passed = {text for text, state, _ in known if state != "retired"}
        version = max((one for *_, one in known), default=0)
        before = counted[agent] if agent in counted else outcomes_of(connection, agent, 1, review.iteration_number)
        lines = [line for text in texts_in(given) if (line := " ".join(text.split())[:LONGEST])]
        for text in dict.fromkeys(line for line in lines if line not in passed):
            version += 1
            connection.execute(
                "INSERT INTO context_advice (agent, version, text, review, iteration, state, given_ms, counted,"
                " before_n, before_sum) VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?, ?)",
                (agent, version, text, record, review.iteration_number, now_ms, agent in counted, *before),
            )
        active = "SELECT number FROM context_advice WHERE agent = ? AND state = 'active' ORDER BY number DESC"
        for (number,) in connection.execute(f"{active} LIMIT -1 OFFSET {ACTIVE}", (agent,)).fetchall():
            _end(connection, number, "retired", "newer advice took its place", now_ms)


def judge(connection: sqlite3.Connection, now_ms: int, counted: Mapping[str, Outcomes], since_ms: int = 0) -> None:
    """Count outcomes since each active piece, and retire those that do not help. `counted` are the new ones since
    `since_ms` of agents that have other ones than confidence scores; only advice given before it gets them.
    """
    rows = connection.execute(
        "SELECT number, agent, iteration, given_ms, counted, before_n, before_sum, after_n, after_sum"
        " FROM context_advice WHERE state = 'active'"
    ).fetchall()
    for number, agent, iteration, given_ms, by_owner, before_n, before_sum, after_n, after_sum in rows:
        before, after = Outcomes(before_n, before_sum), Outcomes(after_n, after_sum)
        if not by_owner:
            after = outcomes_of(connection, agent, iteration + 1, 1 << 53)
        elif agent in counted and given_ms <= since_ms:
            new = counted[agent]
            after = Outcomes(after.number + new.number, after.total + new.total)
        connection.execute("UPDATE context_advice SET after_n = ?, after_sum = ? WHERE number = ?", (*after, number))
        if after.number >= ENOUGH and before.number and after.mean <= before.mean:
            why = f"it did not help: {before.mean:.2f} before, {after.mean:.2f} in {after.number} since"
            _end(connection, number, "retired", why, now_ms)


def active_advice(connection: sqlite3.Connection) -> dict[str, list[tuple[int, str, str]]]:
    """For each agent its advice: number, text, and where it is from, version and review."""
    rows = connection.execute(
        "SELECT a.agent, a.number, a.text, a.version, r.id FROM context_advice AS a JOIN context_records AS r"
        " ON r.number = a.review WHERE state = 'active' ORDER BY a.number"
    )
    found: dict[str, list[tuple[int, str, str]]] = {}
    for agent, number, text, version, review in rows:
        found.setdefault(agent, []).append((number, text, f"v{version} {review}"))
    return found


def effects(connection: sqlite3.Connection, agent: str, limit: int) -> list[AdviceEffect]:
    """The newest advice, with what came of it; of one agent when it is named."""
    rows = connection.execute(
        "SELECT a.*, r.id FROM context_advice AS a JOIN context_records AS r ON r.number = a.review"
        " WHERE (?1 = '' OR a.agent = ?1) ORDER BY a.number DESC LIMIT ?2",
        (agent, limit),
    )
    return [_effect(connection, row) for row in rows.fetchall()]


def _effect(connection: sqlite3.Connection, row: tuple[Any, ...]) -> AdviceEffect:
    number, agent, version, text, _, iteration, state, why, given_ms, ended_ms, by_owner, *sums, review = row
    before, after = Outcomes(*sums[:2]), Outcomes(*sums[2:])
    if state == "active" and not by_owner:
        after = outcomes_of(connection, agent, iteration + 1, 1 << 53)
    rise, low, high = difference(before, after)
    return AdviceEffect(
        number=number,
        agent_type=agent,
        version=version,
        text=text,
        review_id=review,
        iteration=iteration,
        state=state,
        why=why,
        given_at=iso_of_ms(given_ms),
        ended_at=iso_of_ms(ended_ms) if ended_ms else "",
        outcomes_before=before.number,
        mean_before=round(before.mean, 4),
        outcomes_after=after.number,
        mean_after=round(after.mean, 4),
        effect=round(rise, 4) if before.number and after.number else None,
        interval=(round(low, 4), round(high, 4)) if before.number and after.number else None,
    )


def strike(connection: sqlite3.Connection, number: int, now_ms: int) -> AdviceEffect:
    """A person takes advice back for good. Raises NotFound, Conflict when it is not active."""
    row = connection.execute("SELECT state, agent FROM context_advice WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise NotFound(f"there is no advice {number}; `gaiad context feedback` lists it")
    if row[0] != "active":
        raise Conflict(f"advice {number} is {row[0]} already")
    _end(connection, number, "struck", "struck by a person", now_ms)
    return next(one for one in effects(connection, row[1], 1000) if one.number == number)


def _end(connection: sqlite3.Connection, number: int, state: str, why: str, now_ms: int) -> None:
    connection.execute(
        "UPDATE context_advice SET state = ?, why = ?, ended_ms = ? WHERE number = ?", (state, why, now_ms, number)
    )
