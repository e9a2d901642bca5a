"""Who is asking, and for which tenants: uids on the unix socket, bearer tokens on TCP (decision 23).

A browser page can reach a loopback port, so TCP also checks the Host header (DNS rebinding) and the Origin. Other uids
reach the socket only where the system lets them in (a systemd socket unit with a group, say): gaiad's own is 0600.
"""

import hmac
import os
import secrets
import socket
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gaiad.base.errors import ConfigError, Forbidden, Unauthorized
from gaiad.base.home import replace_file

_PEER_CREDENTIALS = struct.Struct("3i")
_TOKEN_BYTES = 32
GRANTS = frozenset({"approve", "write"})
"""What the line of a token may grant it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A credential: the owner may do everything; others only use their tenants.

    `channel` is where everything this caller says was said ("" where the request itself tells), `session` the one of
    the page's it belongs to. `in_person` holds for the owner's uid and the page's login; a token is for programs, and
    does what is left to persons only where its `grants` name it.
    """

    name: str
    owner: bool
    tenants: frozenset[str] = frozenset()
    channel: Literal["", "web_chat"] = ""
    session: str = ""
    in_person: bool = False
    grants: frozenset[str] = frozenset()

    def may_use(self, tenant: str) -> bool:
        return self.owner or tenant in self.tenants

    def require_tenant(self, tenant: str) -> None:
        """Raise Forbidden unless the credential covers `tenant`."""
        if not self.may_use(tenant):
            covered = ", ".join(sorted(self.tenants)) or "none"
            raise Forbidden(f"{self.name} may not use tenant {tenant!r}; its tenants: {covered}")

    def require_owner(self, what: str) -> None:
        """Raise Forbidden unless this is the owner."""
        if not self.owner:
            raise Forbidden(f"{what} is for the owner; {self.name} may use tenants, not administer the daemon")

    def require_person(self, what: str) -> None:
        """Raise Forbidden unless a person asks who is the owner, or a token that was granted `what`."""
        if not self.in_person and what not in self.grants:
            remedy = f"; its line in <home>/token can grant it with +{what}" if what in GRANTS else ""
            raise Forbidden(
                f"{what}: only the owner may, in a terminal or on the page, and {self.name} may not{remedy}"
            )

    def require_terminal(self, what: str) -> None:
        """Raise Forbidden unless the owner asks from the command line."""
        self.require_person(what)
        if self.session:
            raise Forbidden(f"{what}: run `gaiad {what} DIRECTORY` in a terminal; the page may not choose a directory")


# ------------------------------------------------------------------------------------------------- unix socket


class PeerCheck:
    """Callers of the unix socket by the uid the kernel names; `uids` gives the live access.uids setting."""

    def __init__(self, uids: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._uids = uids

    def caller(self, connection: socket.socket) -> Caller:
        """Raise Forbidden for a uid without an entry."""
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        _, uid, _ = _PEER_CREDENTIALS.unpack(packed)
        return self.caller_of(uid)

    def caller_of(self, uid: int) -> Caller:
        """The caller with this uid: the daemon's own is the owner."""
        if uid == os.getuid():
            return Caller(name=f"uid {uid}", owner=True, in_person=True)
        tenants = self._uids().get(str(uid))
        if tenants is None:
            raise Forbidden(f'uid {uid} may not use this socket; the owner can add access.uids = {{"{uid}" = [...]}}')
        return Caller(name=f"uid {uid}", owner=False, tenants=frozenset(tenants))


# ---------------------------------------------------------------------------------------------------- bearer token


class TokenFile:
    """The token file: `TOKEN [tenant ...] [+approve] [+write]` a line; `#` starts a comment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._callers: list[tuple[bytes, Caller]] = []

    def load(self) -> None:
        """Read the file, making it with one owner's token when there is none. Raises ConfigError, keeping the last."""
        if not self._path.exists():
            replace_file(self._path, secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n")
        text = read_private(self._path, "delete it and restart gaiad to create one")
        self._callers = _parse_tokens(text, self._path)

    def caller(self, presented: str) -> Caller | None:
        """Whose token it is, comparing with every one in constant time."""
        given, found = presented.encode("utf-8", "surrogateescape"), None
        for token, caller in self._callers:
            if hmac.compare_digest(token, given):
                found = caller
        return found


def _parse_tokens(text: str, path: Path) -> list[tuple[bytes, Caller]]:
    callers = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        token, *rest = words
        tenants = [word for word in rest if not word.startswith("+")]
        grants = frozenset(word[1:] for word in rest if word.startswith("+"))
        if grants - GRANTS:
            raise ConfigError(f"{path} line {number}: a token can be granted +approve and +write, nothing else")
        if len(token) < 16:
            raise ConfigError(f"{path} line {number}: a token needs at least 16 characters")
        name = "the owner's token" if not tenants else f"token of {path.name} line {number}"
        caller = Caller(name=name, owner=not tenants, tenants=frozenset(tenants), grants=grants)
        callers.append((token.encode(), caller))
    if not callers:
        raise ConfigError(f"{path}: contains no token; delete the file and restart gaiad to create one")
    return callers


# -------------------------------------------------------------------------------------------------- private files


def read_private(path: Path, remedy: str) -> str:
    """The text of a file only we can read. Raises ConfigError, ending in `remedy`, for any other."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConfigError(f"{path}: is not a regular file; {remedy}")
    with os.fdopen(descriptor, encoding="ascii", errors="surrogateescape") as file:
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(f"{path}: other users can read it, so it is no longer trusted; {remedy}")
        return file.read()


class TokenCheck:
    """Callers of the TCP listener on `port`: Host, Origin, then the bearer token."""

    def __init__(self, tokens: TokenFile, port: int, allowed_origins: Sequence[str]) -> None:
        self._tokens = tokens
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())
        self._own_origins = frozenset(f"http://{host}" for host in self._hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)

    def check_host(self, host: str) -> None:
        """Raise Forbidden for a Host header that is not this machine's loopback with our port (DNS rebinding)."""
        if host.lower() not in self._hosts:
            raise Forbidden(f"Host {host!r} is not this daemon; use http://127.0.0.1 with its port")

    def check_origin(self, origin: str) -> bool:
        """Whether a browser page's Origin is a foreign one that is allowed. Raises Forbidden for the others."""
        if not origin or origin.lower() in self._own_origins:
            return False
        if origin.lower() in self._origins:
            return True
        raise Forbidden(f"Origin {origin!r} is not allowed; the owner can add it to http.allowed_origins")

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Raise Unauthorized without a token that somebody issued, and for headers that do not agree."""
        presented = {_presented(name, headers[name]) for name in TOKEN_HEADERS if name in headers}
        if len(presented) > 1:
            raise Unauthorized(f"{' and '.join(TOKEN_HEADERS)} hold different tokens; send one of them")
        token = presented.pop() if presented else ""
        if not token:
            raise Unauthorized("this listener requires `Authorization: Bearer TOKEN`; the token is in <home>/token")
        caller = self._tokens.caller(token)
        if caller is None:
            raise Unauthorized("the bearer token is not one of this daemon's; the token is in <home>/token")
        return caller


TOKEN_HEADERS = ("Authorization", "api-key", "x-api-key")
"""Where clients put the token; the latter two hold it bare, as those of Azure and Anthropic do."""


def _presented(name: str, value: str) -> str:
    if name != "Authorization":
        return value.strip()
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
