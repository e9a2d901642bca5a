"""The routes of Context Memory: bodies and answers in the seed's names, the tenant beside them (`?tenant=`)."""

from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import Exchange, Handler, Reply, Route, asks
from gaiad.wire.context import (
    AgentOutput,
    ContextRecord,
    MetaReviewStorage,
    RecordKind,
    RecordQuery,
    RollbackRequest,
    StateQuery,
    StateUpdate,
)
from gaiad.wire.context_keeping import (
    CheckpointRequest,
    CleanupRequest,
    ContinuationRequest,
    ContinuationStorage,
    RestoreRequest,
    TreeRequest,
)
from gaiad.wire.context_reviews import ReviewQuery, SimilarQuery, StrikeRequest, TrendQuery
from gaiad.wire.schemas import DEFAULT_TENANT, Input

T = TypeVar("T")


class TenantQuery(Input, frozen=True):
    """Nothing but a tenant."""

    tenant: str = DEFAULT_TENANT


class VersionQuery(Input, frozen=True):
    """Of which component; "" lists the components themselves."""

    tenant: str = DEFAULT_TENANT
    component: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class CheckpointQuery(Input, frozen=True):
    """The last `limit`."""

    tenant: str = DEFAULT_TENANT
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


class RecoveryQuery(Input, frozen=True):
    """From this checkpoint or the one before it that is whole; "" is the newest."""

    tenant: str = DEFAULT_TENANT
    checkpoint_id: str = ""


def _query(exchange: Exchange, kind: type[T]) -> tuple[T, RequestContext]:
    """The query of the address as `kind`, and a call for its tenant. Raises BadInput, Forbidden."""
    given = exchange.request.query
    if twice := [name for name in given if len(given.getall(name)) > 1]:
        raise BadInput(f"{exchange.request.path}: {twice[0]!r} appears twice")
    try:
        query = msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"{exchange.request.path}: the query does not fit: {error}") from error
    return query, exchange.call(getattr(query, "tenant", DEFAULT_TENANT))


def _stores(kind: type[ContextRecord]) -> Handler:
    async def handler(exchange: Exchange) -> Reply:
        _, call = _query(exchange, TenantQuery)
        return await exchange.service.context.add(await exchange.body(kind), call)

    return handler


def _lists(kind: RecordKind) -> Handler:
    async def handler(exchange: Exchange) -> Reply:
        query, call = _query(exchange, RecordQuery)
        return {f"{kind}s": await exchange.service.context.store.find(kind, query, call)}

    return handler


async def state(exchange: Exchange) -> Reply:
    return await exchange.service.context.state(*_query(exchange, StateQuery))


async def feedback(exchange: Exchange) -> Reply:
    return await exchange.service.context.feedback(*_query(exchange, ReviewQuery))


async def trends(exchange: Exchange) -> Reply:
    return await exchange.service.context.trends(*_query(exchange, TrendQuery))


async def similar(exchange: Exchange) -> Reply:
    return {"states": await exchange.service.context.store.similar(*_query(exchange, SimilarQuery))}


async def lineage(exchange: Exchange) -> Reply:
    _, call = _query(exchange, TenantQuery)
    return await exchange.service.context.store.lineage(exchange.request.match_info["hypothesis_id"], call)


async def record(exchange: Exchange) -> Reply:
    _, call = _query(exchange, TenantQuery)
    return await exchange.service.context.store.record(exchange.request.match_info["record_id"], call)


async def versions(exchange: Exchange) -> Reply:
    query, call = _query(exchange, VersionQuery)
    store = exchange.service.context.store
    if not query.component:
        return {"components": await store.components(call)}
    return {"versions": await store.versions(query.component, query.limit, call)}


async def checkpoints(exchange: Exchange) -> Reply:
    query, call = _query(exchange, CheckpointQuery)
    return {"checkpoints": await exchange.service.context.store.checkpoints(query.limit, call)}


async def recovery(exchange: Exchange) -> Reply:
    query, call = _query(exchange, RecoveryQuery)
    return await exchange.service.context.store.recovery(query.checkpoint_id, call)


async def keep_continuation(exchange: Exchange) -> Reply:
    _, call = _query(exchange, TenantQuery)
    return await exchange.service.context.store.store_continuation(await exchange.body(ContinuationStorage), call)


async def resume(exchange: Exchange) -> Reply:
    _, call = _query(exchange, TenantQuery)
    return await exchange.service.context.store.continued(await exchange.body(ContinuationRequest), call)


async def quota(exchange: Exchange) -> Reply:
    _, call = _query(exchange, TenantQuery)
    return await exchange.service.context.store.used(call)


async def export(exchange: Exchange) -> Reply:
    """To a folder of this machine, so a person at it must ask."""
    exchange.caller.require_terminal("context export")
    body = await exchange.body(TreeRequest)
    return await exchange.service.context.export(_absolute(body.directory), exchange.call(body.tenant))


async def import_tree(exchange: Exchange) -> Reply:
    exchange.caller.require_terminal("context import")
    body = await exchange.body(TreeRequest)
    return await exchange.service.context.import_tree(_absolute(body.directory), exchange.call(body.tenant))


def _absolute(directory: str) -> str:
    if not Path(directory).is_absolute() or "\0" in directory:
        raise BadInput(f"directory = {directory!r}: give an absolute path; the daemon has its own working directory")
    return directory


clean_up = asks(CleanupRequest, lambda s, b, c: s.context.clean_up(b, c))
make_checkpoint = asks(CheckpointRequest, lambda s, b, c: s.context.checkpoint(b.reason, c))
restore = asks(RestoreRequest, lambda s, b, c: s.context.restore(b.checkpoint_id, c))
strike = asks(StrikeRequest, lambda s, b, c: s.context.strike(b, c))
roll_back = asks(RollbackRequest, lambda s, b, c: s.context.roll_back(b, c))


def table() -> list[Route]:
    return [
        Route("POST", "/context/state", _stores(StateUpdate), beside=True),
        Route("POST", "/context/outputs", _stores(AgentOutput), beside=True),
        Route("POST", "/context/reviews", _stores(MetaReviewStorage), beside=True),
        Route("POST", "/context/rollback", roll_back, beside=True),
        Route("POST", "/context/checkpoints", make_checkpoint, timed=False, beside=True),
        Route("POST", "/context/restore", restore, timed=False, beside=True),
        Route("POST", "/context/continuations", keep_continuation, beside=True),
        Route("POST", "/context/continuations/resume", resume, beside=True),
        Route("POST", "/context/export", export, timed=False, beside=True),
        Route("POST", "/context/import", import_tree, timed=False, beside=True),
        Route("POST", "/context/cleanup", clean_up, beside=True),
        Route("GET", "/context/quota", quota, beside=True),
        Route("GET", "/context/checkpoints", checkpoints, beside=True),
        Route("GET", "/context/recovery", recovery, timed=False, beside=True),
        Route("GET", "/context/state", state, beside=True),
        Route("GET", "/context/states", _lists("state"), beside=True),
        Route("GET", "/context/outputs", _lists("output"), beside=True),
        Route("GET", "/context/reviews", _lists("review"), beside=True),
        Route("GET", "/context/records/{record_id}", record, beside=True),
        Route("GET", "/context/versions", versions, beside=True),
        Route("GET", "/context/feedback", feedback, beside=True),
        Route("POST", "/context/feedback/strike", strike, beside=True),
        Route("GET", "/context/trends", trends, beside=True),
        Route("GET", "/context/lineage/{hypothesis_id}", lineage, beside=True),
        Route("GET", "/context/similar", similar, beside=True),
    ]
