"""Connections and requests of a listener: how many may be open, and how a stop ends those that are being answered.

Any local program can open the TCP port. Each listener has its own cap, so connections on one never take the other's
share, nor the files that the rest of the daemon opens. At the cap the connection that has waited longest is closed for
the new one; when every connection is being answered, the new one gets a 503.
"""

import asyncio
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gaiad.base.logs import get_logger
from gaiad.intake.sockets import BACKLOG

ENDING_S = 2.0
"""How long one that was broken off may take to end in order."""
_log = get_logger("gaiad.http")


class Requests:
    """One for a listener. `patience_s` is how long `end` waits for them; a stop says what is left of its time."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connections: set[asyncio.BaseProtocol] = set()
        self.patience_s = 0.0

    @contextmanager
    def answering(self, request: web.Request) -> Iterator[None]:
        """Around the handler. The current task counts as under way until the answer is written."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._connections.add(request.protocol)
        try:
            yield
        finally:
            self._connections.discard(request.protocol)

    def answers(self, connection: asyncio.BaseProtocol) -> bool:
        """Whether a handler is at work for this connection."""
        return connection in self._connections

    async def end(self) -> None:
        """Wait for those under way; cancel those that are still there then."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=self.patience_s)
        for task in late:
            task.cancel()
        if late:
            _log.info("requests_broken_off", requests=len(late), waited_s=round(self.patience_s, 1))
            await asyncio.wait(late, timeout=ENDING_S)


REQUESTS = web.AppKey("requests", Requests)


IDLE_S = 20.0
"""How long a connection may take to send its next request with all headers."""
_MOST = 512
_SHARE = 4  # of the files that may be open, for each listener
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n%s"
)
_BUSY_BODY = b'{"code":"unavailable","message":"gaiad has too many open connections; try again soon","retry_after_s":1}'


def most_connections() -> int:
    """The cap of one listener under the present limit on open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // _SHARE))


class Site(web.BaseSite):
    """Serves `runner` on a listening socket, `most` connections at once."""

    def __init__(self, runner: web.AppRunner, listener: socket, most: int) -> None:
        super().__init__(runner)
        self._listener = listener
        assert runner.server is not None
        self._protocols = _Protocols(runner.server, runner.app[REQUESTS], most)

    @property
    def name(self) -> str:
        return str(self._listener.getsockname())

    async def start(self) -> None:
        await super().start()
        logging.getLogger("aiohttp.server").addFilter(_without_content)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocols, sock=self._listener, backlog=BACKLOG)


class _Protocols:
    """Makes the protocol of each new connection."""

    def __init__(self, server: web.Server, requests: Requests, most: int) -> None:
        self._server = server
        self._requests = requests
        self._most = most

    def __call__(self) -> asyncio.Protocol:
        open_now = [one for one in self._server.connections if one.transport is not None]
        if len(open_now) < self._most:
            return self._server()
        waiting = next((one for one in open_now if not self._requests.answers(one)), None)
        if waiting is None:
            return _RefusingProtocol()
        waiting.force_close()
        return self._server()


class _RefusingProtocol(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        out = cast("asyncio.Transport", transport)
        out.write(_BUSY % (len(_BUSY_BODY), _BUSY_BODY))
        out.close()


def _without_content(record: logging.LogRecord) -> bool:
    """Keep a malformed request's bytes out of the log: there may be a token among them."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.msg, record.args, record.exc_info = f"malformed request ({type(error).__name__})", (), None
    return True
