"""JIT's memory API: a session is handed over, a briefing is built. Its names are the seed's, in camelCase.

A briefing holds text of pages as it is stored, so the page, whose reader gets it scrubbed, has no part in these.
"""

from typing import Any, TypeVar

import msgspec

from gaiad.errors import BadInput, Forbidden
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.memory_schemas import BuildContext, IngestSession
from gaiad.ports import Call

T = TypeVar("T")


def _call(exchange: Exchange, tenant_id: str) -> Call:
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


def table() -> list[Route]:
    return [
        Route("POST", "/memory/ingest_session", ingest_session),
        Route("POST", "/memory/build_context", build_context),
    ]
