"""The routes of governance (GCP 11): RFCs from their proposal to their merge, and the stability score. The owner's."""

from typing import Annotated, Literal

import msgspec

from gaiad.governance_schemas import RfcProposal, RfcSignature
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.schemas import DEFAULT_TENANT, Input

_OWNER = "governance"
_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


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


async def propose(exchange: Exchange) -> Reply:
    proposal = await exchange.body(RfcProposal)
    return await exchange.service.governance.propose(proposal, exchange.call(DEFAULT_TENANT))


async def review(exchange: Exchange) -> Reply:
    body = await exchange.body(RfcBody)
    return await exchange.service.governance.review(body.rfc, exchange.call(DEFAULT_TENANT))


async def vote(exchange: Exchange) -> Reply:
    body = await exchange.body(RfcBody)
    return await exchange.service.governance.vote(body.rfc, exchange.call(DEFAULT_TENANT))


async def merge(exchange: Exchange) -> Reply:
    body = await exchange.body(MergeBody)
    return await exchange.service.governance.merge(body.rfc, body.signature, exchange.call(DEFAULT_TENANT))


async def show(exchange: Exchange) -> Reply:
    return await exchange.service.governance.show((await exchange.body(RfcBody)).rfc)


async def newest(exchange: Exchange) -> Reply:
    body = await exchange.body(RfcListBody)
    return {"rfcs": await exchange.service.governance.newest(body.limit, body.state)}


async def stability(exchange: Exchange) -> Reply:
    return await exchange.service.governance.stability()


def table() -> list[Route]:
    """Reviews and votes wait for models, and have deadlines of their own."""
    return [
        Route("POST", "/rfc/propose", propose, owner=_OWNER, plain=True),
        Route("POST", "/rfc/review", review, owner=_OWNER, timed=False, plain=True),
        Route("POST", "/rfc/vote", vote, owner=_OWNER, timed=False, plain=True),
        Route("POST", "/rfc/merge", merge, owner=_OWNER, plain=True),
        Route("POST", "/rfc/show", show, owner=_OWNER, plain=True),
        Route("POST", "/rfc/list", newest, owner=_OWNER, plain=True),
        Route("GET", "/stability", stability, owner=_OWNER, plain=True),
    ]
