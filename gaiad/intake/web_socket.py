"""Events over a WebSocket, for readers that would rather have it than server-sent events; the same events in JSON.

A message is {"id": NUMBER, "event": NAME, "data": ...}. What the reader sends is not looked at.
"""

import asyncio
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from gaiad.base.tasks import TaskGroup
from gaiad.intake.exchange import error_body
from gaiad.intake.sse import KEEP_ALIVE_S, STREAMS, EventStream

_MOST_READ = 4096  # bytes of one message of the reader
_CLOSE_S = 2.0
_FAILED = 1011  # RFC 6455: an unexpected condition


def event_stream(request: web.Request) -> "EventStream | EventSocket":
    """The stream that the reader asks for: a WebSocket when it wants to upgrade, else server-sent events."""
    return EventSocket(request) if web.WebSocketResponse().can_prepare(request).ok else EventStream(request)


class EventSocket:
    """As EventStream, for one WebSocket. An error is its last event, `error`."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._tasks = TaskGroup("web-socket")
        self.response = web.WebSocketResponse(heartbeat=KEEP_ALIVE_S, max_msg_size=_MOST_READ, timeout=_CLOSE_S)

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        task = asyncio.current_task()
        assert task is not None
        self._request.app[STREAMS].add(task)
        self._tasks.start("read", self._read(task))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task = asyncio.current_task()
        if task is not None:
            self._request.app[STREAMS].discard(task)
        await self._tasks.stop()
        if isinstance(error, Exception) and not isinstance(error, ConnectionResetError) and not self.response.closed:
            await self.send("error", error_body(error, self._request.path)[1])
        await self.response.close(code=_FAILED if error else 1000)
        return isinstance(error, Exception)

    async def send(self, event: str, data: object, identifier: int | str | None = None) -> None:
        """Send one event with `data` as JSON. Raises ConnectionResetError when the reader has gone."""
        message = {"id": identifier, "event": event, "data": data}
        await self.response.send_str(msgspec.json.encode(message).decode())

    async def _read(self, sending: "asyncio.Task[Any]") -> None:
        """Answer pings; a reader that leaves ends the sending."""
        async for _ in self.response:
            pass
        sending.cancel()
