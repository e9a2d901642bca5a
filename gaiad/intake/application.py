"""The HTTP application: which route, for which caller, within which time and size.

The same table of routes (`routes.py`) is served on both listeners; they differ in how they know the caller (`Door`).
What a handler is given, and what of its answer this caller may read, is the exchange's business (`exchange.py`).
"""

import asyncio
from collections.abc import Sequence
from socket import socket
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from gaiad.base.errors import BadInput, DeadlineExceeded, NotFound
from gaiad.base.logs import get_logger
from gaiad.intake.auth import Caller
from gaiad.intake.connections import ENDING_S, IDLE_S, REQUESTS, Requests, Site, most_connections
from gaiad.intake.doors import FOREIGN_ORIGIN, Door
from gaiad.intake.exchange import JSON, Exchange, Handler, Reply, ReplyWithStatus, Route, error_body, error_response
from gaiad.intake.streams import STREAM, STREAMS, encode_event, end_streams

if TYPE_CHECKING:
    from gaiad.service.service import Service


_log = get_logger("gaiad.http")


class MethodNotAllowed(BadInput):
    """The route exists, for another method."""

    http_status = 405
    code = "method_not_allowed"


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
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=ENDING_S / 2,
        keepalive_timeout=IDLE_S,
        auto_decompress=False,  # a few bytes of anybody's would be unpacked to gigabytes
    )
    await runner.setup()
    await Site(runner, listener, most_connections()).start()
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
        started = self._service.clock.monotonic()
        with request.app[REQUESTS].answering(request):
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
                _refuse_packed(request)
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


def _refuse_packed(request: web.Request) -> None:
    if (packing := request.headers.get("Content-Encoding", "identity")) != "identity":
        raise BadInput(f"{request.path}: Content-Encoding {packing!r} is not supported; send the body uncompressed")


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
    status, body = reply if isinstance(reply, ReplyWithStatus) else (200, reply)
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=JSON)


_NOBODY = Caller(name="nobody", owner=False)


def _unknown(paths: set[str]) -> Handler:
    async def unknown(exchange: Exchange) -> Reply:
        path, method = exchange.request.path, exchange.request.method
        if path in paths:
            raise MethodNotAllowed(f"{path} does not accept {method}")
        raise NotFound(f"{method} {path}: no such route; see GET /status, POST /search, POST /research, POST /ingest")

    return unknown


async def _preflight(exchange: Exchange) -> Reply:
    """A browser asks whether a page of an allowed foreign origin may call; the door has checked the origin."""
    headers = {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, api-key, x-api-key, Content-Type, Last-Event-ID",
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
