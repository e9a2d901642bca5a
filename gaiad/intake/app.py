"""The HTTP application: which route, for which caller, within which time and size.

The same table of routes (`http.py`) is served on both listeners; they differ in how they know the caller (`Door`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from socket import socket
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from gaiad.chat_schemas import ChatRequest, RedactionCount
from gaiad.council_schemas import HOUSE
from gaiad.errors import BadInput, DeadlineExceeded, Forbidden, NotFound
from gaiad.intake.auth import Caller
from gaiad.intake.doors import FOREIGN_ORIGIN, Door
from gaiad.intake.error_answers import JSON, error_body, error_response
from gaiad.intake.sockets import BACKLOG
from gaiad.intake.sse import STREAM, STREAMS, encode_event, end_streams
from gaiad.intake.under_way import ENDING_S, REQUESTS, Requests
from gaiad.intake.withheld import names_in, without
from gaiad.logs import get_logger
from gaiad.ports import Call, Priority
from gaiad.schemas import DEFAULT_TENANT

if TYPE_CHECKING:
    from gaiad.service import Service

_log = get_logger("gaiad.http")

T = TypeVar("T")


class TooLarge(BadInput):
    """The request body is above http.max_body_bytes."""

    http_status = 413
    code = "too_large"


class MethodNotAllowed(BadInput):
    """The route exists, for another method."""

    http_status = 405
    code = "method_not_allowed"


class Answer(NamedTuple):
    """A body to encode, with a status other than 200."""

    status: int
    body: object


Reply = object  # a struct or plain value to encode, an Answer, or a finished response


class Exchange:
    """One request under way: its checked body, its caller, and the calls made for it."""

    __slots__ = ("_beside", "_calls", "_deadline", "_max_body_bytes", "caller", "request", "service")

    def __init__(
        self,
        service: "Service",
        request: web.Request,
        caller: Caller,
        deadline: float | None,
        max_body_bytes: int,
        *,
        beside: bool,
    ) -> None:
        self.service = service
        self._beside = beside
        self.request = request
        self.caller = caller
        self._deadline = deadline
        self._max_body_bytes = max_body_bytes
        self._calls: list[Call] = []

    async def body(self, kind: type[T]) -> T:
        """The JSON body as `kind`. Raises TooLarge, BadInput naming the path of what is wrong."""
        try:
            if (self.request.content_length or 0) > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
            content = await self.request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._max_body_bytes) from error
        except web.RequestPayloadError as error:
            raise BadInput(f"{self.request.path}: the body cannot be unpacked: {error}; send it plain") from error
        try:
            return self._said(msgspec.json.decode(content or b"{}", type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(f"{self.request.path}: the body does not fit: {error}") from error

    def _said(self, body: T) -> T:
        """`body`, a turn's with the channel of the caller: what the page says was said there, whatever it claims."""
        if self.channel is None or not isinstance(body, ChatRequest):
            return body
        return msgspec.structs.replace(body, channel=self.channel)

    @property
    def channel(self) -> Literal["web_chat"] | None:
        """Where what comes with this request was said, when the credential decides it: the page's does."""
        return self.caller.channel or None

    @property
    def scrubbed(self) -> bool:
        """Whether this caller reads what is stored scrubbed only: the page does, unless [redaction] says otherwise."""
        return self.channel is not None and self.service.conversations.scrubs(self.channel)

    async def shown(self, stored: object) -> object:
        """What is stored as this caller may read it (decision 16). Raises Withheld for what he may not see at all."""
        stored = await self._seen(stored)
        return stored if not self.scrubbed else (await self._shown(stored))[0]

    async def shown_reply(self, reply: Reply) -> Reply:
        """An answer that may hold stored words; `redactions` in it tells how many of which kind were taken out."""
        if isinstance(reply, web.StreamResponse):
            return reply
        status, body = reply if isinstance(reply, Answer) else (200, reply)
        body = await self._seen(body)
        if not self.scrubbed:
            return Answer(status, body)
        value, redactions = await self._shown(body)
        return Answer(status, {**value, "redactions": redactions} if redactions else value)

    async def _seen(self, stored: object) -> object:
        """What is stored beside the archive without what this caller's channel may not see. Raises Withheld."""
        if not self._hidden or not self._beside:
            return stored
        record = msgspec.json.decode(msgspec.json.encode(stored))
        names, hidden = set(names_in(record)), set[str]()
        for tenant in self._told_of(record):
            if self.caller.may_use(tenant):
                hidden |= await self.service.hidden(names, self._call(tenant))
        return without(record, hidden)

    def _told_of(self, record: object) -> set[str]:
        """The tenants whose packets a record can name: its own, and those that were asked. The house has no packets."""
        of_record = record.get("tenant") if isinstance(record, dict) else None
        asked = (self.request.query.get("tenant"), *(call.tenant for call in self._calls))
        return {tenant for tenant in (of_record, *asked) if tenant and tenant != HOUSE} or {DEFAULT_TENANT}

    @property
    def _hidden(self) -> Collection[str]:
        """The labels of packets that this caller does not see."""
        return self._reads[0]

    @property
    def _reads(self) -> tuple[Collection[str], Collection[str]]:
        """What this caller's channel does not see, and what any does not."""
        return self.service.config.memory.hidden_from(self.channel or "cli_chat")

    async def _shown(self, stored: object) -> tuple[Any, list[RedactionCount]]:
        assert self.channel is not None
        tenant = self._calls[-1].tenant if self._calls else DEFAULT_TENANT
        return await self.service.conversations.shown(stored, self.channel, tenant)

    def require_unscrubbed(self, what: str) -> None:
        """Raise Forbidden for a caller that may not read what is stored as it is."""
        if self.scrubbed:
            raise Forbidden(f"{what}; the page reads scrubbed what is stored (redaction.channels.web_chat)")

    def call(self, tenant: str) -> Call:
        """A call for `tenant`, cancelled when the client departs. Raises Forbidden when the caller may not use it."""
        self.caller.require_tenant(tenant)
        call = self._call(tenant)
        self._calls.append(call)
        return call

    def _call(self, tenant: str) -> Call:
        call = Call(tenant=tenant, deadline=self._deadline, priority=Priority.PERSON)
        return call.without(*self._reads)

    async def tenants(self) -> list[str]:
        """The tenants that it is about: `?tenant=`, without it all that the caller may use."""
        if asked := self.request.query.get("tenant", ""):
            return [asked]
        if not self.caller.owner:
            return sorted(self.caller.tenants)
        return (await self.service.status(self.call(DEFAULT_TENANT))).tenants or [DEFAULT_TENANT]

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        for call in self._calls:
            call.cancel()


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the request body is larger than {limit} bytes; split it or raise http.max_body_bytes")


Handler = Callable[[Exchange], Awaitable[Reply]]


class Route(NamedTuple):
    """`public` needs no credential; `owner` names what only the owner may do; `timed` false has no time limit.

    A caller whose channel is scrubbed gets every answer scrubbed that is not `plain`: routed by its handler already, or
    without words of packets, sessions, turns or the council. One that streams sees to it itself (`Exchange.shown`).

    What a route tells that is kept `beside` the archive, and repeats what that holds, is withheld where it names
    what the caller does not see; of the archive's own the archive leaves that out.
    """

    method: str
    path: str
    handler: Handler
    owner: str = ""
    public: bool = False
    timed: bool = True
    plain: bool = False
    beside: bool = False


# ------------------------------------------------------------------------------------------------------ application


def build_app(service: "Service", door: Door, routes: Sequence[Route]) -> web.Application:
    """An application that serves `routes` to the callers `door` lets in."""
    limits = service.config.http
    app = web.Application(client_max_size=limits.max_body_bytes)
    app[STREAMS] = set()
    app[REQUESTS] = Requests()
    app.on_shutdown.append(end_streams)
    app.on_shutdown.append(_end_requests)
    app.on_response_prepare.append(_add_headers)
    for route in routes:
        app.router.add_route(route.method, route.path, _Endpoint(service, door, route).answer)
    paths = {route.path for route in routes}
    unknown = Route("*", "/{anything:.*}", _unknown(paths), public=True)
    app.router.add_route("OPTIONS", "/{anything:.*}", _Endpoint(service, door, _PREFLIGHT).answer)
    app.router.add_route("*", unknown.path, _Endpoint(service, door, unknown).answer)
    return app


async def _end_requests(app: web.Application) -> None:
    await app[REQUESTS].end()


async def start_listener(app: web.Application, listener: socket, stop_grace_s: float) -> web.AppRunner:
    """Serve `app` on `listener` until the runner's cleanup, which waits `stop_grace_s` for running requests."""
    app[REQUESTS].patience_s = stop_grace_s
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=ENDING_S / 2)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    return runner


async def stop_listener(runner: web.AppRunner, left_s: float) -> None:
    """The runner's cleanup with another time for running requests than it was started with."""
    runner.app[REQUESTS].patience_s = left_s
    await runner.cleanup()


class _Endpoint:
    """A route with everything around its handler."""

    def __init__(self, service: "Service", door: Door, route: Route) -> None:
        self._service = service
        self._door = door
        self._route = route
        self._timeout_s = service.config.http.request_timeout_s if route.timed else None
        self._max_body_bytes = service.config.http.max_body_bytes

    async def answer(self, request: web.Request) -> web.StreamResponse:
        request.app[REQUESTS].add()
        started = self._service.clock.monotonic()
        response = await self._guarded(request, started)
        took_ms = round((self._service.clock.monotonic() - started) * 1000, 2)
        _log.debug("request", method=request.method, path=request.path, status=response.status, took_ms=took_ms)
        return response

    async def _guarded(self, request: web.Request, started: float) -> web.StreamResponse:
        exchange: Exchange | None = None
        deadline = None if self._timeout_s is None else started + self._timeout_s
        timer = asyncio.timeout(self._timeout_s)
        try:
            async with timer:
                self._door.check(request)
                caller = _NOBODY if self._route.public else self._door.caller(request)
                if self._route.owner:
                    caller.require_owner(self._route.owner)
                limit, beside = self._max_body_bytes, self._route.beside
                exchange = Exchange(self._service, request, caller, deadline, limit, beside=beside)
                with self._door.under_way(caller):
                    reply = await self._route.handler(exchange)
                    return _respond(reply if self._route.plain else await exchange.shown_reply(reply))
        except asyncio.CancelledError:
            self._service.metrics.count("requests_abandoned")
            _cancel(exchange)
            raise
        except TimeoutError as error:
            _cancel(exchange)
            late = DeadlineExceeded(f"{request.path}: no answer within {self._timeout_s:g} s (http.request_timeout_s)")
            return await _failed(request, late if timer.expired() else error)
        except Exception as error:  # noqa: BLE001  (translated for the caller; an unexpected one is logged with its id)
            return await _failed(request, error)


async def _failed(request: web.Request, error: Exception) -> web.StreamResponse:
    """The error as an answer, or as the last event of a stream that has begun."""
    if STREAM not in request:
        return error_response(error, request.path)
    stream = request[STREAM]
    try:
        await stream.write(encode_event("error", error_body(error, request.path)[1]))
    except ConnectionResetError:
        _log.debug("reader_gone", path=request.path)
    return stream


def _cancel(exchange: Exchange | None) -> None:
    if exchange is not None:
        exchange.cancel()


def _respond(reply: Reply) -> web.StreamResponse:
    if isinstance(reply, web.StreamResponse):
        return reply
    status, body = reply if isinstance(reply, Answer) else (200, reply)
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=JSON)


_NOBODY = Caller(name="nobody", owner=False)


def _unknown(paths: set[str]) -> Handler:
    async def unknown(exchange: Exchange) -> Reply:
        path, method = exchange.request.path, exchange.request.method
        if path in paths:
            raise MethodNotAllowed(f"{path} does not take {method}")
        raise NotFound(f"{method} {path}: no such route; see GET /status, POST /search, POST /research, POST /ingest")

    return unknown


async def _preflight(exchange: Exchange) -> Reply:
    """A browser asks whether a page of an allowed foreign origin may call; the door has checked the origin."""
    headers = {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
        "Access-Control-Max-Age": "600",
    }
    return web.Response(status=204, headers=headers)


_PREFLIGHT = Route("OPTIONS", "/{anything:.*}", _preflight, public=True)


_HEADERS = {
    "Server": "gaiad",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """What keeps a browser strict; and that nothing is kept where a route does not say otherwise."""
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    if origin := request.get(FOREIGN_ORIGIN):
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
