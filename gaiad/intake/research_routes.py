"""The routes of research runs: begin one and follow it, one with its payload, the newest, a source's whole text.

What is begun here goes on though its caller leaves, as the page does with every reload, and over a restart.
"""

from contextlib import aclosing

from gaiad.base.errors import BadInput, NotFound
from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, asks
from gaiad.intake.streams import event_stream, last_event_id
from gaiad.wire.research import ImportResearch, ResearchRun, RunRow, SettleContradiction
from gaiad.wire.schemas import ResearchRequest

_LIMIT, _MOST = 20, 1000


class ReviewBody(TenantBody, frozen=True):
    """`done` false puts the run back on the list."""

    done: bool = True


start = asks(ResearchRequest, lambda s, b, c: s.research_runs.start(b, c), "research_id")
"""Begin a run, durable from here on, and name it; `GET /research/ID/events` follows it."""


async def cancel(exchange: Exchange) -> Reply:
    """Break a begun run off; `cancelled` is false when there is nothing to break off any longer."""
    call = exchange.call((await exchange.body(TenantBody)).tenant)
    research_id = exchange.request.match_info["research_id"]
    return {"research_id": research_id, "cancelled": await exchange.service.research_runs.cancel(research_id, call)}


async def forget(exchange: Exchange) -> Reply:
    """Take a run out for good, with its payload; one under way is broken off first."""
    call = exchange.call((await exchange.body(TenantBody)).tenant)
    research_id = exchange.request.match_info["research_id"]
    await exchange.shown(await exchange.service.research_runs.run(research_id, call))  # Withheld before it is gone
    await exchange.service.research_runs.forget(research_id, call)
    return {"research_id": research_id, "forgotten": True}


async def review(exchange: Exchange) -> Reply:
    """Tick a run off the list of those to review, or put it back."""
    body = await exchange.body(ReviewBody)
    call, research_id = exchange.call(body.tenant), exchange.request.match_info["research_id"]
    await exchange.shown(await exchange.service.research_runs.run(research_id, call))  # Withheld before it is marked
    await exchange.service.research_runs.review(research_id, call, done=body.done)
    return {"research_id": research_id, "reviewed": body.done}


async def settle(exchange: Exchange) -> Reply:
    """Mark a contradiction of a run open, resolved or acknowledged; the run as it is then."""
    body = await exchange.body(SettleContradiction)
    call, research_id = exchange.call(body.tenant), exchange.request.match_info["research_id"]
    runs = exchange.service.research_runs
    await exchange.shown(await runs.run(research_id, call))  # Withheld before it is marked
    await runs.settle(research_id, body, call)
    return await runs.run(research_id, call)


async def take_in(exchange: Exchange) -> Reply:
    """Keep a run that another researcher made; the same again is the same run."""
    body = await exchange.body(ImportResearch)
    return {"research_id": await exchange.service.research_runs.take_in(body.payload, exchange.call(body.tenant))}


async def _run(exchange: Exchange) -> ResearchRun:
    """The run in the path, in whichever of the caller's tenants it is."""
    research_id = exchange.request.match_info["research_id"]
    for tenant in await exchange.tenants():
        try:
            return await exchange.service.research_runs.run(research_id, exchange.call(tenant))
        except NotFound:
            continue
    raise NotFound(f"no run is called {research_id!r}; `gaiad research list` shows the newest")


async def _withhold(exchange: Exchange) -> None:
    """Raise Withheld before anything is sent of a run that the caller may not see; one not kept yet names nothing."""
    try:
        run = await _run(exchange)
    except NotFound:
        return
    await exchange.shown(run)


async def show_run(exchange: Exchange) -> Reply:
    return await _run(exchange)


async def events(exchange: Exchange) -> Reply:
    """The events of a run so far, then the new ones, until its end: `result` or `error`.

    Goes on after `Last-Event-ID`. Of an older run only the end is sent. By server-sent events or over a WebSocket.
    """
    await _withhold(exchange)
    research_id, after = exchange.request.match_info["research_id"], last_event_id(exchange.request) or 0
    for tenant in await exchange.tenants():
        try:
            told = await exchange.service.research_runs.follow(research_id, after, exchange.call(tenant))
        except NotFound:
            continue
        async with aclosing(told), event_stream(exchange.request) as stream:
            async for event in told:
                await stream.send(event.name, await exchange.shown(event.data), event.number)
        return stream.response
    raise NotFound(f"no run is called {research_id!r}; `gaiad research list` shows the newest")


async def show_source(exchange: Exchange) -> Reply:
    """The whole text of one source: the payload holds its first 10,000 characters."""
    await _withhold(exchange)
    run, source_id = (await _run(exchange)).run, exchange.request.match_info["source_id"]
    return await exchange.service.research_runs.source(run.research_id, source_id, exchange.call(run.tenant))


async def list_runs(exchange: Exchange) -> Reply:
    """`?limit=N&review=1`: the last N, of `review` only those that are PARTIAL or answered with low confidence."""
    limit, review = _limit(exchange.request.query.get("limit", "")), exchange.request.query.get("review", "")
    if review not in ("", "0", "1"):
        raise BadInput(f"review={review!r}: write 1 for the runs to review, or leave it out")
    runs = exchange.service.research_runs
    found = [
        row
        for tenant in await exchange.tenants()
        for row in await runs.newest(exchange.call(tenant), limit, to_review=review == "1")
    ]
    newest = sorted(found, key=lambda row: row.research_id, reverse=True)[:limit]
    return {"runs": newest if exchange.sees_all else [row for row in newest if await _may_see(exchange, row)]}


async def _may_see(exchange: Exchange, row: RunRow) -> bool:
    """A row does not say what its run was made of; the run does."""
    call = exchange.call(row.tenant)
    try:
        await exchange.shown(await exchange.service.research_runs.run(row.research_id, call))
    except NotFound:
        return False
    return True


def _limit(text: str) -> int:
    if not text:
        return _LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= _MOST):
        raise BadInput(f"limit={text!r}: give a number from 1 to {_MOST}")
    return int(text)


def table() -> list[Route]:
    run = "/research/{research_id}"
    return [
        Route("POST", "/research/start", start, beside=True),
        Route("POST", f"{run}/cancel", cancel, beside=True),
        Route("POST", f"{run}/forget", forget, beside=True),
        Route("POST", f"{run}/review", review, beside=True),
        Route("POST", f"{run}/contradictions", settle, beside=True),
        Route("POST", "/research/import", take_in, beside=True),
        Route("GET", "/research", list_runs, beside=True),
        Route("GET", run, show_run, beside=True),
        Route("GET", f"{run}/events", events, timed=False, beside=True),
        Route("GET", f"{run}/sources/{{source_id}}", show_source, beside=True),
    ]
