"""The route of thoughts for later: which there are, and what became of them."""

from typing import Annotated, Literal

import msgspec

from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.schemas import DEFAULT_TENANT, Input


class SeedsBody(Input, frozen=True):
    """The last `limit` thoughts, only those in `state` when it is given."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    state: Literal["open", "taken", "proposed", "passed", "failed", "dropped"] | None = None
    tenant: str = DEFAULT_TENANT


async def seeds(exchange: Exchange) -> Reply:
    body = await exchange.body(SeedsBody)
    call = exchange.call(body.tenant)
    return {"seeds": await exchange.service.initiative.seeds(call.tenant, body.limit, body.state)}


def table() -> list[Route]:
    return [Route("POST", "/council/seeds", seeds, beside=True)]
