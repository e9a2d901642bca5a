"""The store of a tenant's context: records and their history, in its one database file (CONTEXT).

Every call stays inside `call.tenant`. What is stored is durable, and checked, when a method returns.
"""

import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from gaiad.base.clock import Clock, to_epoch_ms
from gaiad.base.errors import BadInput, Forbidden, NotFound
from gaiad.base.ids import IdMaker
from gaiad.base.ports import Embedder, RequestContext
from gaiad.context import (
    advice,
    aggregates,
    checkpoints,
    hypotheses,
    records,
    retention,
    retrieval,
    similar,
)
from gaiad.context.advice import Outcomes
from gaiad.context.bodies import Folders, body_of, store_file
from gaiad.context.similar import StateVectors
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import (
    Acknowledgement,
    AgentOutput,
    ContextRecord,
    MetaReviewStorage,
    RecordKind,
    RecordQuery,
    RecordRow,
    RetrievedState,
    StateContent,
    StateQuery,
    StateUpdate,
    StateVersion,
    StoredRecord,
)
from gaiad.wire.context_keeping import (
    CheckpointRow,
    Continuation,
    ContinuationRequest,
    ContinuationStorage,
    ContinuedState,
    PassedOver,
    RecoveryState,
    Usage,
)
from gaiad.wire.context_reviews import (
    AdviceEffect,
    FeedbackContent,
    FeedbackData,
    Lineage,
    ReviewQuery,
    SimilarQuery,
    SimilarState,
    TrendQuery,
    Trends,
)

T = TypeVar("T")
READ_S = 0.4
"""After so many seconds a state is answered with what has been read of it."""
_EMBED_AT_ONCE = 256
PREFIX: dict[RecordKind, str] = {"state": "sta", "output": "out", "review": "rev"}


class ContextStore:
    """`embedder` is None without one; similar states are then refused."""

    def __init__(
        self,
        databases: HomeDatabases,
        clock: Clock,
        embedder: Embedder | None,
        quota_bytes: int = 0,
    ) -> None:
        self._databases = databases
        self.quota_bytes = quota_bytes
        """What a tenant may take; 0 is no limit."""
        self.usage: dict[str, Usage] = {}
        """What tenants took when something was last stored, or asked about."""
        self._clock = clock
        self._embedder = embedder
        self._ids = IdMaker(clock)
        self._vectors: dict[tuple[str, str], StateVectors] = {}

    def look_again(self) -> None:
        """The files were exchanged: nothing that is remembered of them counts."""
        self._vectors.clear()
        self.usage.clear()

    # ------------------------------------------------------------------------------------------------------- writing

    async def add(
        self, record: ContextRecord, call: RequestContext, counted: Mapping[str, Outcomes] = MappingProxyType({})
    ) -> Acknowledgement:
        """Store a state, output or review; the same record again is acknowledged as a duplicate.

        A review's advice is active from here on; `counted` are the outcomes until then of agents that have other ones
        than confidence scores.

        Raises BadInput, Unavailable, QuotaReached, Forbidden for a continuation token that is not its task's.
        """
        new, sums = records.describe(record), aggregates.counted(record)
        record_id, now_ms = self._ids.make(PREFIX[new.kind]), to_epoch_ms(self._clock.now())
        await store_file(self._databases, call.tenant, new.body)
        quota, optional = self.quota_bytes, isinstance(record, StateUpdate) and record.update_type == "periodic"
        token = record.state_data.continuation_token if isinstance(record, AgentOutput) else None

        def insert(connection: sqlite3.Connection) -> Acknowledgement:
            if token is not None:
                checkpoints.check_token(connection, call.tenant, new.task_id, token)
            used = retention.usage(connection, quota)
            retention.check_quota(used, len(new.body.stored), optional=optional)
            number, acknowledged = records.insert_record(connection, new, record_id, now_ms)
            if not acknowledged.duplicate:
                aggregates.count(connection, new, sums, number, acknowledged.iteration)
                if isinstance(record, MetaReviewStorage):
                    advice.judge(connection, now_ms, {})
                    advice.take_up(connection, record, number, now_ms, counted)
            self.usage[call.tenant] = used if acknowledged.duplicate else retention.with_body(used, new.body)
            return acknowledged

        return await self._databases.write(call.tenant, insert)

    async def judge(self, counted: Mapping[str, Outcomes], since_ms: int, call: RequestContext) -> None:
        """Count what came of active advice; see `advice.judge`."""
        now_ms = to_epoch_ms(self._clock.now())
        await self._databases.write(call.tenant, lambda connection: advice.judge(connection, now_ms, counted, since_ms))

    async def strike(self, number: int, call: RequestContext) -> AdviceEffect:
        """Take advice back for good. Raises NotFound, Conflict."""
        now_ms = to_epoch_ms(self._clock.now())
        return await self._databases.write(call.tenant, lambda connection: advice.strike(connection, number, now_ms))

    async def active_advice(self, call: RequestContext) -> dict[str, list[tuple[int, str, str]]]:
        """By agent; see `advice.active_advice`."""
        return await self._read(call, lambda connection, _: advice.active_advice(connection), {})

    async def iteration(self, call: RequestContext) -> int:
        """The one that records belong to now."""
        return await self._read(call, lambda connection, _: records.current_iteration(connection), 1)

    async def checkpoint(self, reason: str, configuration: Mapping[str, Any], call: RequestContext) -> CheckpointRow:
        """A recovery point of every state as it is now, verified. Raises Unavailable."""
        name, now_ms = self._ids.make("ckpt"), to_epoch_ms(self._clock.now())
        make = partial(
            checkpoints.make_manifest, checkpoint_id=name, now_ms=now_ms, reason=reason, configuration=configuration
        )
        manifest = await self._read(call, lambda c, folders: make(c, folders), None)
        if manifest is None:
            raise NotFound(f"tenant {call.tenant!r} holds nothing yet")
        return await self._databases.write(call.tenant, partial(checkpoints.add_checkpoint, manifest=manifest))

    async def restore(self, checkpoint_id: str, call: RequestContext) -> tuple[str, dict[str, int], list[PassedOver]]:
        """Make the states of a checkpoint the current ones; see `checkpoints.restore`. Raises NotFound, Conflict."""
        folders, now_ms = self._databases.body_folders(call.tenant), to_epoch_ms(self._clock.now())
        work = partial(checkpoints.restore, folders=folders, checkpoint_id=checkpoint_id, now_ms=now_ms)
        return await self._databases.write(call.tenant, work)

    async def store_continuation(self, wanted: ContinuationStorage, call: RequestContext) -> Continuation:
        """Keep partial state of a task; the token that it goes on with. Raises BadInput, Unavailable, QuotaReached."""
        body = body_of(wanted.partial_state)
        await store_file(self._databases, call.tenant, body)
        name, now_ms = self._ids.make(), to_epoch_ms(self._clock.now())
        quota = self.quota_bytes

        def insert(connection: sqlite3.Connection) -> Continuation:
            retention.check_quota(retention.usage(connection, quota), len(body.stored), optional=False)
            return checkpoints.store_continuation(connection, call.tenant, wanted, body, name, now_ms)

        return await self._databases.write(call.tenant, insert)

    async def roll_back(self, component: str, version: int, call: RequestContext) -> StateVersion:
        """Make an earlier version the current one. Raises NotFound, Conflict."""
        now_ms = to_epoch_ms(self._clock.now())
        work = partial(records.roll_back, component=component, version=version, now_ms=now_ms)
        return await self._databases.write(call.tenant, work)

    # ------------------------------------------------------------------------------------------------------- reading

    async def find(self, kind: RecordKind, query: RecordQuery, call: RequestContext) -> list[RecordRow]:
        """Records that fit, newest first. Raises BadInput."""
        return await self._read(call, lambda c, _: retrieval.find_records(c, kind, query), [])

    async def record(self, record_id: str, call: RequestContext) -> StoredRecord:
        """One record whole. Raises NotFound, DamagedBody."""
        found = await self._read(call, lambda c, folders: retrieval.read_record(c, folders, record_id), None)
        if found is None:
            raise NotFound(f"no record is called {record_id!r}")
        return found

    async def versions(self, component: str, limit: int, call: RequestContext) -> list[StateVersion]:
        """The last versions of `system` or `agent:NAME`, newest first."""
        return await self._read(call, lambda c, _: records.versions(c, component, limit), [])

    async def used(self, call: RequestContext) -> Usage:
        """What the tenant takes, and its quota."""
        quota = self.quota_bytes
        nothing = Usage(json_bytes=0, stored_bytes=0, quota_bytes=quota, percent=0.0)
        self.usage[call.tenant] = await self._read(call, lambda c, _: retention.usage(c, quota), nothing)
        return self.usage[call.tenant]

    async def components(self, call: RequestContext) -> list[str]:
        """What has versions, by name."""
        return await self._read(call, lambda c, _: records.components(c), [])

    async def state(self, query: StateQuery, call: RequestContext) -> RetrievedState:
        """The state, or what could be read of it in READ_S seconds. Raises BadInput."""

        def read(connection: sqlite3.Connection, folders: Folders) -> RetrievedState:
            end = time.monotonic() + READ_S
            return retrieval.StateReader(connection, folders, query, lambda: time.monotonic() > end).read()

        nothing = RetrievedState(
            request_type=query.request_type, timestamp_range=("", ""), content=StateContent(), complete=True
        )
        return await self._read(call, read, nothing)

    async def checkpoints(self, limit: int, call: RequestContext) -> list[CheckpointRow]:
        """The last ones, newest first."""
        return await self._read(call, lambda c, _: checkpoints.list_checkpoints(c, limit), [])

    async def unsaved(self, call: RequestContext) -> bool:
        """Whether something was stored since the newest checkpoint."""
        return not await self._read(call, lambda c, _: checkpoints.newest_covers(c), True)

    async def recovery(self, checkpoint_id: str, call: RequestContext) -> RecoveryState:
        """From the newest checkpoint that is whole, or the one named. Raises NotFound, Conflict."""
        found = await self._read(call, lambda c, folders: checkpoints.recover(c, folders, checkpoint_id), None)
        if found is None:
            raise NotFound("no checkpoint has been made yet")
        return found

    async def continued(self, wanted: ContinuationRequest, call: RequestContext) -> ContinuedState:
        """What a token stands for. Raises Forbidden for one that is foreign, altered, expired or stale."""
        now_ms, token = to_epoch_ms(self._clock.now()), wanted.continuation_token
        found = await self._read(
            call,
            lambda c, folders: checkpoints.continued(c, folders, call.tenant, wanted.task_id, token, now_ms),
            None,
        )
        if found is None:
            raise Forbidden(f"tenant {call.tenant} holds nothing that a token could stand for")
        return found

    async def feedback(self, query: ReviewQuery, call: RequestContext) -> FeedbackData:
        """Of a review. Raises NotFound, DamagedBody."""
        nothing = FeedbackData(
            iteration_requested=query.iteration, agent_type=query.agent_type, feedback_content=FeedbackContent(),
            iteration=0, revision=0, review_id="",
        )  # fmt: skip
        return await self._read(call, lambda c, folders: retrieval.feedback(c, folders, query), nothing)

    async def trends(self, query: TrendQuery, call: RequestContext) -> Trends:
        """Of iterations, patterns and strategies."""
        nothing = Trends(iterations=[], patterns=[], effectiveness=[])
        return await self._read(call, lambda c, _: aggregates.trends(c, query), nothing)

    async def lineage(self, hypothesis: str, call: RequestContext) -> Lineage:
        """The line of a hypothesis. Raises NotFound."""
        found = await self._read(call, lambda c, _: hypotheses.lineage(c, hypothesis), None)
        if found is None:
            raise NotFound(f"no output names a hypothesis {hypothesis!r}")
        return found

    async def similar(self, query: SimilarQuery, call: RequestContext) -> list[SimilarState]:
        """States like another, or like words; those without a vector get one first.

        Raises NotFound, BadInput without an embedder, Unavailable when it does not answer.
        """
        if (embedder := self._embedder) is None:
            raise BadInput('similar states need an embedder; set embedder.kind = "minilm"')
        number, text = 0, query.text
        if not text:
            number, text = await self._read(call, lambda c, _: similar.state_named(c, query.state), (0, ""))
        wanted = (await embedder.embed([text], call))[0]
        if (vectors := await self._state_vectors(embedder, call)) is None:
            return []
        return await self._read(call, lambda c, _: similar.most_similar(c, vectors, wanted, query.limit, number), [])

    async def _state_vectors(self, embedder: Embedder, call: RequestContext) -> StateVectors | None:
        """Of every state; those that are new since the last time get theirs. None for an unknown tenant."""
        fingerprint, name = embedder.fingerprint, (call.tenant, embedder.fingerprint)
        known = self._vectors.get(name)
        if known is not None and len(known.numbers) == await self._read(call, lambda c, _: similar.count_states(c), 0):
            return known
        await self._embed(embedder, call)
        vectors = await self._read(call, lambda c, _: similar.load_vectors(c, fingerprint, known), None)
        if vectors is not None:
            self._vectors[name] = vectors
        return vectors

    async def _embed(self, embedder: Embedder, call: RequestContext) -> None:
        fingerprint = embedder.fingerprint
        none: list[tuple[int, str]] = []
        while waiting := await self._read(
            call, lambda c, _: similar.without_vector(c, fingerprint, _EMBED_AT_ONCE), none
        ):
            vectors = await embedder.embed([summary for _, summary in waiting], call)
            work = partial(
                similar.add_vectors, fingerprint=fingerprint, numbers=[n for n, _ in waiting], vectors=vectors
            )
            await self._databases.write(call.tenant, work)

    async def _read(self, call: RequestContext, work: Callable[[sqlite3.Connection, Folders], T], without: T) -> T:
        call.check(self._clock.monotonic())
        folders = self._databases.body_folders(call.tenant)
        return await self._databases.read(call.tenant, lambda connection: work(connection, folders), without)
