"""The routes of feedback: say that a packet was useful or not, see what was said, take it back."""

from typing import Annotated

import msgspec

from gaiad.feedback_schemas import Judged, Verdict
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.schemas import DEFAULT_TENANT, Input


class FeedbackBody(Input, frozen=True):
    """`query` is what was asked when the packet was or was not of use; "" is a word on the packet itself."""

    packet_id: str
    verdict: Verdict
    query: str = ""
    tenant: str = DEFAULT_TENANT


class FeedbackListBody(Input, frozen=True):
    """The last `limit` verdicts."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    tenant: str = DEFAULT_TENANT


class FeedbackGivenBody(Input, frozen=True):
    """What was said of packets is asked for these questions."""

    judged: Annotated[list[Judged], msgspec.Meta(max_length=1000)]
    tenant: str = DEFAULT_TENANT


class FeedbackResetBody(Input, frozen=True):
    """The verdicts on one packet, with "" all of the tenant; with `query` only the one for that question."""

    packet_id: str = ""
    query: str | None = None
    tenant: str = DEFAULT_TENANT


async def give(exchange: Exchange) -> Reply:
    body = await exchange.body(FeedbackBody)
    call = exchange.call(body.tenant)
    return await exchange.service.feedback.give(body.packet_id, body.verdict, body.query, call)


async def newest(exchange: Exchange) -> Reply:
    body = await exchange.body(FeedbackListBody)
    return {"feedback": await exchange.service.feedback.newest(body.limit, exchange.call(body.tenant))}


async def given(exchange: Exchange) -> Reply:
    """Verdicts alone, in the order of what was asked: no question goes out with them that could be scrubbed."""
    body = await exchange.body(FeedbackGivenBody)
    return {"given": await exchange.service.feedback.given(body.judged, exchange.call(body.tenant))}


async def reset(exchange: Exchange) -> Reply:
    body = await exchange.body(FeedbackResetBody)
    return {"removed": await exchange.service.feedback.reset(body.packet_id, exchange.call(body.tenant), body.query)}


def table() -> list[Route]:
    return [
        Route("POST", "/feedback", give, beside=True),
        Route("POST", "/feedback/list", newest, beside=True),
        Route("POST", "/feedback/given", given, plain=True),
        Route("POST", "/feedback/reset", reset, beside=True),
    ]
