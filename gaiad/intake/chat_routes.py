"""The routes of conversations: take a turn, look at the packets behind it, list sessions."""

from contextlib import aclosing
from typing import Annotated

import msgspec

from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.sse import EventStream, wants_events
from gaiad.wire.chat import ChatRequest
from gaiad.wire.schemas import DEFAULT_TENANT, Input

_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class CognitionBody(Input, frozen=True):
    """A packet by its id, the eight digits shown, or its turn's id."""

    packet: str
    generate: bool = False
    tenant: str = DEFAULT_TENANT


class NewestBody(Input, frozen=True):
    """The last `limit` packets, only of one session when it is given."""

    limit: _Limit = 20
    session_id: str = ""
    tenant: str = DEFAULT_TENANT


class SessionsBody(Input, frozen=True):
    limit: _Limit = 50
    tenant: str = DEFAULT_TENANT


class SessionBody(Input, frozen=True):
    session_id: str
    limit: _Limit = 200
    tenant: str = DEFAULT_TENANT


class TitleBody(Input, frozen=True):
    session_id: str
    title: str
    tenant: str = DEFAULT_TENANT


class PagesBody(Input, frozen=True):
    """At most `limit` pages of a session numbered above `after`."""

    session_id: str
    after: int = -1
    limit: _Limit = 200
    tenant: str = DEFAULT_TENANT


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


async def render(exchange: Exchange) -> Reply:
    request = await exchange.body(ChatRequest)
    return await exchange.service.conversations.render(request, exchange.call(request.tenant))


async def show(exchange: Exchange) -> Reply:
    body = await exchange.body(CognitionBody)
    return await exchange.service.conversations.packet(body.packet, exchange.call(body.tenant))


async def replay(exchange: Exchange) -> Reply:
    body = await exchange.body(CognitionBody)
    call = exchange.call(body.tenant)
    return await exchange.service.conversations.replay(body.packet, call, generate=body.generate)


async def newest(exchange: Exchange) -> Reply:
    body = await exchange.body(NewestBody)
    call = exchange.call(body.tenant)
    return {"packets": await exchange.service.conversations.packets(call, body.limit, body.session_id)}


async def personas(exchange: Exchange) -> Reply:
    return {"personas": exchange.service.conversations.personas()}


async def sessions(exchange: Exchange) -> Reply:
    body = await exchange.body(SessionsBody)
    return {"sessions": await exchange.service.conversations.sessions(exchange.call(body.tenant), body.limit)}


async def session(exchange: Exchange) -> Reply:
    body = await exchange.body(SessionBody)
    call = exchange.call(body.tenant)
    turns = await exchange.service.conversations.turns(body.session_id, call, body.limit, exchange.channel)
    return {"session_id": body.session_id, "turns": turns}


async def rename_session(exchange: Exchange) -> Reply:
    body = await exchange.body(TitleBody)
    return await exchange.service.rename_session(body.session_id, body.title, exchange.call(body.tenant))


async def session_pages(exchange: Exchange) -> Reply:
    """JIT's pages of a session: header, memo and exact text of each."""
    body = await exchange.body(PagesBody)
    call = exchange.call(body.tenant)
    pages = await exchange.service.session_pages(body.session_id, body.after, body.limit, call)
    return {"session_id": body.session_id, "pages": pages}


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
    ]
