"""What intake may ask of Context Memory; answers that are asked again are kept until something is stored."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from gaiad.base.metrics import Metrics
from gaiad.base.ports import Priority, RequestContext
from gaiad.context.store import ContextStore
from gaiad.store.database import Damaged
from gaiad.wire.context import (
    Acknowledgement,
    CheckpointRow,
    ContextRecord,
    FeedbackData,
    RestoredState,
    RetrievedState,
    ReviewQuery,
    RollbackRequest,
    StateQuery,
    StateUpdate,
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

    def __init__(
        self,
        store: ContextStore,
        metrics: Metrics,
        tenants: Callable[[], list[str]],
        configuration: Callable[[], dict[str, Any]],
    ) -> None:
        """`tenants` blocks; `configuration` is what a checkpoint notes of the settings."""
        self.store = store
        self._tenants = tenants
        self._configuration = configuration
        self._metrics = metrics
        self._answers: OrderedDict[_Key, object] = OrderedDict()

    async def add(self, record: ContextRecord, call: RequestContext) -> Acknowledgement:
        """Store a record; durable when this returns. A checkpoint or critical update makes a checkpoint.

        Raises BadInput, Forbidden, Unavailable.
        """
        acknowledged = await self.store.add(record, call)
        if isinstance(record, StateUpdate) and record.update_type != "periodic" and not acknowledged.duplicate:
            made = await self.checkpoint(f"{record.update_type} update {acknowledged.id}", call)
            acknowledged = msgspec.structs.replace(acknowledged, checkpoint_id=made.checkpoint_id)
        if not acknowledged.duplicate:
            self._metrics.count(f"context_{acknowledged.kind}s")
            self._forget(call.tenant, keep="" if acknowledged.kind == "review" else "feedback")
        return acknowledged

    async def roll_back(self, request: RollbackRequest, call: RequestContext) -> StateVersion:
        """Make an earlier version the current one, as a new version. Raises NotFound, Conflict."""
        made = await self.store.roll_back(request.component, request.version, call)
        self._forget(call.tenant, keep="feedback")
        return made

    async def checkpoint(self, reason: str, call: RequestContext) -> CheckpointRow:
        """A recovery point of every state as it is now, verified."""
        made = await self.store.checkpoint(reason, self._configuration(), call)
        self._metrics.count("context_checkpoints")
        return made

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
        self._forget(call.tenant, keep="feedback")
        return RestoredState(
            checkpoint_id=used, before=before.checkpoint_id, restored=restored, passed_over=passed_over
        )

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
