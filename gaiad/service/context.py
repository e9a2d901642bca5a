"""What intake may ask of Context Memory; answers that are asked again are kept until something is stored."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.context.store import ContextStore
from gaiad.wire.context import (
    Acknowledgement,
    ContextRecord,
    FeedbackData,
    RetrievedState,
    ReviewQuery,
    RollbackRequest,
    StateQuery,
    StateVersion,
    TrendQuery,
    Trends,
)

T = TypeVar("T")
_KEPT_ANSWERS = 512
_Key = tuple[str, str, bytes]


class ContextService:
    """The store, and its answers kept: `context_cache_hits` and `context_cache_misses` count in the metrics.

    Feedback changes with reviews alone; a state and trends with everything.
    """

    def __init__(self, store: ContextStore, metrics: Metrics) -> None:
        self.store = store
        self._metrics = metrics
        self._answers: OrderedDict[_Key, object] = OrderedDict()

    async def add(self, record: ContextRecord, call: RequestContext) -> Acknowledgement:
        """Store a record; durable when this returns. Raises BadInput, Unavailable."""
        acknowledged = await self.store.add(record, call)
        if not acknowledged.duplicate:
            self._metrics.count(f"context_{acknowledged.kind}s")
            self._forget(call.tenant, keep="" if acknowledged.kind == "review" else "feedback")
        return acknowledged

    async def roll_back(self, request: RollbackRequest, call: RequestContext) -> StateVersion:
        """Make an earlier version the current one, as a new version. Raises NotFound, Conflict."""
        made = await self.store.roll_back(request.component, request.version, call)
        self._forget(call.tenant, keep="feedback")
        return made

    async def state(self, query: StateQuery, call: RequestContext) -> RetrievedState:
        """`ContextStore.state`; an answer that is not complete is not kept."""
        return await self._kept("state", query, call, self.store.state, lambda answer: answer.complete)

    async def feedback(self, query: ReviewQuery, call: RequestContext) -> FeedbackData:
        """`ContextStore.feedback`."""
        return await self._kept("feedback", query, call, self.store.feedback)

    async def trends(self, query: TrendQuery, call: RequestContext) -> Trends:
        """`ContextStore.trends`."""
        return await self._kept("trends", query, call, self.store.trends)

    async def look_again(self) -> None:
        """The files were exchanged."""
        self._answers.clear()
        self.store.look_again()

    async def _kept(
        self,
        kind: str,
        query: msgspec.Struct,
        call: RequestContext,
        ask: Callable[..., Awaitable[T]],
        keeps: Callable[[T], bool] = lambda _: True,
    ) -> T:
        key = (call.tenant, kind, msgspec.json.encode(query))
        if key in self._answers:
            self._metrics.count("context_cache_hits")
            self._answers.move_to_end(key)
            return self._answers[key]  # type: ignore[return-value]
        self._metrics.count("context_cache_misses")
        answer = await ask(query, call)
        if keeps(answer):
            self._answers[key] = answer
            while len(self._answers) > _KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return answer

    def _forget(self, tenant: str, keep: str) -> None:
        for key in [key for key in self._answers if key[0] == tenant and key[1] != keep]:
            del self._answers[key]
