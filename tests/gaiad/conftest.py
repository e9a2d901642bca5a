"""A small HTTP server on a unix socket that answers as a test tells it, for the client and the command line."""

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.makers.leaving_clients import LeavingClients


class Api:
    """`routes` maps "METHOD /path" to an answer (or a function of the body); `requests` is what came in."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = home / "gaiad.sock"
        self.routes: dict[str, Any] = {}
        self.requests: list[tuple[str, Any]] = []
        self._server = _Server(str(self.socket), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def body(self, route: str) -> Any:
        """The body of the last request to `route`."""
        return [body for name, body in self.requests if name == route][-1]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(LeavingClients, socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    api: Api


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        route = f"{self.command} {self.path}"
        self.server.api.requests.append((route, body))
        found = self.server.api.routes.get(route, (404, {"code": "not_found", "message": f"no {route} here"}))
        if callable(found):
            found = found(body)
        status, content = found if isinstance(found, tuple) else (200, found)
        if status == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def address_string(self) -> str:
        return "unix"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    home = tmp_path / "h"
    home.mkdir()
    server = Api(home)
    yield server
    server.stop()
