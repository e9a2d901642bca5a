"""The routes of the council and of governance: roles, log, turns, thoughts, RFCs, and commands to approve."""

from contextlib import aclosing, suppress
from typing import Annotated, Literal

import msgspec

from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import Exchange, Reply, Route, TenantBody, Withheld, asks
from gaiad.intake.streams import EventStream, wants_events
from gaiad.wire.council import RateRequest
from gaiad.wire.governance import ApprovalsBody, ApproveBody, DenyBody, RfcProposal, RfcSignature
from gaiad.wire.schemas import Input

_OWNER = "governance"
_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class LogBody(TenantBody, frozen=True):
    """Messages after `after` (a full id, or the eight digits shown), the oldest first; "" is the last `limit`."""

    after: str = ""
    limit: _Limit = 50
    heartbeats: bool = True


class TurnBody(TenantBody, frozen=True):
    """A turn by its id or the eight digits shown."""

    turn: str


class TurnsBody(TenantBody, frozen=True):
    """The last `limit` turns, only of one session when it is given."""

    limit: _Limit = 20
    session_id: str = ""


async def status(exchange: Exchange) -> Reply:
    body = await exchange.body(TenantBody)
    return exchange.service.counsel.status(exchange.call(body.tenant))


async def log(exchange: Exchange) -> Reply:
    """Messages; with `Accept: text/event-stream` first the stored ones, then each as it is said, without end.

    An event's id is the message's full id, so that a reader goes on with `Last-Event-ID` where it stopped. The event
    `following` comes between what was stored and what comes.
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


async def rate_turn(exchange: Exchange) -> Reply:
    """The turn as it is then."""
    body = await exchange.body(RateRequest)
    call = exchange.call(body.tenant)
    await exchange.shown(await exchange.service.counsel.turn(body.turn, call))
    return await exchange.service.counsel.rate(body, call)


list_turns = asks(TurnsBody, lambda s, b, c: s.counsel.turns(c, b.limit, b.session_id), "turns")


class SeedsBody(TenantBody, frozen=True):
    """The last `limit` thoughts, only those in `state` when it is given."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    state: Literal["open", "taken", "proposed", "passed", "failed", "dropped"] | None = None


seeds = asks(SeedsBody, lambda s, b, c: s.initiative.seeds(c.tenant, b.limit, b.state), "seeds")


class RfcBody(Input, frozen=True):
    """An RFC by its id, or the eight digits shown."""

    rfc: str


class MergeBody(RfcBody, frozen=True):
    """`signature` is the creator's, where the RFC's kind asks for one."""

    signature: RfcSignature | None = None


class RfcListBody(Input, frozen=True):
    """The last `limit` RFCs, only those in `state` when it is given."""

    limit: _Limit = 50
    state: Literal["", "proposed", "reviewed", "passed", "failed", "merged"] = ""


propose = asks(RfcProposal, lambda s, b, c: s.governance.propose(b, c))
review = asks(RfcBody, lambda s, b, c: s.governance.review(b.rfc, c))
vote = asks(RfcBody, lambda s, b, c: s.governance.vote(b.rfc, c))
merge = asks(MergeBody, lambda s, b, c: s.governance.merge(b.rfc, b.signature, c))
show = asks(RfcBody, lambda s, b, _: s.governance.show(b.rfc))
newest = asks(RfcListBody, lambda s, b, _: s.governance.newest(b.limit, b.state), "rfcs")


async def stability(exchange: Exchange) -> Reply:
    return await exchange.service.governance.stability()


async def listed(exchange: Exchange) -> Reply:
    body = await exchange.body(ApprovalsBody)
    call = exchange.call(body.tenant)
    approving = exchange.service.approving
    found = await approving.listed(call, body.limit, every_state=body.all)
    return {"approvals": found, "refusal": approving.refusal}


async def _look_at(exchange: Exchange, name: str, call: RequestContext) -> None:
    """Raise Withheld before anything is done about a command that the caller may not see."""
    await exchange.shown(await exchange.service.approving.named(name, call))


async def approve(exchange: Exchange) -> Reply:
    """The approval as it is; with `wait` (as it is unless the body says otherwise) once the command is verified."""
    exchange.caller.require_person("approve")
    body = await exchange.body(ApproveBody)
    call = exchange.call(body.tenant)
    await _look_at(exchange, body.id, call)
    return await exchange.service.approving.approve(body.id, body.sha256, call, exchange.caller.name, wait=body.wait)


async def deny(exchange: Exchange) -> Reply:
    exchange.caller.require_person("approve")
    body = await exchange.body(DenyBody)
    call = exchange.call(body.tenant)
    await _look_at(exchange, body.id, call)
    return await exchange.service.approving.deny(body.id, call, exchange.caller.name)


def table() -> list[Route]:
    """Reviews, votes and commands have deadlines of their own."""
    return [
        Route("POST", "/council/status", status, beside=True),
        Route("POST", "/council/log", log, timed=False, beside=True),
        Route("POST", "/turns/show", show_turn, beside=True),
        Route("POST", "/turns/list", list_turns, beside=True),
        Route("POST", "/turns/rate", rate_turn, beside=True),
        Route("POST", "/council/seeds", seeds, beside=True),
        Route("POST", "/rfc/propose", propose, owner=_OWNER, plain=True),
        Route("POST", "/rfc/review", review, owner=_OWNER, timed=False, plain=True),
        Route("POST", "/rfc/vote", vote, owner=_OWNER, timed=False, plain=True),
        Route("POST", "/rfc/merge", merge, owner=_OWNER, plain=True),
        Route("POST", "/rfc/show", show, owner=_OWNER, plain=True),
        Route("POST", "/rfc/list", newest, owner=_OWNER, plain=True),
        Route("GET", "/stability", stability, owner=_OWNER, plain=True),
        Route("POST", "/approvals/list", listed, beside=True),
        Route("POST", "/approvals/approve", approve, timed=False, beside=True),
        Route("POST", "/approvals/deny", deny, beside=True),
    ]
