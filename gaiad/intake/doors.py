"""How a listener knows who asks: by the peer's uid on the unix socket, by bearer token on TCP."""

from socket import socket
from typing import Protocol

from aiohttp import web

from gaiad.errors import Cancelled
from gaiad.intake.auth import Caller, PeerCheck, TokenCheck

FOREIGN_ORIGIN = web.RequestKey("foreign_origin", str)
"""The allowed origin of a page from elsewhere, where a request came from one."""


class Door(Protocol):
    """How a listener knows who asks."""

    def check(self, request: web.Request) -> None:
        """Refuse what may not even ask, whatever the route."""
        ...

    def caller(self, request: web.Request) -> Caller: ...


class UnixDoor:
    """Callers by peer uid."""

    def __init__(self, peers: PeerCheck) -> None:
        self._peers = peers

    def check(self, request: web.Request) -> None:
        """Nothing to look at before the uid: browsers cannot reach a unix socket."""

    def caller(self, request: web.Request) -> Caller:
        return self._peers.caller(_connection(request))


class TcpDoor:
    """Callers by bearer token, after Host and Origin."""

    def __init__(self, tokens: TokenCheck) -> None:
        self._tokens = tokens

    def check(self, request: web.Request) -> None:
        self._tokens.check_host(request.headers.get("Host", ""))
        if self._tokens.check_origin(request.headers.get("Origin", "")):
            request[FOREIGN_ORIGIN] = request.headers["Origin"]

    def caller(self, request: web.Request) -> Caller:
        return self._tokens.caller(request.headers.get("Authorization", ""))


def _connection(request: web.Request) -> socket:
    if request.transport is None:
        raise Cancelled("the client went away")
    connection: socket = request.transport.get_extra_info("socket")
    return connection
