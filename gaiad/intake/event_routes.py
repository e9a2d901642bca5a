"""What can be followed: the daemon's events, and turns that outlive their caller."""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

from gaiad.base.errors import BadInput
from gaiad.base.events import Event
from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, Withheld, asks
from gaiad.intake.sse import PatientStream, last_event_id
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import HOUSE
from gaiad.wire.governance import EVENT_KIND as APPROVALS
from gaiad.wire.schemas import DEFAULT_TENANT

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


_LAST = ("done", "error")


class CancelBody(TenantBody, frozen=True):
    """A turn by its id."""

    turn: str


start = asks(ChatRequest, lambda s, b, c: s.turn_runs.start(b, c))


async def follow(exchange: Exchange) -> Reply:
    """Numbered events from the beginning, or after `Last-Event-ID` or `?after=`; ends after `done` or `error`."""
    turn = exchange.request.query.get("turn", "")
    if not turn:
        raise BadInput("name the turn: ?turn=ID, with the ID that POST /turns/start returned")
    call, after = exchange.call(_tenant(exchange)), last_event_id(exchange.request) or 0
    events = await exchange.service.turn_runs.follow(turn, after, call, exchange.channel)
    async with aclosing(events), PatientStream(exchange.request) as stream:
        async for number, name, data in events:
            await stream.send(name, data, number)
            if name in _LAST:
                break
    return stream.response


async def cancel(exchange: Exchange) -> Reply:
    """Once it has ended; `cancelled` is false when there was nothing to break off any longer."""
    body = await exchange.body(CancelBody)
    cancelled = await exchange.service.turn_runs.cancel(body.turn, exchange.call(body.tenant))
    return {"turn_id": body.turn, "cancelled": cancelled}


async def running(exchange: Exchange) -> Reply:
    return {"turns": exchange.service.turn_runs.running(exchange.call(_tenant(exchange)), exchange.channel)}


def _tenant(exchange: Exchange) -> str:
    return exchange.request.query.get("tenant", "") or DEFAULT_TENANT


def table() -> list[Route]:
    return [
        Route("GET", "/events", events, timed=False, beside=True),
        Route("POST", "/turns/start", start, beside=True),
        Route("GET", "/turns/events", follow, timed=False, beside=True),
        Route("POST", "/turns/cancel", cancel, beside=True),
        Route("GET", "/turns/running", running, beside=True),
    ]
