"""The routes of turns that run by themselves: begin one, follow it from any place, break it off, find those that run.

What comes with the page's cookie was said on the page and sees only what was said there.
"""

from contextlib import aclosing

from gaiad.chat_schemas import ChatRequest
from gaiad.errors import BadInput
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.sse import PatientStream, last_event_id
from gaiad.schemas import DEFAULT_TENANT, Input

_LAST = ("done", "error")


class CancelBody(Input, frozen=True):
    """A turn by its id."""

    turn: str
    tenant: str = DEFAULT_TENANT


async def start(exchange: Exchange) -> Reply:
    request = await exchange.body(ChatRequest)
    return await exchange.service.turn_runs.start(request, exchange.call(request.tenant))


async def follow(exchange: Exchange) -> Reply:
    """Numbered events from the beginning, or after `Last-Event-ID` or `?after=`; ends after `done` or `error`."""
    turn = exchange.request.query.get("turn", "")
    if not turn:
        raise BadInput("give the turn: ?turn=ID, as POST /turns/start answered it")
    call, after = exchange.call(_tenant(exchange)), last_event_id(exchange.request) or 0
    events = await exchange.service.turn_runs.follow(turn, after, call, exchange.channel)
    async with aclosing(events), PatientStream(exchange.request) as stream:
        async for number, name, data in events:
            await stream.send(name, data, number)
            if name in _LAST:
                break
    return stream.response


async def cancel(exchange: Exchange) -> Reply:
    """Once it has ended; `cancelled` is false when there was nothing to break off any more."""
    body = await exchange.body(CancelBody)
    cancelled = await exchange.service.turn_runs.cancel(body.turn, exchange.call(body.tenant))
    return {"turn_id": body.turn, "cancelled": cancelled}


async def running(exchange: Exchange) -> Reply:
    return {"turns": exchange.service.turn_runs.running(exchange.call(_tenant(exchange)), exchange.channel)}


def _tenant(exchange: Exchange) -> str:
    return exchange.request.query.get("tenant", "") or DEFAULT_TENANT


def table() -> list[Route]:
    return [
        Route("POST", "/turns/start", start, beside=True),
        Route("GET", "/turns/events", follow, timed=False, beside=True),
        Route("POST", "/turns/cancel", cancel, beside=True),
        Route("GET", "/turns/running", running, beside=True),
    ]
