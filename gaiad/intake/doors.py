"""How a listener knows who asks: by the peer's uid on the unix socket, by bearer token or the page's cookie on TCP."""

import socket
import struct
import sys
from asyncio import BaseTransport
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from aiohttp import web

from gaiad.base.errors import Cancelled, Forbidden, Unauthorized
from gaiad.intake.auth import TOKEN_HEADERS, Caller, PeerCheck, TokenCheck
from gaiad.intake.web_login import WebLogins

_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2  # linux/netlink.h, linux/sock_diag.h
_OPEN_IN_TABLE = "01"
_ESTABLISHED, _ANY_STATE, _NO_COOKIE = 1, 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_QUERY = struct.Struct("=BBBBI4s16s16sIII")  # inet_diag_req_v2
_FOUND = struct.Struct("=BBBB4s16s16s12sIIIII")  # inet_diag_msg
_ANSWER_BYTES, _ANSWER_S = 8192, 1.0
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOKS = 3  # a table that changes while it is read may leave out a line
_V4_IN_V6 = bytes(10) + b"\xff\xff"


def uid_of_peer(connection: socket.socket) -> int | None:
    """The uid of the socket `connection` is connected to on this machine; None where the system does not tell.

    None as well when that socket has been closed or shut meanwhile: nobody holds it any longer.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        ours, peer = connection.getsockname(), connection.getpeername()
    except OSError:  # it has gone
        return None
    found = _asked(connection.family, peer[:2], ours[:2])
    if found is not None:
        return found.uid if found.state == _ESTABLISHED else None
    uid, looks = None, 0
    while uid is None and looks < _LOOKS:
        uid, looks = _looked_up(peer[:2], ours[:2]), looks + 1
    return uid


class _Found(NamedTuple):
    """A socket as the kernel knows it; `uid` means something only of an established one."""

    state: int
    uid: int


def _asked(family: int, local: tuple[str, int], remote: tuple[str, int]) -> _Found | None:
    """What the kernel says of the socket at `local` that is connected to `remote`; None when it says nothing of it."""
    ports = struct.pack("!HH", local[1], remote[1])
    addresses = (socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0") for address, _ in (local, remote))
    interface = 0
    flow = (ports, *addresses, interface, _NO_COOKIE, _NO_COOKIE)
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE, *flow)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(_ANSWER_S)
            kernel.send(_HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 1, 0) + query)
            answer = kernel.recv(_ANSWER_BYTES)
    except (AttributeError, OSError):  # not Linux, or not allowed
        return None
    return _read_answer(answer, ports)


def _read_answer(answer: bytes, ports: bytes) -> _Found | None:
    if len(answer) < _HEADER.size + _FOUND.size or _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    _, state, _, _, found_ports, *_, uid, _inode = _FOUND.unpack_from(answer, _HEADER.size)
    return _Found(int(state), int(uid)) if found_ports == ports else None


def _looked_up(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()
        except OSError:  # not Linux, or without IPv6
            continue
        uid = find_uid(lines, local, remote)
        if uid is not None:
            return uid
    return None


def find_uid(lines: Iterable[str], local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The uid of the socket at `local` that is connected to `remote`, (address, port) each, by a table of /proc/net."""
    locals_, remotes = _spellings(*local), _spellings(*remote)
    for line in lines:
        words = line.split(maxsplit=8)
        if len(words) > 7 and words[1] in locals_ and words[2] in remotes and words[3] == _OPEN_IN_TABLE:
            return int(words[7])
    return None


def _spellings(address: str, port: int) -> set[str]:
    """How the kernel may write it: words of 32 bits in hexadecimal as they lie in memory; IPv4 within IPv6 too."""
    if ":" not in address:
        address = f"::ffff:{address}"
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    forms = [packed, packed[12:]] if packed.startswith(_V4_IN_V6) else [packed]
    return {f"{_words(form)}:{port:04X}" for form in forms}


def _words(packed: bytes) -> str:
    numbers = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{number:08X}" for number in numbers)


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
    """The page's cookie: whose session it belongs to, asked from which uid."""

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
        presents = any(name in request.headers for name in TOKEN_HEADERS)
        if page is None or presents or page.name not in request.cookies:
            return self._tokens.caller(request.headers)
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


def _connection(request: web.Request) -> socket.socket:
    if request.transport is None:
        raise Cancelled("the client went away")
    connection: socket.socket = request.transport.get_extra_info("socket")
    return connection
