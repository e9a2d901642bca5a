"""Answers of Context Memory, kept until something is stored that changes them.

An answer is out of date when something changes that it is made of, and kept through all else. One that was read again
since it was made is likely to be read once more: it is made again right after the change, before somebody waits for it
(refresh-ahead). One that nobody read again is dropped.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gaiad.base.errors import GaiadError
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.context.records import SYSTEM, agent_component
from gaiad.context.retrieval import IN_PART
from gaiad.wire.context import AgentOutput, ContextRecord, MetaReviewStorage, StateQuery, StateUpdate
from gaiad.wire.context_reviews import ReviewQuery

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
