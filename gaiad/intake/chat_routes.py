"""The routes of conversations: take a turn, look at the packets behind it, list sessions, follow events and turns."""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated

import msgspec

from gaiad.base.errors import BadInput
from gaiad.base.events import Event
from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, Withheld, asks
from gaiad.intake.streams import EventStream, last_event_id, wants_events
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import HOUSE
from gaiad.wire.governance import EVENT_KIND as APPROVALS
from gaiad.wire.schemas import DEFAULT_TENANT

_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class CognitionBody(TenantBody, frozen=True):
    """A packet by its id, the eight digits shown, or its turn's id."""

    packet: str
    generate: bool = False


class NewestBody(TenantBody, frozen=True):
    """The last `limit` packets, only of one session when it is given."""

    limit: _Limit = 20
    session_id: str = ""


class SessionsBody(TenantBody, frozen=True):
    limit: _Limit = 50


class SessionBody(TenantBody, frozen=True):
    session_id: str
    limit: _Limit = 200


class TitleBody(TenantBody, frozen=True):
    session_id: str
    title: str


class PagesBody(TenantBody, frozen=True):
    """At most `limit` pages of a session numbered above `after`."""

    session_id: str
    after: int = -1
    limit: _Limit = 200


async def chat(exchange: Exchange) -> Reply:
    """The answer whole, or with `Accept: text/event-stream` the turn as it happens, `done` last."""
    request = await exchange.body(ChatRequest)
    call = exchange.call(request.tenant)
    async with aclosing(exchange.service.conversations.chat(request, call)) as events:
        first = await anext(events)  # a refusal comes before it, and then the answer has its own status
        if not wants_events(exchange.request):
            rest = [data async for _, data in events]
            return rest[-1] if rest else first[1]
        async with EventStream(exchange.request) as stream:
            await stream.send(*first)
            async for name, data in events:
                await stream.send(name, data)
        return stream.response


render = asks(ChatRequest, lambda s, b, c: s.conversations.render(b, c))
show = asks(CognitionBody, lambda s, b, c: s.conversations.packet(b.packet, c))
replay = asks(CognitionBody, lambda s, b, c: s.conversations.replay(b.packet, c, generate=b.generate))
newest = asks(NewestBody, lambda s, b, c: s.conversations.packets(c, b.limit, b.session_id), "packets")


async def personas(exchange: Exchange) -> Reply:
    return {"personas": exchange.service.conversations.personas()}


sessions = asks(SessionsBody, lambda s, b, c: s.conversations.sessions(c, b.limit), "sessions")


async def session(exchange: Exchange) -> Reply:
    body = await exchange.body(SessionBody)
    call = exchange.call(body.tenant)
    turns = await exchange.service.conversations.turns(body.session_id, call, body.limit, exchange.channel)
    return {"session_id": body.session_id, "turns": turns}


rename_session = asks(TitleBody, lambda s, b, c: s.archive.rename_session(b.session_id, b.title, c))


async def session_pages(exchange: Exchange) -> Reply:
    """JIT's pages of a session: header, memo and exact text of each."""
    body = await exchange.body(PagesBody)
    call = exchange.call(body.tenant)
    pages = await exchange.service.archive.session_pages(body.session_id, call, body.after, body.limit)
    return {"session_id": body.session_id, "pages": pages}


COUNCIL = "council"
"""The kind of the council's messages in the hub."""
_JOBS = ("job_started", "job_ended", "ingested")
_NAMES = {COUNCIL: COUNCIL, APPROVALS: APPROVALS} | dict.fromkeys(_JOBS, "jobs")
"""By the kind of an event of the hub what the stream of one tenant calls it."""


async def events(exchange: Exchange) -> Reply:
    """Without `?tenant=` every event of the tenants the caller may use, under its own kind; with it the tenant's, and
    the council's of the house, under `council`, `approvals` and `jobs`. The data is the Event either way.

    Goes on after `Last-Event-ID` or `?after=`, else from now. `missed` marks a place where events were lost. The
    stream of a tenant begins with `following`, so that a page knows when to read again what it shows. The page reads
    scrubbed what was said.
    """
    hub = exchange.service.hub
    tenant = exchange.request.query.get("tenant", "")
    if tenant:
        exchange.caller.require_tenant(tenant)
    after = last_event_id(exchange.request)
    after = hub.last_id if after is None else after
    async with EventStream(exchange.request, patient=True) as stream:
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
    async with aclosing(events), EventStream(exchange.request, patient=True) as stream:
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
        Route("POST", "/chat", chat, timed=False, plain=True),
        Route("POST", "/cognition/render", render, beside=True),
        Route("POST", "/cognition/show", show, beside=True),
        Route("POST", "/cognition/list", newest, beside=True),
        Route("POST", "/cognition/replay", replay, timed=False, beside=True),
        Route("GET", "/personas", personas),
        Route("POST", "/sessions/list", sessions),
        Route("POST", "/sessions/show", session, plain=True),
        Route("POST", "/sessions/pages", session_pages),
        Route("POST", "/sessions/rename", rename_session),
        Route("GET", "/events", events, timed=False, beside=True),
        Route("POST", "/turns/start", start, beside=True),
        Route("GET", "/turns/events", follow, timed=False, beside=True),
        Route("POST", "/turns/cancel", cancel, beside=True),
        Route("GET", "/turns/running", running, beside=True),
    ]
