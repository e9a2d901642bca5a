"""Streams of events, each kept alive and ended quietly when either side goes: server-sent events, or a WebSocket.

A message of a WebSocket is {"id": NUMBER, "event": NAME, "data": ...}. What its reader sends is not looked at.
"""

import asyncio
import math
import re
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from gaiad.base.tasks import TaskGroup
from gaiad.intake.exchange import error_body

KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": keep-alive\n\n"
PATIENCE_S = 30.0
"""How long a reader that comes back where it stopped may take nothing at all."""
STREAM = web.RequestKey("stream", web.StreamResponse)
STREAMS = web.AppKey("streams", set["asyncio.Task[Any]"])
_LONGEST_ID = 18  # digits; more would not be taken for a number
_MOST_READ = 4096  # bytes of one message of a WebSocket's reader
_CLOSE_S = 2.0
_FAILED = 1011  # RFC 6455: an unexpected condition
_LINE_BREAK = re.compile(r"[\r\n]")


def wants_events(request: web.Request) -> bool:
    """Whether the caller asked for a stream in place of one answer."""
    return "text/event-stream" in request.headers.get("Accept", "")


def last_event_id(request: web.Request) -> int | None:
    """Where to go on: Last-Event-ID, else `?after=`; None is from now on, also for what can be no number of ours."""
    text = request.headers.get("Last-Event-ID") or request.query.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID else None


def encode_event(event: str, data: object, identifier: int | str | None = None) -> bytes:
    """One event with `data` as JSON on its single line."""
    name = _LINE_BREAK.sub(" ", event).encode()
    head = b"" if identifier is None else f"id: {identifier}\n".encode()
    return head + b"event: " + name + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


class _Stream:
    """A stop of the listener cancels the streams that are open."""

    response: web.StreamResponse

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._tasks = TaskGroup("stream")

    async def _open(self) -> "asyncio.Task[Any]":
        """The task that sends, which a stop cancels."""
        await self.response.prepare(self._request)
        task = asyncio.current_task()
        assert task is not None
        self._request.app[STREAMS].add(task)
        return task

    async def _end(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._request.app[STREAMS].discard(task)
        await self._tasks.stop()


class EventStream(_Stream):
    """`async with EventStream(request) as stream`, then `send`.

    With `patient` a reader that takes nothing for PATIENCE_S is left, and costs no more: for streams that it can go on
    with.
    """

    def __init__(self, request: web.Request, *, patient: bool = False) -> None:
        super().__init__(request)
        self._patience_s = PATIENCE_S if patient else math.inf
        self._sent = 0
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )

    async def __aenter__(self) -> Self:
        await self._open()
        self._request[STREAM] = self.response
        self._tasks.start("keep-alive", self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self._end()
        return isinstance(error, ConnectionResetError)

    async def send(self, event: str, data: object, identifier: int | str | None = None) -> None:
        """Send one event with `data` as JSON. Raises ConnectionResetError when the reader has gone."""
        await self.write(encode_event(event, data, identifier))

    async def write(self, content: bytes) -> None:
        """Send events that are encoded already. Raises as `send`."""
        self._sent += len(content)
        await self.response.write(content)

    async def _keep_alive(self) -> None:
        transport, taken, stalled_s = self._request.transport, 0, 0.0
        while transport is not None and not transport.is_closing():
            waiting = transport.get_write_buffer_size()
            stalled_s = stalled_s + KEEP_ALIVE_S if waiting and self._sent - waiting <= taken else 0.0
            taken = self._sent - waiting
            if stalled_s >= self._patience_s:
                transport.abort()
                return
            await asyncio.sleep(KEEP_ALIVE_S)
            if not transport.get_write_buffer_size() and not transport.is_closing():
                await self.response.write(KEEP_ALIVE)


class EventSocket(_Stream):
    """As EventStream, for one WebSocket. An error is its last event, `error`."""

    response: web.WebSocketResponse

    def __init__(self, request: web.Request) -> None:
        super().__init__(request)
        self.response = web.WebSocketResponse(heartbeat=KEEP_ALIVE_S, max_msg_size=_MOST_READ, timeout=_CLOSE_S)

    async def __aenter__(self) -> Self:
        self._tasks.start("read", self._read(await self._open()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self._end()
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


def event_stream(request: web.Request) -> EventStream | EventSocket:
    """The stream that the reader asks for: a WebSocket when it wants to upgrade, else server-sent events."""
    return EventSocket(request) if web.WebSocketResponse().can_prepare(request).ok else EventStream(request)


async def end_streams(app: web.Application) -> None:
    """Cancel every open stream, so that a stop need not wait for readers who never leave."""
    streams = app[STREAMS]
    for task in list(streams):
        task.cancel()
