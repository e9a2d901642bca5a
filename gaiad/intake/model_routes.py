"""The routes of the models: text from one of them, and which are in memory."""

from contextlib import aclosing

from gaiad.base.ports import Priority, RequestContext
from gaiad.intake.exchange import Exchange, Reply, Route, asks
from gaiad.intake.streams import EventStream, wants_events
from gaiad.wire.generation import GenerateBody, GenerateReply, TextDelta
from gaiad.wire.schemas import DEFAULT_TENANT, Input


class ModelBody(Input, frozen=True):
    """`name` of a model, or of the role it serves."""

    name: str


class ProbeBody(ModelBody, frozen=True):
    """`again` measures though the figures are known."""

    again: bool = False


class UseBody(Input, frozen=True):
    """`what` is a path, a known name, ollama:NAME or a base URL; `role` "" is all three."""

    what: str
    role: str = ""


class PinBody(ModelBody, frozen=True):
    pinned: bool = True


async def generate(exchange: Exchange) -> Reply:
    """The reply whole, or as events `delta` and at last `done` when the body says `stream`."""
    body = await exchange.body(GenerateBody)
    call = _call(exchange, body)
    async with aclosing(exchange.service.models.generate(body, call)) as pieces:
        first = await anext(pieces)  # a refusal comes before the first piece, and then the answer has its own status
        if not (body.stream or wants_events(exchange.request)):
            rest = [piece async for piece in pieces]
            return rest[-1] if rest else first
        async with EventStream(exchange.request) as stream:
            await _send(stream, first)
            async for piece in pieces:
                await _send(stream, piece)
        return stream.response


def _call(exchange: Exchange, body: GenerateBody) -> RequestContext:
    call = exchange.call(body.tenant)
    if body.timeout_s > 0:
        call.deadline = exchange.service.clock.monotonic() + body.timeout_s
    if body.background:
        call.priority = Priority.BACKGROUND
    return call


async def _send(stream: EventStream, piece: TextDelta | GenerateReply) -> None:
    await stream.send("delta" if isinstance(piece, TextDelta) else "done", piece)


async def list_models(exchange: Exchange) -> Reply:
    exchange.call(DEFAULT_TENANT)
    return {"models": exchange.service.models.statuses()}


load = asks(ModelBody, lambda s, b, c: s.models.load(b.name, c), "models")
unload = asks(ModelBody, lambda s, b, _: s.models.unload(b.name), "models")
probe = asks(ProbeBody, lambda s, b, c: s.models.probe(b.name, b.again, c))


async def choices(exchange: Exchange) -> Reply:
    return await exchange.service.models.choices()


use = asks(UseBody, lambda s, b, c: s.use_model(b.what, b.role, c))


async def pin(exchange: Exchange) -> Reply:
    body = await exchange.body(PinBody)
    return {"models": exchange.service.models.pin(body.name, body.pinned)}


def table() -> list[Route]:
    return [
        Route("POST", "/generate", generate, timed=False),
        Route("GET", "/models", list_models, plain=True),
        Route("POST", "/models/load", load, owner="loading a model", timed=False, plain=True),
        Route("POST", "/models/unload", unload, owner="unloading a model", timed=False, plain=True),
        Route("POST", "/models/probe", probe, owner="measuring a model", timed=False, plain=True),
        Route("GET", "/models/catalogue", choices, owner="looking for models", plain=True),
        Route("POST", "/models/use", use, owner="choosing a model", timed=False, plain=True),
        Route("POST", "/models/pin", pin, owner="pinning a model", plain=True),
    ]
