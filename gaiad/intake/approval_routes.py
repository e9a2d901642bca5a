"""The routes of commands that wait for a person (decision 13): look, approve, deny. Each within its tenant."""

from gaiad.approval_schemas import ApprovalsBody, ApproveBody, DenyBody
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.ports import Call


async def listed(exchange: Exchange) -> Reply:
    body = await exchange.body(ApprovalsBody)
    call = exchange.call(body.tenant)
    approving = exchange.service.approving
    found = await approving.listed(call, body.limit, every_state=body.all)
    return {"approvals": found, "refusal": approving.refusal}


async def _look_at(exchange: Exchange, name: str, call: Call) -> None:
    """Raise Withheld before anything is done about a command that the caller may not see."""
    await exchange.shown(await exchange.service.approving.named(name, call))


async def approve(exchange: Exchange) -> Reply:
    """The approval as it stands; with `wait` (as it is unless the body says otherwise) once the command is verified."""
    body = await exchange.body(ApproveBody)
    call = exchange.call(body.tenant)
    await _look_at(exchange, body.id, call)
    return await exchange.service.approving.approve(body.id, body.sha256, call, exchange.caller.name, wait=body.wait)


async def deny(exchange: Exchange) -> Reply:
    body = await exchange.body(DenyBody)
    call = exchange.call(body.tenant)
    await _look_at(exchange, body.id, call)
    return await exchange.service.approving.deny(body.id, call, exchange.caller.name)


def table() -> list[Route]:
    """A command and its verification have deadlines of their own."""
    return [
        Route("POST", "/approvals/list", listed, beside=True),
        Route("POST", "/approvals/approve", approve, timed=False, beside=True),
        Route("POST", "/approvals/deny", deny, beside=True),
    ]
