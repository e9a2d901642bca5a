"""How a listener knows who asks: by the peer's uid on the unix socket, by bearer token or the page's cookie on TCP."""

from asyncio import BaseTransport
from contextlib import AbstractContextManager, nullcontext
from socket import socket
from typing import Protocol
from weakref import WeakKeyDictionary

from aiohttp import web

from gaiad.errors import Cancelled, Forbidden, Unauthorized
from gaiad.intake.auth import Caller, PeerCheck, TokenCheck
from gaiad.intake.peer_uids import uid_of_peer
from gaiad.intake.web_login import WebLogins

FOREIGN_ORIGIN = web.RequestKey("foreign_origin", str)
"""The allowed origin of a page from elsewhere, where a request came from one."""

PAGE_HEADER = "X-Gaiad"
"""Sent by our page with whatever may change something; another site's page would have to ask first, and is refused."""


class Door(Protocol):
    """How a listener knows who asks."""

    def check(self, request: web.Request) -> None:
        """Refuse what may not even ask, whatever the route."""
        ...

    def caller(self, request: web.Request) -> Caller: ...

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        """Held while a request of `caller` is answered."""
        ...


class UnixDoor:
    """Callers by peer uid."""

    def __init__(self, peers: PeerCheck) -> None:
        self._peers = peers

    def check(self, request: web.Request) -> None:
        """Nothing to look at before the uid: browsers cannot reach a unix socket."""

    def caller(self, request: web.Request) -> Caller:
        return self._peers.caller(_connection(request))

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        return nullcontext()


class PageCookie:
    """The page's cookie: whose session it stands for, asked from which uid."""

    def __init__(self, logins: WebLogins) -> None:
        self._logins = logins
        self._uids: WeakKeyDictionary[BaseTransport, int | None] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self._logins.cookie

    def caller(self, request: web.Request) -> Caller | None:
        """None without a cookie, and for one of a session that has ended or belongs to another uid."""
        value = request.cookies.get(self.name, "")
        return self._logins.caller(value, self.uid(request)) if value else None

    def uid(self, request: web.Request) -> int | None:
        """Whose program asks over TCP, where the system tells; looked up once a connection."""
        connection, transport = _connection(request), request.transport
        assert transport is not None
        if transport not in self._uids:
            self._uids[transport] = uid_of_peer(connection)
        return self._uids[transport]

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        """Held while a request is answered, which ends with its session."""
        return self._logins.under_way(caller)


class TcpDoor:
    """Callers by bearer token or by the page's cookie, after Host and Origin."""

    def __init__(self, tokens: TokenCheck, page: PageCookie | None = None) -> None:
        self._tokens = tokens
        self._page = page

    def check(self, request: web.Request) -> None:
        self._tokens.check_host(request.headers.get("Host", ""))
        if self._tokens.check_origin(request.headers.get("Origin", "")):
            request[FOREIGN_ORIGIN] = request.headers["Origin"]

    def caller(self, request: web.Request) -> Caller:
        page = self._page
        if page is None or "Authorization" in request.headers or page.name not in request.cookies:
            return self._tokens.caller(request.headers.get("Authorization", ""))
        _check_page(request)
        caller = page.caller(request)
        if caller is None:
            raise Unauthorized("this browser's login has ended; run `gaiad web` and open the link it prints")
        return caller

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        return nullcontext() if self._page is None else self._page.under_way(caller)


def _check_page(request: web.Request) -> None:
    """Raise Forbidden unless our own page asks: a browser adds its cookies whoever has it ask.

    A page of another port counts as the same site, so SameSite does not keep it out; what it cannot do is send our
    header or our Origin.
    """
    headers = request.headers
    if FOREIGN_ORIGIN in request:
        raise Forbidden(
            f"Origin {request[FOREIGN_ORIGIN]!r} needs a bearer token; the cookie is for the daemon's own page"
        )
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        raise Forbidden("another site's page asks with the cookie of the daemon's own; it needs a bearer token")
    if request.method in ("GET", "HEAD"):
        return
    if headers.get(PAGE_HEADER) != "page" or headers.get("Origin", "").lower() != f"http://{request.host}".lower():
        raise Forbidden(
            f"with the page's cookie a {request.method} needs `{PAGE_HEADER}: page` and the page's own Origin"
        )
    if request.body_exists and request.content_type != "application/json":
        raise Forbidden(f"with the page's cookie a body is application/json, not {request.content_type}")


def _connection(request: web.Request) -> socket:
    if request.transport is None:
        raise Cancelled("the client went away")
    connection: socket = request.transport.get_extra_info("socket")
    return connection
