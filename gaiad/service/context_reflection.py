"""Reflection on the council's turns (CONTEXT, the meta-review agent): rules find faults; Lite writes the advice and
Prime accepts it, or without models that can it is a fixed sentence.

What went wrong in the last turns becomes a review. Its advice goes into the prompts of the roles it names, and what
came of it is counted at the next reflection.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from council.execute_review import read_review, review_form
from council.ports import Ask, Speaker
from council.roles import Role
from council.stages import Form
from gaiad.base.clock import Clock, moment_of, to_epoch_ms, to_iso
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.context.advice import LONGEST, Outcomes, agent_at
from gaiad.ledger.turn_log import RUNNING, TurnLog
from gaiad.models.probe import Duty
from gaiad.service.context import RULES, ContextService
from gaiad.wire.context import Critique, MetaReviewStorage, ResearchOverview
from gaiad.wire.council import TurnRecord
from prompts.packet import WorkItem

Able = Callable[[Role, Duty], bool]
"""Whether a role's model has shown that it can do a duty."""
_WRITER: Role = "lite"
_REVIEWER: Role = "prime"
_TOKENS = 64
_WAIT_S = 60.0
_log = get_logger("gaiad.context")
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


def frequent(found: Found) -> dict[str, list[tuple[str, str]]]:
    """For each agent its faults that are frequent, the most frequent first. Pure."""
    often = {
        agent: [fault for fault, count in faults.most_common() if count >= _OFTEN * found.outcomes[agent].number]
        for agent, faults in found.faults.items()
    }
    return {agent: faults for agent, faults in often.items() if faults}


def review_of(found: Found, advice: Mapping[str, list[str]], turns: int, iteration: int, at: str) -> MetaReviewStorage:
    """The review of frequent faults, with `advice` for each agent. Pure."""
    often = frequent(found)
    written = sum(text not in RULES.values() for texts in advice.values() for text in texts)
    by = f"; advice written by Lite and accepted by Prime: {written}" if written else ""
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
            agent_feedback=dict(advice),
            iteration_improvements={},
        ),
        research_overview=ResearchOverview(
            synthesis=f"{turns} turns of the council, judged by rules{by}", research_areas=[], next_priorities=[]
        ),
    )


class AdviceWriter:
    """Asks behind what people wait for."""

    def __init__(self, speaker: Speaker, able: Able) -> None:
        self._speaker = speaker
        self._able = able

    async def write(self, fault: str, rule: str, call: RequestContext) -> str:
        """Advice against a fault that was seen (in words): Lite's when Prime accepts it, else `rule`."""
        if not (self._able(_WRITER, "plan") and self._able(_REVIEWER, "verify")):
            return rule
        seen = WorkItem("FAULT", fault, "")
        try:
            text = await self._say(_WRITER, "advice", "What to do about the fault.", (seen,), Form(), call)
            advice = next((line for line in map(str.strip, text.splitlines()) if line), "")[:LONGEST]
            if not advice:
                return rule
            given = (seen, WorkItem("ADVICE", advice, _WRITER))
            asked = "Whether the quoted advice may be given."
            review = read_review(await self._say(_REVIEWER, "advice_review", asked, given, review_form(_TOKENS), call))
        except Cancelled:
            raise
        except (GaiadError, TimeoutError) as error:
            _log.info("advice_by_rule", reason=str(error))
            return rule
        return advice if review.verdict == "accept" else rule

    async def _say(
        self, role: Role, key: str, subject: str, work: tuple[WorkItem, ...], form: Form, call: RequestContext
    ) -> str:
        ask = Ask(role=role, task_instruction=key, subject=subject, work=work, form=form, max_tokens=_TOKENS)
        async with asyncio.timeout(_WAIT_S):
            return (await self._speaker.say(ask, call)).text


class ContextReflection:
    """Told of every turn that ended; every EVERY turns it reflects, behind what people wait for."""

    def __init__(self, context: ContextService, turn_log: TurnLog, clock: Clock, writer: AdviceWriter) -> None:
        self._context = context
        self._writer = writer
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
        advice = {agent: await self._advice(found, agent, faults, call) for agent, faults in frequent(found).items()}
        if advice:
            await self._context.add(review_of(found, advice, len(records), iteration, at), call, found.outcomes)

    async def _advice(
        self, found: Found, agent: str, faults: Sequence[tuple[str, str]], call: RequestContext
    ) -> list[str]:
        texts = []
        for stage, verdict in faults:
            times, of = found.faults[agent][stage, verdict], found.outcomes[agent].number
            seen = f"In {times} of {of} turns, {agent}: {'the text was' if stage == 'any' else stage} {verdict}."
            texts.append(await self._writer.write(seen, RULES[stage, verdict], call))
        return texts

    async def wait(self) -> None:
        """Until no reflection is under way."""
        await self._tasks.wait()

    async def stop(self) -> None:
        """Stop what runs; the next turns are reflected on."""
        await self._tasks.stop()
