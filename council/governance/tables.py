"""What self-reflection is judged by, recorded: results of Verify and Refine, and who was there without a break.

A span grows with every sign of life, so that a crash or a stopped daemon shows as the gap it is. RFCs
are records that are changed as a whole, in one transaction.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from council.governance.rules import StabilityRules
from council.roles import CouncilStage
from gaiad.base.clock import Clock, to_epoch_ms
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import read_state
from gaiad.wire.governance import Criterion, RfcRecord, StabilityReport

INITIATIVE = "initiative"
HOUR_MS = 3_600_000
_KEEPS_CONFIDENCE = ("ok", "low_confidence")


class StageReflection(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded result of Verify or Refine; `at_ms` is UTC milliseconds since 1970."""

    at_ms: int
    stage: str
    outcome: str
    confidence: float | None = None


class PresenceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """`name` (a role or the initiative loop) was there without a break; a sign of it may be `gap_ms` old at most.

    `ended` says why it broke off, "" while it goes on or when it only fell silent.
    """

    name: str
    since_ms: int
    until_ms: int
    gap_ms: int
    ended: str = ""


def reflection_value(reflection: StageReflection) -> float:
    """0 to 1, as the module says."""
    if reflection.stage == "verify":
        return 1.0 if reflection.outcome == "success" else 0.0
    if reflection.stage == "refine" and reflection.outcome in _KEEPS_CONFIDENCE:
        return min(1.0, max(0.0, reflection.confidence or 0.0))
    return 0.0


def hourly_scores(reflections: Sequence[StageReflection], now_ms: int, hours: int) -> list[float | None]:
    """The mean value of each of the `hours` before `now_ms`, the oldest first; None where nothing was recorded."""
    buckets: list[list[float]] = [[] for _ in range(hours)]
    for each in reflections:
        age_ms = now_ms - each.at_ms
        if 0 <= age_ms < hours * HOUR_MS:
            buckets[hours - 1 - age_ms // HOUR_MS].append(reflection_value(each))
    return [sum(values) / len(values) if values else None for values in buckets]


def stability_report(
    reflections: Sequence[StageReflection], spans: Sequence[PresenceSpan], now_ms: int, rules: StabilityRules
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


def _presence(name: str, spans: Sequence[PresenceSpan], begin_ms: int, now_ms: int) -> Criterion:
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


_STAGES = ("refine", "verify")


class ReflectionTable:
    """The tables `reflections` and `spans` of state.db. `initiative_every_s` is how often that loop runs."""

    def __init__(self, file: DatabaseFile, clock: Clock, rules: StabilityRules, initiative_every_s: float) -> None:
        self._file = file
        self._clock = clock
        self._rules = rules
        self._gaps_ms = dict.fromkeys(rules.online_roles, int(rules.beat_gap_s * 1000))
        self._initiative_gap_ms = int((2 * initiative_every_s + rules.initiative_slack_s) * 1000)

    async def record(self, stage: CouncilStage, outcome: str, confidence: float | None) -> None:
        """A Verify or Refine of a turn ended so. Raises BadInput for another stage, Unavailable."""
        if stage not in _STAGES:
            raise BadInput(f"stage {stage!r} is not a self-reflection; record {' and '.join(_STAGES)}")
        row = (self._now_ms(), str(stage), outcome, confidence)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO reflections VALUES (?, ?, ?, ?)", row)
            connection.execute("DELETE FROM reflections WHERE at_ms < ?", (row[0] - self._kept_ms,))

        await asyncio.to_thread(self._file.write, insert)

    async def beat(self, role: str) -> None:
        """A role showed that it lives. Roles whose being online is not a criterion are passed over."""
        if role in self._gaps_ms:
            await self._sign(role, self._gaps_ms[role])

    async def initiative_looked(self, failure: str) -> None:
        """The initiative loop ran, whether or not it took something up; `failure` says how it failed, "" when not.

        After a failure being active without failure begins again.
        """
        if failure:
            await self._ended(INITIATIVE, failure)
        else:
            await self._sign(INITIATIVE, self._initiative_gap_ms)

    async def _ended(self, name: str, why: str) -> None:
        def end(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE spans SET ended = ? WHERE name = ? AND ended = ''", (why, name))

        await asyncio.to_thread(self._file.write, end)

    async def report(self) -> StabilityReport:
        """Score and criteria now."""
        return await self._file.aread(lambda connection: _report(connection, self._now_ms(), self._rules))

    async def _sign(self, name: str, gap_ms: int) -> None:
        now_ms = self._now_ms()

        def extend(connection: sqlite3.Connection) -> None:
            grown = connection.execute(
                "UPDATE spans SET until_ms = max(until_ms, ?), gap_ms = ?"
                " WHERE name = ? AND ended = '' AND until_ms >= ?",
                (now_ms, gap_ms, name, now_ms - gap_ms),
            ).rowcount
            if not grown:
                connection.execute("UPDATE spans SET ended = 'silent' WHERE name = ? AND ended = ''", (name,))
                connection.execute("INSERT INTO spans VALUES (?, ?, ?, ?, '')", (name, now_ms, now_ms, gap_ms))
                connection.execute("DELETE FROM spans WHERE until_ms < ?", (now_ms - self._kept_ms,))

        await asyncio.to_thread(self._file.write, extend)

    def _now_ms(self) -> int:
        return to_epoch_ms(self._clock.now())

    @property
    def _kept_ms(self) -> int:
        return self._rules.keep_days * 24 * HOUR_MS


def read_stability(home: Path, now_ms: int, rules: StabilityRules, *, last_seen: bool = False) -> StabilityReport:
    """The report from a home's files, whether a daemon runs or not; with `last_seen` as it was at its last sign.

    Nothing is recorded where there is no file yet. Raises Conflict for one that is newer, foreign or damaged.
    """

    def work(connection: sqlite3.Connection) -> StabilityReport:
        at_ms = now_ms
        if last_seen:
            (newest_ms,) = connection.execute("SELECT max(until_ms) FROM spans").fetchone()
            at_ms = min(now_ms, newest_ms or now_ms)
        return _report(connection, at_ms, rules)

    return read_state(home, work) or stability_report([], [], now_ms, rules)


def _report(connection: sqlite3.Connection, now_ms: int, rules: StabilityRules) -> StabilityReport:
    begin_ms = now_ms - rules.window_hours * HOUR_MS
    reflections = connection.execute(
        "SELECT at_ms, stage, outcome, confidence FROM reflections WHERE at_ms > ? AND at_ms <= ?", (begin_ms, now_ms)
    )
    spans = connection.execute("SELECT name, since_ms, until_ms, gap_ms, ended FROM spans")
    return stability_report(
        [StageReflection(at_ms=row[0], stage=row[1], outcome=row[2], confidence=row[3]) for row in reflections],
        [PresenceSpan(name=row[0], since_ms=row[1], until_ms=row[2], gap_ms=row[3], ended=row[4]) for row in spans],
        now_ms,
        rules,
    )


Change = Callable[[RfcRecord], RfcRecord]


class RfcTable:
    """The table `rfcs` of state.db. Ids sort by time."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    async def add(self, record: RfcRecord) -> None:
        """Keep a new one; durable when this returns."""
        row = (record.rfc_id, short(record.rfc_id), record.state, record.updated_at, _body(record))

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO rfcs VALUES (?, ?, ?, ?, ?)", row)

        await asyncio.to_thread(self._file.write, insert)

    async def change(self, rfc_id: str, change: Change) -> RfcRecord:
        """Put what `change` makes of the record in its place; what `change` raises leaves it as it was."""

        def update(connection: sqlite3.Connection) -> RfcRecord:
            made = change(_one(connection, rfc_id))
            values = (made.state, made.updated_at, _body(made), rfc_id)
            connection.execute("UPDATE rfcs SET state = ?, updated_at = ?, body = ? WHERE rfc_id = ?", values)
            return made

        return await asyncio.to_thread(self._file.write, update)

    async def find(self, name: str) -> RfcRecord:
        """The RFC called `name`: its id, or the eight digits shown. Raises NotFound, BadInput when they fit several."""
        return await self._file.aread(lambda connection: _one(connection, name))

    async def newest(self, limit: int, state: str = "") -> list[RfcRecord]:
        """The last ones, newest first; only those in `state` when it is given."""
        where = "state = ?" if state else "? = ''"

        def select(connection: sqlite3.Connection) -> list[RfcRecord]:
            found = connection.execute(
                f"SELECT body FROM rfcs WHERE {where} ORDER BY rfc_id DESC LIMIT ?", (state, limit)
            )
            return [_decoded(body) for (body,) in found]

        return await self._file.aread(select)


def passed_offline(home: Path, identity_digest: str) -> bool:
    """Whether the council passed this identity in an RFC, read from a home's files. Raises Conflict."""

    def work(connection: sqlite3.Connection) -> bool:
        found = connection.execute("SELECT body FROM rfcs WHERE state IN ('passed', 'merged')")
        return any(_decoded(body).identity_digest == identity_digest for (body,) in found)

    return bool(read_state(home, work))


def _one(connection: sqlite3.Connection, name: str) -> RfcRecord:
    found = connection.execute(
        "SELECT rfc_id, body FROM rfcs WHERE rfc_id = ? OR short_id = ?", (name, name)
    ).fetchall()
    if len(found) > 1:
        choices = ", ".join(row[0] for row in found)
        raise BadInput(f"{name}: {len(found)} RFCs show these digits; name one in full: {choices}")
    if not found:
        raise NotFound(f"no RFC is called {name!r}; `gaiad rfc list` shows them")
    return _decoded(found[0][1])


def _body(record: RfcRecord) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(record, next_steps=[]))


def _decoded(body: bytes) -> RfcRecord:
    try:
        return msgspec.json.decode(body, type=RfcRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Conflict(f"an RFC in state.db cannot be read ({error}); restore the file from a backup") from error
