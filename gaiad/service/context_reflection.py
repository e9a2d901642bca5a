"""Reflection on the council's turns (CONTEXT, the meta-review agent), by rules.

What went wrong in the last turns becomes a review. Its advice goes into the prompts of the roles it names, and what
came of it is counted at the next reflection.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from gaiad.base.clock import Clock, moment_of, to_epoch_ms, to_iso
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.context.advice import Outcomes, agent_at
from gaiad.ledger.turn_log import RUNNING, TurnLog
from gaiad.service.context import RULES, ContextService
from gaiad.wire.context import Critique, MetaReviewStorage, ResearchOverview
from gaiad.wire.council import TurnRecord

EVERY = 10
"""Turns of a tenant from one reflection to the next."""
_OFTEN = 0.2
"""Share of a role's turns from which on a fault is advised against."""


class Found(NamedTuple):
    """For each role at each of its stages (`agent_at`) its outcomes, 1 for a turn without a fault, and how many turns
    had which.
    """

    outcomes: dict[str, Outcomes]
    faults: dict[str, Counter[tuple[str, str]]]


def look_at(turns: Sequence[TurnRecord]) -> Found:
    """What went wrong in these turns, by the role and stage that can better it. Pure."""
    counts, good = Counter[str](), Counter[str]()
    faults: dict[str, Counter[tuple[str, str]]] = {}
    for turn in turns:
        actor = next((agent_at(row.role, row.stage) for row in turn.stages if row.stage == "act"), "")
        bad: dict[str, set[tuple[str, str]]] = {agent_at(row.role, row.stage): set() for row in turn.stages}
        for row in turn.stages:
            fault = ("any", "lost") if row.verdict == "lost" else (row.stage, row.verdict)
            if fault in RULES:
                mine = agent_at(row.role, row.stage)
                bad[actor if fault == ("verify", "fail") and actor else mine].add(fault)
        if actor and turn.rating == "down":
            bad[actor].add(("act", "thumbs down"))
        elif actor and turn.rating == "up":  # the person's word counts more than a verdict
            bad[actor].discard(("verify", "fail"))
        for agent, found in bad.items():
            counts[agent] += 1
            good[agent] += not found
            faults.setdefault(agent, Counter()).update(found)
    return Found({agent: Outcomes(counts[agent], good[agent]) for agent in counts}, faults)


def review_of(found: Found, turns: int, iteration: int, at: str) -> MetaReviewStorage | None:
    """The review of faults that are frequent; None when there are none. Pure."""
    often = {
        agent: [fault for fault, count in faults.most_common() if count >= _OFTEN * found.outcomes[agent].number]
        for agent, faults in found.faults.items()
    }
    if not any(often.values()):
        return None
    patterns: list[str | dict[str, Any]] = [
        {"pattern": f"{agent}: {stage} {verdict}", "frequency": found.faults[agent][stage, verdict], "type": "fault"}
        for agent, faults in often.items()
        for stage, verdict in faults
    ]
    return MetaReviewStorage(
        iteration_number=iteration,
        timestamp=at,
        critique=Critique(
            common_patterns=patterns,
            agent_feedback={agent: [RULES[fault] for fault in faults] for agent, faults in often.items() if faults},
            iteration_improvements={},
        ),
        research_overview=ResearchOverview(
            synthesis=f"{turns} turns of the council, judged by rules", research_areas=[], next_priorities=[]
        ),
    )


class ContextReflection:
    """Told of every turn that ended; every EVERY turns it reflects, behind what people wait for."""

    def __init__(self, context: ContextService, turn_log: TurnLog, clock: Clock) -> None:
        self._context = context
        self._turn_log = turn_log
        self._clock = clock
        self._ended = Counter[str]()
        self._tasks = TaskGroup("reflection")

    def turn_ended(self, tenant: str) -> None:
        """One more turn of the tenant."""
        self._ended[tenant] += 1
        if self._ended[tenant] >= EVERY:
            turns, self._ended[tenant] = self._ended[tenant], 0
            self._tasks.start(f"reflect on {tenant}", self.reflect(tenant, turns))

    async def reflect(self, tenant: str, turns: int) -> None:
        """On the last turns: judge earlier advice, then give new. Raises Unavailable, QuotaReached."""
        call = RequestContext(tenant, priority=Priority.BACKGROUND)
        records = [one for one in await self._turn_log.newest(tenant, turns) if one.status != RUNNING and one.stages]
        if not records:
            return
        found = look_at(records)
        since_ms = min(to_epoch_ms(moment_of(one.started_at)) for one in records)
        await self._context.judge_advice(found.outcomes, since_ms, call)
        iteration, at = await self._context.store.iteration(call), to_iso(self._clock.now())
        if (review := review_of(found, len(records), iteration, at)) is not None:
            await self._context.add(review, call, found.outcomes)

    async def wait(self) -> None:
        """Until no reflection is under way."""
        await self._tasks.wait()

    async def stop(self) -> None:
        """Stop what runs; the next turns are reflected on."""
        await self._tasks.stop()
