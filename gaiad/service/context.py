"""What intake may ask of Context Memory. Answers are kept until something is stored that changes them.

One that was read again since it was made is likely to be read once more: it is made again right after the change,
before somebody waits for it (refresh-ahead). One that nobody read again is dropped.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

import gaiad
from gaiad.base.config import Config
from gaiad.base.errors import GaiadError
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.context.advice import Outcomes, agent_at
from gaiad.context.records import SYSTEM, agent_component
from gaiad.context.retrieval import IN_PART
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.service.jobs import JobRun, JobRunner
from gaiad.store.database import Damaged
from gaiad.turn.prompt_factory import Advice
from gaiad.wire.context import (
    Acknowledgement,
    AgentOutput,
    ContextRecord,
    MetaReviewStorage,
    RetrievedState,
    RollbackRequest,
    StateQuery,
    StateUpdate,
    StateVersion,
)
from gaiad.wire.context_keeping import CheckpointRow, CleanupReport, CleanupRequest, RestoredState, TreeReport
from gaiad.wire.context_reviews import AdviceEffect, FeedbackData, ReviewQuery, StrikeRequest, TrendQuery, Trends
from gaiad.wire.status import Job

T = TypeVar("T")
_KEPT, _REFRESHED = 512, 32
"""Answers, and how many of them are made again after one change."""
_Key = tuple[str, str, bytes]  # tenant, kind, query


REVIEWS, OUTPUTS, AGENTS = "reviews", "outputs", "agents"
"""What changes, besides the components `system` and `agent:NAME`; AGENTS is any of these."""
EVERYTHING = None


def depends_on(query: msgspec.Struct) -> Collection[str] | None:
    """What an answer to `query` is made of; EVERYTHING when that is not known more closely."""
    if isinstance(query, ReviewQuery):
        return (REVIEWS,)
    if not isinstance(query, StateQuery) or query.request_type != "partial":
        return EVERYTHING
    sections = {name.strip() for name in query.component.split(",")} if query.component else IN_PART
    agents = agent_component(query.agent_type) if query.agent_type else AGENTS
    return (SYSTEM, agents) if {*sections} <= {*IN_PART} else EVERYTHING


def changed_by(record: ContextRecord) -> Collection[str]:
    """What changes when a record is stored."""
    match record:
        case StateUpdate():
            return (SYSTEM,)
        case MetaReviewStorage():
            return (REVIEWS,)
        case AgentOutput() if record.state_data.internal_state is not None:
            return (OUTPUTS, *component_changed(agent_component(record.agent_type)))
        case _:
            return (OUTPUTS,)


def component_changed(component: str) -> Collection[str]:
    """What changes with the state of a component."""
    return (component,) if component == SYSTEM else (component, AGENTS)


@dataclass
class _Answer:
    value: Any
    make: Callable[[RequestContext], Awaitable[Any]]
    made_of: Collection[str] | None
    reads: int = 0

    def changes_with(self, what: Collection[str] | None) -> bool:
        """Whether it is out of date after this change."""
        return what is None or self.made_of is None or not set(what).isdisjoint(self.made_of)


class ContextAnswers:
    """Counts `context_cache_hits`, `context_cache_misses` and `context_cache_refreshes` in the metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()
        self._changes: dict[str, int] = {}
        self._tasks = TaskGroup("context answers")

    async def get(
        self,
        kind: str,
        query: msgspec.Struct,
        call: RequestContext,
        ask: Callable[..., Awaitable[T]],
        keeps: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """The answer to `query`, from memory where it is kept; `keeps` says which answers are."""
        key = (call.tenant, kind, msgspec.json.encode(query))
        if (known := self._answers.get(key)) is not None:
            self._metrics.count("context_cache_hits")
            known.reads += 1
            self._answers.move_to_end(key)
            return known.value  # type: ignore[no-any-return]
        self._metrics.count("context_cache_misses")

        async def make(call: RequestContext) -> T:
            before = self._changes.get(call.tenant, 0)
            answer = await ask(query, call)
            if keeps(answer) and before == self._changes.get(call.tenant, 0):  # nothing was stored meanwhile
                self._answers[key] = _Answer(answer, make, depends_on(query))
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
            return answer

        return await make(call)

    def changed(self, tenant: str, what: Collection[str] | None = EVERYTHING) -> None:
        """Something was stored: answers of the tenant that are made of it are out of date."""
        self._changes[tenant] = self._changes.get(tenant, 0) + 1
        stale = [key for key, answer in self._answers.items() if key[0] == tenant and answer.changes_with(what)]
        again = [answer for key in reversed(stale) if (answer := self._answers.pop(key)).reads]
        for number, answer in enumerate(again[:_REFRESHED]):
            self._tasks.start(f"refresh {tenant} {number}", self._refresh(tenant, answer))

    async def _refresh(self, tenant: str, answer: _Answer) -> None:
        self._metrics.count("context_cache_refreshes")
        try:
            await answer.make(RequestContext(tenant, priority=Priority.BACKGROUND))
        except GaiadError:
            return  # whoever asks next hears of it

    def clear(self) -> None:
        """Forget all answers: the files were exchanged, or something was deleted."""
        self._changes = {tenant: count + 1 for tenant, count in self._changes.items()}
        self._answers.clear()

    async def close(self) -> None:
        """Stop what is being made again."""
        await self._tasks.stop()


CLEANUP = "context-cleanup"
RULES: Mapping[tuple[str, str], str] = {
    ("plan", "missing"): "Write a numbered list of two to five short steps, and nothing else.",
    ("refine", "missing"): "Write a numbered list of short steps, then `confidence: ` and a number from 0 to 1.",
    ("act", "empty"): "Answer the user's question directly, in one to three sentences.",
    ("act", "thumbs down"): "Answer exactly what was asked; say so when it is not on file.",
    ("act", "interrupted"): "Answer in your own words; do not repeat instructions or earlier text.",
    ("verify", "fail"): "State only what the packets or the plan support; leave out what you cannot show.",
    ("verify", "missing"): "Begin with `success` or `fail`, then one sentence that says why.",
    ("any", "lost"): "Write at most three sentences.",
}
"""gaiad's own advice, by stage and fault. Only this goes into prompts as it is; all other advice is quoted as data."""
_ALERTS = (
    (100.0, "periodic updates are refused: raise context.quota_mib or run `gaiad context cleanup`"),
    (95.0, "at 100 periodic updates are refused: raise context.quota_mib or run `gaiad context cleanup`"),
    (80.0, "see `gaiad context quota`"),
)


class ContextService:
    """The store, its answers kept, and its jobs."""

    def __init__(
        self,
        store: ContextStore,
        upkeep: ContextUpkeep,
        metrics: Metrics,
        runner: JobRunner,
        tenants: Callable[[], list[str]],
        config: Config,
    ) -> None:
        """`tenants` blocks."""
        self.store = store
        self.upkeep = upkeep
        self._runner = runner
        self.use_config(config)
        runner.register(CLEANUP, self._clean_up, at_once=1)
        self._tenants = tenants
        self._metrics = metrics
        self._answers = ContextAnswers(metrics)
        self._advice: dict[str, dict[str, list[tuple[int, str, str]]]] = {}

    def use_config(self, config: Config) -> None:
        """From now on."""
        self._config = config
        self.store.quota_bytes = self.upkeep.quota_bytes = config.context.quota_mib << 20

    def _configuration(self) -> dict[str, Any]:
        """What checkpoints and exports note of the settings."""
        chosen = {"roles": self._config.roles, "context": self._config.context}
        return {"gaiad": gaiad.__version__, **msgspec.to_builtins(chosen)}

    async def add(
        self, record: ContextRecord, call: RequestContext, counted: Mapping[str, Outcomes] = MappingProxyType({})
    ) -> Acknowledgement:
        """Store a record; durable when this returns. A checkpoint or critical update makes a checkpoint.

        Raises BadInput, Forbidden, Unavailable.
        """
        acknowledged = await self.store.add(record, call, counted)
        if isinstance(record, StateUpdate) and record.update_type != "periodic" and not acknowledged.duplicate:
            made = await self.checkpoint(f"{record.update_type} update {acknowledged.id}", call)
            acknowledged = msgspec.structs.replace(acknowledged, checkpoint_id=made.checkpoint_id)
        if not acknowledged.duplicate:
            self._metrics.count(f"context_{acknowledged.kind}s")
            self._changed(call.tenant, changed_by(record))
        return acknowledged

    def _changed(self, tenant: str, what: Collection[str] | None = EVERYTHING) -> None:
        self._answers.changed(tenant, what)
        if what is EVERYTHING or REVIEWS in what:
            self._advice.pop(tenant, None)

    async def advice_for(self, tenant: str, role: str, stage: str) -> list[Advice]:
        """What reviews advise a role of the council, at all its stages and at this one, the newest first."""
        if (known := self._advice.get(tenant)) is None:
            known = await self.store.active_advice(RequestContext(tenant))
            self._advice[tenant] = known
        pieces = sorted(piece for agent in (role, agent_at(role, stage)) for piece in known.get(agent, ()))
        return [Advice(text, source, text in RULES.values()) for _, text, source in reversed(pieces)]

    async def judge_advice(self, counted: Mapping[str, Outcomes], since_ms: int, call: RequestContext) -> None:
        """Count what came of active advice, and retire what does not help."""
        await self.store.judge(counted, since_ms, call)
        self._changed(call.tenant, (REVIEWS,))

    async def strike(self, request: StrikeRequest, call: RequestContext) -> AdviceEffect:
        """Take advice back for good. Raises NotFound, Conflict."""
        struck = await self.store.strike(request.number, call)
        self._changed(call.tenant, (REVIEWS,))
        return struck

    async def roll_back(self, request: RollbackRequest, call: RequestContext) -> StateVersion:
        """Make an earlier version the current one, as a new version. Raises NotFound, Conflict."""
        made = await self.store.roll_back(request.component, request.version, call)
        self._changed(call.tenant, component_changed(request.component))
        return made

    async def checkpoint(self, reason: str, call: RequestContext) -> CheckpointRow:
        """A recovery point of every state as it is now, verified."""
        made = await self.store.checkpoint(reason, self._configuration(), call)
        self._metrics.count("context_checkpoints")
        return made

    async def checkpoint_before(self, tenant: str, reason: str) -> None:
        """A recovery point before a risky step, where anything is stored."""
        call = RequestContext(tenant)
        if await self.store.components(call):
            await self.checkpoint(reason, call)

    async def checkpoint_all(self) -> None:
        """One for every tenant in which something was stored since its last."""
        for tenant in await asyncio.to_thread(self._tenants):
            call = RequestContext(tenant, priority=Priority.BACKGROUND)
            with suppress(Damaged):
                if await self.store.unsaved(call):
                    await self.checkpoint("interval", call)

    async def restore(self, checkpoint_id: str, call: RequestContext) -> RestoredState:
        """Make the states of a checkpoint the current ones; one of what is now is made first.

        Raises NotFound, Conflict when none is whole.
        """
        await self.store.recovery(checkpoint_id, call)
        before = await self.checkpoint("before a restore", call)
        if not checkpoint_id:
            checkpoint_id = (await self.store.checkpoints(2, call))[1].checkpoint_id
        used, restored, passed_over = await self.store.restore(checkpoint_id, call)
        self._changed(call.tenant)
        return RestoredState(
            checkpoint_id=used, before=before.checkpoint_id, restored=restored, passed_over=passed_over
        )

    async def clean_up(self, request: CleanupRequest, call: RequestContext) -> CleanupReport | Job:
        """What a cleanup would pack, or the job that packs it."""
        if request.dry_run:
            return await self.upkeep.clean_up(self._config.context.active_days, call, dry_run=True)
        return await self._runner.submit(CLEANUP, call.tenant, {})

    async def clean_up_all(self) -> None:
        """The nightly cleanup of every tenant that has something to pack."""
        for tenant in await asyncio.to_thread(self._tenants):
            with suppress(Damaged):
                if (
                    await self.upkeep.clean_up(self._config.context.active_days, RequestContext(tenant), dry_run=True)
                ).bodies:
                    await self._runner.submit(CLEANUP, tenant, {})

    async def _clean_up(self, run: JobRun) -> dict[str, Any]:
        report = await self.upkeep.clean_up(self._config.context.active_days, run.call, dry_run=False)
        await self.store.used(run.call)
        built: dict[str, Any] = msgspec.to_builtins(report)
        return built

    async def export(self, directory: str, call: RequestContext) -> TreeReport:
        """Everything as the seed's tree, in a new folder. Raises Conflict, BadInput, DamagedBody, NotFound."""
        return await self.upkeep.write_tree(Path(directory), self._configuration(), call)

    async def import_tree(self, directory: str, call: RequestContext) -> TreeReport:
        """Take a tree in, after a checkpoint of what is there. Raises BadInput before anything is stored."""
        if await self.store.components(call):
            await self.checkpoint("before an import", call)
        report = await self.upkeep.read_tree(Path(directory), call)
        self._changed(call.tenant)
        return report

    def forgotten(self) -> None:
        """Records were deleted: nothing that is remembered of them counts."""
        self._answers.clear()
        self._advice.clear()
        self.store.look_again()

    async def close(self) -> None:
        """Stop what runs beside."""
        await self._answers.close()

    def problems(self, tenants: Sequence[str] | None) -> list[str]:
        """Quotas that are nearly used up, in words."""
        return [
            f"Context Memory of tenant {tenant} takes {used.percent:g} % of its quota ({remedy})"
            for tenant, used in self.store.usage.items()
            if (tenants is None or tenant in tenants)
            and (remedy := next((words for level, words in _ALERTS if used.percent >= level), ""))
        ]

    async def state(self, query: StateQuery, call: RequestContext) -> RetrievedState:
        """`ContextStore.state`; an answer that is not complete is not kept."""
        return await self._answers.get("state", query, call, self.store.state, lambda answer: answer.complete)

    async def feedback(self, query: ReviewQuery, call: RequestContext) -> FeedbackData:
        """`ContextStore.feedback`."""
        return await self._answers.get("feedback", query, call, self.store.feedback)

    async def trends(self, query: TrendQuery, call: RequestContext) -> Trends:
        """`ContextStore.trends`."""
        return await self._answers.get("trends", query, call, self.store.trends)

    async def look_again(self) -> None:
        """At the start, and when the files were exchanged."""
        self.forgotten()
        for tenant in await asyncio.to_thread(self._tenants):
            with suppress(Damaged):
                await self.store.used(RequestContext(tenant))
