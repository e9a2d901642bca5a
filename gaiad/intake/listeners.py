"""Opens the two listeners: adopted sockets where systemd handed them over, else our own, each with its door.

A socket file of ours that somebody removed (cleaners of temporary directories do) is made again: without it no client
would find the daemon, and no other daemon could be started either.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from aiohttp.web import AppRunner

from gaiad.base.config import load_config
from gaiad.base.errors import Conflict
from gaiad.base.logs import get_logger
from gaiad.base.tasks import Stopping, TaskGroup
from gaiad.intake.application import build_app, start_listener, stop_listener
from gaiad.intake.auth import PeerCheck, TokenCheck, TokenFile
from gaiad.intake.connections import Site, most_connections
from gaiad.intake.doors import Door, PageCookie, TcpDoor, UnixDoor
from gaiad.intake.routes import table
from gaiad.intake.sockets import Adopted, PortTaken, listen_tcp, listen_unix, url_of
from gaiad.intake.web_login import SESSIONS_NAME, WebLogins
from gaiad.intake.web_routes import WebRoutes, page_files

if TYPE_CHECKING:
    from gaiad.service.service import Service

_log = get_logger("gaiad.listeners")
_LOOK_S = 2.0  # how long a removed socket file may be missing


async def open_listeners(
    stack: AsyncExitStack, service: "Service", path: Path, tokens: TokenFile, adopted: Adopted, stopping: Stopping
) -> tuple[Path, str]:
    """Serve until `stack` closes; the socket's path and the URL ("" for none). Raises Conflict when either is taken."""
    own = None if adopted.unix is not None else _OwnSocket(path)
    if own is not None:
        stack.callback(own.close)
    unix, path = _unix(path, own, adopted)
    logins = WebLogins(service.place.home / SESSIONS_NAME, service.clock)
    service.note("web", logins.load())
    cookie = PageCookie(logins)
    doors: list[tuple[Door, socket]] = [(UnixDoor(PeerCheck(lambda: service.config.access.uids)), unix)]
    tcp = _tcp(service, adopted)
    if tcp is not None:
        stack.callback(tcp.close)
        check = TokenCheck(tokens, tcp.getsockname()[1], service.config.http.allowed_origins)
        doors.append((TcpDoor(check, cookie), tcp))
    routes = [*table(), *WebRoutes(logins, cookie, page_files()).table()]
    grace_s = service.config.daemon.stop_grace_s
    runners = [await start_listener(build_app(service, door, routes), listener, grace_s) for door, listener in doors]

    async def close() -> None:
        left_s = stopping.left_s()
        await asyncio.gather(*(stop_listener(runner, left_s) for runner in runners))

    stack.push_async_callback(close)
    if own is not None:
        tasks = await stack.enter_async_context(TaskGroup("socket"))
        tasks.start("keep", own.keep(service, runners[0]))
    return path, "" if tcp is None else url_of(tcp)


class _OwnSocket:
    """The unix socket of this daemon, through its losses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.listener = listen_unix(path)

    async def keep(self, service: "Service", runner: AppRunner) -> None:
        """Listen again whenever the file has gone; what prevents it is shown in status."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self._lost(service.place.home):
                continue
            try:
                self.listener = await asyncio.to_thread(listen_unix, self._path)
            except Conflict as error:
                service.note("socket", f"the socket was removed and cannot be recreated: {error.message}")
                continue
            for site in runner.sites:
                await site.stop()
            await Site(runner, self.listener.socket, most_connections()).start()
            service.note("socket", "")
            _log.warning("socket_made_again", path=str(self._path), reason="the file had been removed")

    def _lost(self, home: Path) -> bool:
        """A home that has gone as well stays gone."""
        return not os.path.lexists(self._path) and home.is_dir()

    def close(self) -> None:
        self.listener.remove()
        self.listener.socket.close()


def _unix(path: Path, own: _OwnSocket | None, adopted: Adopted) -> tuple[socket, Path]:
    if own is not None:
        return own.listener.socket, path
    assert adopted.unix is not None
    return adopted.unix, Path(os.fsdecode(adopted.unix.getsockname()))


def _tcp(service: "Service", adopted: Adopted) -> socket | None:
    """The TCP listener, if any. The shipped port gives way to another daemon's, one the user chose does not."""
    http = service.config.http
    if not http.enabled or adopted.tcp is not None:
        return adopted.tcp if http.enabled else None
    try:
        return listen_tcp(http.host, http.port)
    except PortTaken as error:
        if http.port != load_config((), {}).http.port:
            raise
        listener = listen_tcp(http.host, 0)
        service.note("http.port", f"{error.message}. Now on {url_of(listener)}")
        _log.warning("port_taken", port=http.port, instead=url_of(listener))
        return listener
