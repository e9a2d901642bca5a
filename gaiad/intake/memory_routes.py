"""The routes of the memory API (JIT), of feedback on packets, and of deletion, which only a person may ask for."""

from typing import Annotated, Any, TypeVar

import msgspec

from gaiad.base.errors import BadInput, Forbidden
from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, asks
from gaiad.wire.memory import BuildContext, FeedbackQuery, IngestSession, Rating
from gaiad.wire.schemas import DEFAULT_TENANT, ForgetRequest

T = TypeVar("T")


def _call(exchange: Exchange, tenant_id: str) -> RequestContext:
    """A call for the tenant the body names. Raises BadInput without one, Forbidden."""
    if exchange.channel is not None:
        raise Forbidden("briefings hold pages as they are stored; ask for them with the daemon's token or socket")
    if not tenant_id:
        raise BadInput(f'{exchange.request.path}: tenantId is empty; name the tenant, for example "local"')
    return exchange.call(tenant_id)


async def _body(exchange: Exchange, kind: type[T]) -> T:
    """The body as `kind`, where null says what leaving a field out says. Raises TooLarge, BadInput."""
    said = _without_nulls(await exchange.body(dict[str, Any]))
    if isinstance(said.get("budgets"), dict):
        said["budgets"] = _without_nulls(said["budgets"])
    if isinstance(said.get("turns"), list):
        said["turns"] = [_without_nulls(turn) if isinstance(turn, dict) else turn for turn in said["turns"]]
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{exchange.request.path}: the body does not fit: {error}") from error


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def ingest_session(exchange: Exchange) -> Reply:
    exchange.service.memory.require_enabled()
    request = await _body(exchange, IngestSession)
    return await exchange.service.memory.ingest_session(request, _call(exchange, request.tenant_id))


async def build_context(exchange: Exchange) -> Reply:
    exchange.service.memory.require_enabled()
    request = await _body(exchange, BuildContext)
    memory, call = exchange.service.config.memory, _call(exchange, request.tenant_id)
    return await exchange.service.memory.build_context(request, call.without(*memory.hidden_from("memory_api")))


class FeedbackBody(TenantBody, frozen=True):
    """`query` is what was asked when the packet was or was not of use; "" is a word on the packet itself."""

    packet_id: str
    verdict: Rating
    query: str = ""


class FeedbackListBody(TenantBody, frozen=True):
    """The last `limit` verdicts."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class FeedbackGivenBody(TenantBody, frozen=True):
    """Asks what was said of packets for these questions; no question goes out with the answer."""

    judged: Annotated[list[FeedbackQuery], msgspec.Meta(max_length=1000)]


class FeedbackResetBody(TenantBody, frozen=True):
    """The verdicts on one packet, with "" all of the tenant; with `query` only the one for that question."""

    packet_id: str = ""
    query: str | None = None


give = asks(FeedbackBody, lambda s, b, c: s.feedback.give(b.packet_id, b.verdict, b.query, c))
newest = asks(FeedbackListBody, lambda s, b, c: s.feedback.newest(b.limit, c), "feedback")
given = asks(FeedbackGivenBody, lambda s, b, c: s.feedback.given(b.judged, c), "given")
reset = asks(FeedbackResetBody, lambda s, b, c: s.feedback.reset(b.packet_id, c, b.query), "removed")


class UndoBody(TenantBody, frozen=True):
    forget_id: str


async def forget(exchange: Exchange) -> Reply:
    """Delete, or with `dry_run` only say what would go."""
    exchange.caller.require_person("forget")
    request = await exchange.body(ForgetRequest)
    return await exchange.service.deletion.forget(request, exchange.call(request.tenant))


async def undo(exchange: Exchange) -> Reply:
    exchange.caller.require_person("forget")
    request = await exchange.body(UndoBody)
    return {"packets": await exchange.service.deletion.undo(request.forget_id, exchange.call(request.tenant))}


async def undoable(exchange: Exchange) -> Reply:
    exchange.caller.require_person("forget")
    tenant = exchange.request.query.get("tenant", "") or DEFAULT_TENANT
    return {"forgotten": await exchange.service.deletion.undoable(exchange.call(tenant))}


def table() -> list[Route]:
    return [
        Route("POST", "/memory/ingest_session", ingest_session),
        Route("POST", "/memory/build_context", build_context),
        Route("POST", "/feedback", give, beside=True),
        Route("POST", "/feedback/list", newest, beside=True),
        Route("POST", "/feedback/given", given, plain=True),
        Route("POST", "/feedback/reset", reset, beside=True),
        Route("POST", "/forget", forget, timed=False),
        Route("POST", "/forget/undo", undo, timed=False, plain=True),
        Route("GET", "/forget", undoable),
    ]
