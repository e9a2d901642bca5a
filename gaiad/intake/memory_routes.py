"""JIT's memory API: a session is handed over, a briefing is built. Its names are the seed's, in camelCase.

A briefing holds text of pages as it is stored, so the page, whose reader gets it scrubbed, has no part in these.
"""

from gaiad.errors import BadInput, Forbidden
from gaiad.intake.app import Exchange, Reply, Route
from gaiad.memory_schemas import BuildContext, IngestSession
from gaiad.ports import Call


def _call(exchange: Exchange, tenant_id: str) -> Call:
    """A call for the tenant the body names. Raises BadInput without one, Forbidden."""
    if exchange.channel is not None:
        raise Forbidden("briefings hold pages as they are stored; ask for them with the daemon's token or socket")
    if not tenant_id:
        raise BadInput(f'{exchange.request.path}: tenantId is empty; name the tenant, for example "local"')
    return exchange.call(tenant_id)


async def ingest_session(exchange: Exchange) -> Reply:
    exchange.service.memory.require_enabled()
    request = await exchange.body(IngestSession)
    return await exchange.service.memory.ingest_session(request, _call(exchange, request.tenant_id))


async def build_context(exchange: Exchange) -> Reply:
    exchange.service.memory.require_enabled()
    request = await exchange.body(BuildContext)
    memory, call = exchange.service.config.memory, _call(exchange, request.tenant_id)
    return await exchange.service.memory.build_context(request, call.without(*memory.hidden_from("memory_api")))


def table() -> list[Route]:
    return [
        Route("POST", "/memory/ingest_session", ingest_session),
        Route("POST", "/memory/build_context", build_context),
    ]
