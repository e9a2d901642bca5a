"""What self-reflection is judged by, recorded: results of Verify and Refine, and who was there without a break.

A span grows with every sign of life, so that a crash or a stopped daemon shows as the gap it is.
"""

import asyncio
import sqlite3
from pathlib import Path

from council.governance.database import read_offline
from council.governance.rules import StabilityRules
from council.roles import CouncilStage
from council.stability import HOUR_MS, INITIATIVE, Reflection, Span, stability_report
from gaiad.clock import Clock, to_epoch_ms
from gaiad.errors import BadInput
from gaiad.governance_schemas import StabilityReport
from gaiad.store.file import DatabaseFile

_STAGES = ("refine", "verify")


class ReflectionTable:
    """The tables `reflections` and `spans` of governance.db. `initiative_every_s` is how often that loop runs."""

    def __init__(self, file: DatabaseFile, clock: Clock, rules: StabilityRules, initiative_every_s: float) -> None:
        self._file = file
        self._clock = clock
        self._rules = rules
        self._gaps_ms = dict.fromkeys(rules.online_roles, int(rules.beat_gap_s * 1000))
        self._initiative_gap_ms = int((2 * initiative_every_s + rules.initiative_slack_s) * 1000)

    async def record(self, stage: CouncilStage, outcome: str, confidence: float | None) -> None:
        """A Verify or Refine of a turn ended so. Raises BadInput for another stage, Unavailable."""
        if stage not in _STAGES:
            raise BadInput(f"stage {stage!r} is no self-reflection; record {' and '.join(_STAGES)}")
        row = (self._now_ms(), str(stage), outcome, confidence)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO reflections VALUES (?, ?, ?, ?)", row)
            connection.execute("DELETE FROM reflections WHERE at_ms < ?", (row[0] - self._kept_ms,))

        await asyncio.to_thread(self._file.write, insert)

    async def beat(self, role: str) -> None:
        """A role showed that it lives. Roles whose being online is no criterion are passed over."""
        if role in self._gaps_ms:
            await self._sign(role, self._gaps_ms[role])

    async def initiative_looked(self, failure: str) -> None:
        """The initiative loop ran, whether or not it took something up; `failure` says how it failed, "" when not.

        After a failure being active without failure begins anew.
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

    return read_offline(home, work) or stability_report([], [], now_ms, rules)


def _report(connection: sqlite3.Connection, now_ms: int, rules: StabilityRules) -> StabilityReport:
    begin_ms = now_ms - rules.window_hours * HOUR_MS
    reflections = connection.execute(
        "SELECT at_ms, stage, outcome, confidence FROM reflections WHERE at_ms > ? AND at_ms <= ?", (begin_ms, now_ms)
    )
    spans = connection.execute("SELECT name, since_ms, until_ms, gap_ms, ended FROM spans")
    return stability_report(
        [Reflection(at_ms=row[0], stage=row[1], outcome=row[2], confidence=row[3]) for row in reflections],
        [Span(name=row[0], since_ms=row[1], until_ms=row[2], gap_ms=row[3], ended=row[4]) for row in spans],
        now_ms,
        rules,
    )
