"""A listener's cap and its idle time, over real sockets."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from gaiad.base.home import Home
from gaiad.intake import application, connections
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import TokenCheck, TokenFile
from gaiad.intake.connections import most_connections
from gaiad.intake.doors import TcpDoor
from gaiad.intake.routes import table
from gaiad.intake.sockets import listen_tcp, raise_file_limit
from tests.makers.waiting import until

MOST = 3
Opened = Callable[[int, bytes], Awaitable[asyncio.StreamReader]]


@pytest.fixture
async def port(service: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(connections, "_MOST", MOST)
    tokens = TokenFile(home.token)
    tokens.load()
    listener = listen_tcp("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    runner = await start_listener(build_app(service, TcpDoor(TokenCheck(tokens, port, [])), table()), listener, 0.1)
    yield port
    await runner.cleanup()


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens a connection and sends something; all are closed at the end."""
    writers = []

    async def open_one(port: int, sent: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader

    yield open_one
    for writer in writers:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def health(port: int) -> bytes:
    return b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port


async def test_the_connection_that_waited_longest_gives_way(port: int, opened: Opened) -> None:
    waiting = []
    for _ in range(MOST):
        waiting.append(await opened(port, b"G"))
        assert b"200" in await (await opened(port, health(port))).readline()
    assert await waiting[0].read() == b""


async def test_a_connection_that_is_being_answered_stays_and_a_further_one_is_told_to_wait(
    port: int, opened: Opened, service: Any, home: Home
) -> None:
    service.search_takes_s = 0.5
    token = home.token.read_text().strip()
    head = f"POST /search HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Length: 13"
    asked = [await opened(port, f'{head}\r\n\r\n{{"query":"x"}}'.encode()) for _ in range(MOST)]
    await until(lambda: len(service.calls) == MOST)
    assert b"503" in await (await opened(port, health(port))).readline()
    assert all("200" in str(line) for line in [await reader.readline() for reader in asked])


async def test_a_request_that_does_not_come_to_an_end_is_not_waited_for(
    service: Any, home: Home, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "IDLE_S", 0.05)
    tokens = TokenFile(home.token)
    tokens.load()
    listener = listen_tcp("127.0.0.1", 0)
    port = listener.getsockname()[1]
    runner = await start_listener(build_app(service, TcpDoor(TokenCheck(tokens, port, [])), table()), listener, 0.1)
    assert await (await opened(port, b"GET /healthz HTTP/1.1\r\nX: y")).read() == b""
    await runner.cleanup()


def test_the_limit_on_open_files_is_raised_and_shared() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
        assert most_connections() == 25
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
