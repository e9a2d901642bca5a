"""Opens the two listeners: adopted sockets where systemd handed them over, else our own, each with its door."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from gaiad.config import load_config
from gaiad.intake.app import Door, TcpDoor, UnixDoor, build_app, start_listener
from gaiad.intake.auth import PeerCheck, TokenCheck, Tokens
from gaiad.intake.http import table
from gaiad.intake.sockets import Adopted, PortTaken, listen_tcp, listen_unix, url_of
from gaiad.logs import get_logger

if TYPE_CHECKING:
    from gaiad.service import Service

_log = get_logger("gaiad.listeners")


async def open_listeners(
    stack: AsyncExitStack, service: "Service", path: Path, tokens: Tokens, adopted: Adopted
) -> tuple[Path, str]:
    """Serve until `stack` closes; the socket's path and the URL ("" for none). Raises Conflict when either is taken."""
    unix, path = _unix(stack, path, adopted)
    doors: list[tuple[Door, socket]] = [(UnixDoor(PeerCheck(lambda: service.config.access.uids)), unix)]
    tcp = _tcp(service, adopted)
    if tcp is not None:
        stack.callback(tcp.close)
        check = TokenCheck(tokens, tcp.getsockname()[1], service.config.http.allowed_origins)
        doors.append((TcpDoor(check), tcp))
    grace_s, routes = service.config.daemon.stop_grace_s, table()
    runners = [await start_listener(build_app(service, door, routes), listener, grace_s) for door, listener in doors]

    async def close() -> None:
        await asyncio.gather(*(runner.cleanup() for runner in runners))

    stack.push_async_callback(close)
    return path, "" if tcp is None else url_of(tcp)


def _unix(stack: AsyncExitStack, path: Path, adopted: Adopted) -> tuple[socket, Path]:
    if adopted.unix is not None:
        return adopted.unix, Path(os.fsdecode(adopted.unix.getsockname()))
    listener = listen_unix(path)
    stack.callback(listener.socket.close)
    stack.callback(listener.remove)
    return listener.socket, path


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
