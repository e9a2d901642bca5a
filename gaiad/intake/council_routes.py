"""The routes of the council: who is there, what was said (whole or followed), how turns went."""

from contextlib import aclosing, suppress
from typing import Annotated

import msgspec

from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.sse import EventStream, wants_events
from gaiad.intake.withheld import Withheld
from gaiad.schemas import DEFAULT_TENANT, Input

_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class StatusBody(Input, frozen=True):
    tenant: str = DEFAULT_TENANT


class LogBody(Input, frozen=True):
    """Messages after `after` (a full id, or the eight digits shown), the oldest first; "" is the last `limit`."""

    after: str = ""
    limit: _Limit = 50
    heartbeats: bool = True
    tenant: str = DEFAULT_TENANT


class TurnBody(Input, frozen=True):
    """A turn by its id or the eight digits shown."""

    turn: str
    tenant: str = DEFAULT_TENANT


class TurnsBody(Input, frozen=True):
    """The last `limit` turns, only of one session when it is given."""

    limit: _Limit = 20
    session_id: str = ""
    tenant: str = DEFAULT_TENANT


async def status(exchange: Exchange) -> Reply:
    body = await exchange.body(StatusBody)
    return exchange.service.counsel.status(exchange.call(body.tenant))


async def log(exchange: Exchange) -> Reply:
    """Messages; with `Accept: text/event-stream` first the stored ones, then each as it is said, without end.

    An event's id is the message's full id, so that a reader goes on with `Last-Event-ID` where it stopped. The event
    `following` stands between what was stored and what comes.
    """
    body = await exchange.body(LogBody)
    call = exchange.call(body.tenant)
    counsel = exchange.service.counsel
    if not wants_events(exchange.request):
        return {"messages": await counsel.messages(call, body.after, body.limit, heartbeats=body.heartbeats)}
    after = exchange.request.headers.get("Last-Event-ID") or body.after
    async with aclosing(counsel.follow(call, after, body.limit, heartbeats=body.heartbeats)) as heard:
        first = await anext(heard)  # a refusal comes before it, and then the answer has its own status
        async with EventStream(exchange.request) as stream:
            with suppress(Withheld):
                await stream.send(first.kind, await exchange.shown(first.data), first.full_id)
            async for kind, full_id, data in heard:
                with suppress(Withheld):
                    await stream.send(kind, await exchange.shown(data), full_id)
        return stream.response


async def show_turn(exchange: Exchange) -> Reply:
    body = await exchange.body(TurnBody)
    call = exchange.call(body.tenant)
    found = await exchange.service.counsel.turn(body.turn, call)
    return msgspec.structs.replace(found, deliveries=await exchange.service.receipts.of_turn(found.turn_id, call))


async def list_turns(exchange: Exchange) -> Reply:
    body = await exchange.body(TurnsBody)
    call = exchange.call(body.tenant)
    return {"turns": await exchange.service.counsel.turns(call, body.limit, body.session_id)}


def table() -> list[Route]:
    return [
        Route("POST", "/council/status", status, beside=True),
        Route("POST", "/council/log", log, timed=False, beside=True),
        Route("POST", "/turns/show", show_turn, beside=True),
        Route("POST", "/turns/list", list_turns, beside=True),
    ]
