"""What happens in the daemon, as it happens: all that a caller may see, or a tenant's council, approvals and jobs."""

from collections.abc import AsyncIterator
from contextlib import suppress

from gaiad.approval_schemas import EVENT_KIND as APPROVALS
from gaiad.council_schemas import HOUSE
from gaiad.events import Event
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.sse import PatientStream, last_event_id
from gaiad.intake.withheld import Withheld

COUNCIL = "council"
"""The kind of the council's messages in the hub."""
_JOBS = ("job_started", "job_ended", "ingested")
_NAMES = {COUNCIL: COUNCIL, APPROVALS: APPROVALS} | dict.fromkeys(_JOBS, "jobs")
"""By the kind of an event of the hub what the stream of one tenant calls it."""


async def events(exchange: Exchange) -> Reply:
    """Without `?tenant=` every event of the tenants the caller may use, under its own kind; with it the tenant's, and
    the council's of the house, under `council`, `approvals` and `jobs`. The data is the Event either way.

    Goes on after `Last-Event-ID` or `?after=`, else from now. Where events were lost on the way stands `missed`. The
    stream of a tenant begins with `following`, so that a page knows when to read again what it shows. The page reads
    scrubbed what was said.
    """
    hub = exchange.service.hub
    tenant = exchange.request.query.get("tenant", "")
    if tenant:
        exchange.caller.require_tenant(tenant)
    after = last_event_id(exchange.request)
    after = hub.last_id if after is None else after
    async with PatientStream(exchange.request) as stream:
        if tenant:
            await stream.send("following", {"last_id": hub.last_id}, min(after, hub.last_id))
        async for name, event in _of_tenant(exchange, tenant, after) if tenant else _visible(exchange, after):
            with suppress(Withheld):
                await stream.send(name, await exchange.shown(event), event.id)
    return stream.response


async def _visible(exchange: Exchange, after: int) -> AsyncIterator[tuple[str, Event]]:
    async for event in exchange.service.hub.follow(after):
        if event.missed or exchange.caller.may_use(event.tenant):
            yield event.kind, event


async def _of_tenant(exchange: Exchange, tenant: str, after: int) -> AsyncIterator[tuple[str, Event]]:
    async for event in exchange.service.hub.follow(after):
        if event.missed:
            yield event.kind, event
        elif event.kind in _NAMES and (event.tenant == tenant or (event.tenant == HOUSE and event.kind == COUNCIL)):
            yield _NAMES[event.kind], event


def table() -> list[Route]:
    return [Route("GET", "/events", events, timed=False, beside=True)]
