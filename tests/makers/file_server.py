"""A real HTTP server on loopback for tests of downloads: ranges, ETags, redirects, and faults on order."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.makers.leaving_clients import LeavingClients

COMMIT = "c" * 40


class _Server(LeavingClients, ThreadingHTTPServer):
    """The files' own."""


@dataclass
class Served:
    """The content at an address. `location` makes it a redirect."""

    data: bytes = b""
    etag: str = ""
    location: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """What goes wrong at one request: another status, an end after `cut` bytes, a false length, or
    silence for as long as there is a server."""

    status: int = 0
    cut: int = -1
    length: int = 0
    silent: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """A request as it came, and how many bytes of a body went out."""

    method: str
    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0


class FileServer:
    """`files` by path without query; each of `faults` is for one GET; `pace_s` is slept before each kibibyte."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.ranges = True
        self.pace_s = 0.0
        self.closed = threading.Event()
        self._http = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._http.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def put(self, path: str, data: bytes, etag: str = "", **headers: str) -> str:
        """Serve `data`; the address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.files[path] = Served(data=data, etag=etag, headers=named)
        return self.base + path

    def gets(self, path: str = "") -> list[Seen]:
        return [seen for seen in self.seen if seen.method == "GET" and seen.path.startswith(path)]

    def close(self) -> None:
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving() -> Iterator[FileServer]:
    server = FileServer()
    try:
        yield server
    finally:
        server.close()


def put_on_hub(
    server: FileServer, store: FileServer, repo: str, files: dict[str, bytes], *, large: bool = True
) -> None:
    """Serve a repository as the hub does: its listing, and files that redirect to a store of another origin."""
    siblings: list[dict[str, Any]] = []
    for name, data in files.items():
        digest = sha256(data).hexdigest()
        lfs = {"lfs": {"sha256": digest, "size": len(data), "pointerSize": 134}} if large else {}
        siblings.append({"rfilename": name, "size": len(data), "blobId": "b" * 40, **lfs})
        url = store.put(f"/store/{digest}", data, etag=f'"{digest[:32]}-1"')
        linked = {"X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{digest}"'}
        server.files[f"/{repo}/resolve/{COMMIT}/{name}"] = Served(location=url, headers=linked if large else {})
    listing = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()
    for path in (f"/api/models/{repo}", f"/api/models/{repo}/revision/v1"):
        server.put(path, listing, Content_Type="application/json")


class _Handler(BaseHTTPRequestHandler):
    owner: FileServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def handle(self) -> None:
        with suppress(ConnectionResetError, BrokenPipeError):  # the other side was killed
            super().handle()

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        seen = Seen(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.owner.seen.append(seen)
        served = self.owner.files.get(path)
        fault = self.owner.faults.pop(0) if body and self.owner.faults and served and not served.location else Fault()
        if fault.silent:
            self.owner.closed.wait()
            self.close_connection = True
            return
        status, headers, data = self._plan(served, fault, seen)
        seen.status = status
        self.send_response(status)
        for name, value in {**headers, **fault.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) + fault.length))
        self.end_headers()
        if body:
            self._send(data if fault.cut < 0 else data[: fault.cut], seen)
        if fault.cut >= 0 or fault.length:
            self.close_connection = True

    def _plan(self, served: Served | None, fault: Fault, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        if served is None:
            return 404, {"X-Error-Code": "RevisionNotFound" if "/revision/" in seen.path else "RepoNotFound"}, b"no"
        if served.location:
            return 302, {**served.headers, "Location": served.location}, b""
        if fault.status:
            return fault.status, {}, b"trouble"
        headers = {**served.headers, **({"ETag": served.etag} if served.etag else {})}
        if served.etag and seen.headers.get("if-none-match") == served.etag:
            return 304, headers, b""
        wanted = seen.headers.get("range", "")
        condition = seen.headers.get("if-range", "")
        if not wanted or not self.owner.ranges or (condition and condition != served.etag):
            return 200, headers, served.data
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        size = len(served.data)
        if int(first) >= size:
            return 416, {"Content-Range": f"bytes */{size}"}, b""
        end = min(int(last) if last else size - 1, size - 1)
        headers["Content-Range"] = f"bytes {first}-{end}/{size}"
        return 206, headers, served.data[int(first) : end + 1]

    def _send(self, data: bytes, seen: Seen) -> None:
        step = 1024 if self.owner.pace_s else max(len(data), 1)
        try:
            for start in range(0, len(data), step):
                time.sleep(self.owner.pace_s)
                self.wfile.write(data[start : start + step])
                seen.sent += len(data[start : start + step])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
