"""The routes of conversations: take a turn, look at the packets behind it, list sessions."""

from contextlib import aclosing
from typing import Annotated

import msgspec

from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, asks
from gaiad.intake.sse import EventStream, wants_events
from gaiad.wire.chat import ChatRequest

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
