"""One HTTP connection to the daemon's unix socket, standard library only: exchanges, streams, and errors as our own.

What the routes are called and what they answer with is the client's business.
"""

import http.client
import os
import shlex
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from select import select
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from gaiad.base.errors import (
    BadInput,
    DaemonUnreachable,
    DaemonWentAway,
    DeadlineExceeded,
    Forbidden,
    GaiadError,
    Unavailable,
)
from gaiad.base.home import SOCKET_NAME, daemon_at, find_home, socket_of_daemon
from gaiad.wire.schemas import ErrorBody, Output

CONNECT_TIMEOUT_S = 5.0
START_TIMEOUT_S = 60.0
_START_PAUSE_S = 0.05
ANSWER_TIMEOUT_S = 150.0
_PIECE_BYTES = 65536
_NOBODY_LISTENS = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)

T = TypeVar("T")


class ServerEvent(Output, frozen=True):
    """One server-sent event; `data` is decoded JSON."""

    id: str
    event: str
    data: Any


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(CONNECT_TIMEOUT_S)
            self.sock.connect(str(self.path))
        except BaseException:
            self.close()
            raise


def find_socket(home: str | None, environment: Mapping[str, str]) -> Path:
    """Where the daemon listens: with `home` as for that home, else GAIAD_SOCKET, else as for the home in force.

    --home and GAIAD_HOME put a socket in different places, and each finds the other's: the daemon notes where it is.
    """
    if not home and environment.get("GAIAD_SOCKET"):
        return Path(environment["GAIAD_SOCKET"])
    found = find_home(home, environment)
    if noted := socket_of_daemon(found):
        return noted
    inside = found.root / SOCKET_NAME  # another user's home cannot be read, its socket may be there
    return inside if not os.path.lexists(found.socket) and os.path.lexists(inside) else found.socket


class DaemonConnection:
    """Opened at the first exchange and kept; for one thread. `home` is what --home says, None without.

    Every method raises the GaiadError the daemon answered with, DaemonUnreachable when none answers, DaemonWentAway
    when it goes away under the call, DeadlineExceeded when it does not answer in time.
    """

    def __init__(self, home: str | None, environment: Mapping[str, str]) -> None:
        self.socket_path = find_socket(home, environment)
        self._waits = bool(home) or not environment.get("GAIAD_SOCKET")
        self._home = find_home(home, environment)
        self._start_command = f"gaiad serve --home {shlex.quote(home)}" if home else "gaiad serve"
        self._connection = _UnixConnection(self.socket_path)

    def close(self) -> None:
        """Close it; the daemon cancels whatever it was still doing for it."""
        self._connection.close()

    def call(
        self, method: str, path: str, kind: type[T], body: object = None, timeout_s: float | None = ANSWER_TIMEOUT_S
    ) -> T:
        """The answer decoded as `kind`."""
        content = self.exchange(method, path, body, timeout_s)
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as error:
            raise GaiadError(
                f"the daemon on {self.socket_path} answered {path} in a way this version does not know ({error}); "
                "stop it and start the installed one"
            ) from error

    def exchange(self, method: str, path: str, body: object, timeout_s: float | None) -> bytes:
        """The answer's bytes."""
        try:
            return self._request(method, path, body, timeout_s, "application/json").read()
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error

    def _request(
        self, method: str, path: str, body: object, timeout_s: float | None, accept: str
    ) -> http.client.HTTPResponse:
        content = None if body is None else _encode(body)
        headers = {"Accept": accept, "Content-Type": "application/json"}
        try:
            if self._connection.sock is not None and select([self._connection.sock], [], [], 0)[0]:
                self._connection.close()  # the daemon closes a connection that was idle
            if self._connection.sock is None:
                self._connect()
            self._connection.sock.settimeout(timeout_s)
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            if response.status >= 400:
                raise error_from_answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error
        return response

    def _connect(self) -> None:
        """While a daemon holds the home and does not listen yet, it starts: wait up to START_TIMEOUT_S for it."""
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self._connection.connect()
                return
            except _NOBODY_LISTENS:
                if not self._waits or daemon_at(self._home) is None or time.monotonic() > give_up_at:
                    raise
            time.sleep(_START_PAUSE_S)
            if noted := socket_of_daemon(self._home):
                self.socket_path = self._connection.path = noted

    def stream(self, method: str, path: str, body: object) -> Iterator[ServerEvent]:
        """Events as they come, without a time limit; the connection is closed at their end."""
        response = self._request(method, path, body, None, "text/event-stream")
        try:
            for event in parse_events(_lines(response)):
                if event.event == "error":
                    raise error_from_body(msgspec.convert(event.data, ErrorBody))
                yield event
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error
        finally:
            self.close()

    def _translate(self, error: Exception, method: str, path: str) -> GaiadError:
        self._connection.close()
        where = str(self.socket_path)
        if isinstance(error, _NOBODY_LISTENS):
            if pid := daemon_at(self._home):
                return DaemonUnreachable(
                    f"the daemon (pid {pid}) does not listen on {where}: it starts or stops; see gaiad logs"
                )
            return DaemonUnreachable(f"no daemon answers on {where}; start one with: {self._start_command}")
        if isinstance(error, PermissionError):
            return Forbidden(f"{where}: this user may not open the daemon's socket; run as its owner")
        if isinstance(error, TimeoutError):
            return DeadlineExceeded(f"the daemon on {where} did not answer {method} {path} in time; look at its log")
        if isinstance(error, ConnectionError | http.client.HTTPException):
            return DaemonWentAway(
                f"the daemon on {where} went away during {method} {path}; try again, or look at its log"
            )
        if "too long" in str(error):
            return BadInput(
                f"{where}: too long for a unix socket (about 100 characters); set GAIAD_SOCKET to a shorter one"
            )
        return GaiadError(f"{where}: {error}")


def _encode(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise BadInput(f"{error.object!r} is not valid Unicode, so it cannot be sent; rename the file") from error


def error_from_answer(status: int, content: bytes) -> GaiadError:
    """The error an answer of HTTP `status` 400 or above means; plain text when it is not an ErrorBody."""
    try:
        return error_from_body(msgspec.json.decode(content, type=ErrorBody))
    except msgspec.DecodeError:
        text = content.decode("utf-8", "replace").strip()[:200]
        return GaiadError(f"the daemon answered HTTP {status}: {text or 'without a reason'}")


def error_from_body(body: ErrorBody) -> GaiadError:
    """The error class whose `code` is the body's, with its message; GaiadError for a code this version lacks."""
    kind = _classes_by_code(GaiadError).get(body.code, GaiadError)
    if issubclass(kind, Unavailable):
        return kind(body.message, body.retry_after_s or 1.0)
    return kind(body.message)


def _classes_by_code(base: type[GaiadError]) -> dict[str, type[GaiadError]]:
    found = {base.code: base}
    for kind in base.__subclasses__():
        for code, deeper in _classes_by_code(kind).items():
            found.setdefault(code, deeper)
    return found


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """A response's lines as they come; its own iterator takes a connection that broke off for the end."""
    rest = b""
    while piece := response.read1(_PIECE_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def parse_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Server-sent events out of a response's lines; comments (keep-alives) are skipped, several data lines joined."""
    identifier, event, data = "", "", list[str]()
    for line in lines:
        name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            identifier = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif not name and not value and data:
            yield ServerEvent(id=identifier, event=event or "message", data=_decode_data("\n".join(data)))
            event, data = "", []


def _decode_data(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def query_of(**given: str) -> str:
    """A query string of what is not ""; "" when nothing is left."""
    kept = {name: value for name, value in given.items() if value}
    return f"?{urlencode(kept)}" if kept else ""
