"""Server-sent events: a stream that keeps its connection alive and ends quietly when either side goes."""

import asyncio
import re
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from gaiad.base.tasks import TaskGroup

KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": keep-alive\n\n"
PATIENCE_S = 30.0
"""How long a reader that comes back where it stopped may take nothing at all."""
STREAM = web.RequestKey("stream", web.StreamResponse)
STREAMS = web.AppKey("streams", set["asyncio.Task[Any]"])
_LONGEST_ID = 18  # digits; more would not be taken for a number
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


class EventStream:
    """`async with EventStream(request) as stream`, then `send`. A stop of the listener cancels the open streams."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._tasks = TaskGroup("sse")
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        task = asyncio.current_task()
        assert task is not None
        self._request.app[STREAMS].add(task)
        self._request[STREAM] = self.response
        self._tasks.start("keep-alive", self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task = asyncio.current_task()
        if task is not None:
            self._request.app[STREAMS].discard(task)
        await self._tasks.stop()
        return isinstance(error, ConnectionResetError)

    async def send(self, event: str, data: object, identifier: int | str | None = None) -> None:
        """Send one event with `data` as JSON. Raises ConnectionResetError when the reader has gone."""
        await self.response.write(encode_event(event, data, identifier))

    async def write(self, content: bytes) -> None:
        """Send events that are encoded already. Raises as `send`."""
        await self.response.write(content)

    async def _keep_alive(self) -> None:
        try:
            while True:
                await asyncio.sleep(KEEP_ALIVE_S)
                await self.response.write(KEEP_ALIVE)
        except ConnectionResetError:
            return


class PatientStream(EventStream):
    """For streams that a reader can go on with: one that takes nothing for `PATIENCE_S` is left, and costs no more."""

    def __init__(self, request: web.Request) -> None:
        super().__init__(request)
        self._sent = 0

    async def send(self, event: str, data: object, identifier: int | str | None = None) -> None:
        """As EventStream.send; also raises ConnectionResetError when the reader does not read."""
        content = encode_event(event, data, identifier)
        self._sent += len(content)
        await self.response.write(content)

    async def _keep_alive(self) -> None:
        transport, taken, stalled_s = self._request.transport, 0, 0.0
        while transport is not None and not transport.is_closing():
            waiting = transport.get_write_buffer_size()
            stalled_s = stalled_s + KEEP_ALIVE_S if waiting and self._sent - waiting <= taken else 0.0
            taken = self._sent - waiting
            if stalled_s >= PATIENCE_S:
                transport.abort()
                return
            await asyncio.sleep(KEEP_ALIVE_S)
            if not transport.get_write_buffer_size() and not transport.is_closing():
                await self.response.write(KEEP_ALIVE)


async def end_streams(app: web.Application) -> None:
    """Cancel every open stream, so that a stop need not wait for readers who never leave."""
    streams = app[STREAMS]
    for task in list(streams):
        task.cancel()
