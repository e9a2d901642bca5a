"""What a browser's page asks of a daemon, without a browser: logged in, with its headers."""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gaiad.bench.daemon_process import BenchDaemon
from gaiad.client.connection import ServerEvent, parse_events


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, method: str = "GET", body: bytes | None = None, timeout_s: float = 30, **headers: str) -> Answered:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body, headers)
        response = connection.getresponse()
        return Answered(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def logged_in(daemon: BenchDaemon) -> tuple[str, dict[str, str]]:
    """The daemon's URL, and the headers of a page that is logged in."""
    url = str(daemon.status()["url"])
    answer = ask(daemon.client.post("/web/link", {})["url"])
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    return url, {"Cookie": cookie, "Origin": url, "X-Gaiad": "page", "Content-Type": "application/json"}


class Page:
    """A browser's page that is logged in."""

    def __init__(self, daemon: BenchDaemon) -> None:
        self.url, self.headers = logged_in(daemon)

    def post(self, path: str, **body: Any) -> Answered:
        return ask(f"{self.url}{path}", "POST", json.dumps(body).encode(), **self.headers)

    def get(self, path: str) -> Answered:
        return ask(f"{self.url}{path}", "GET", None, 30, **self.headers)

    def follow(self, method: str, path: str, last: Callable[[ServerEvent], bool], **body: Any) -> list[ServerEvent]:
        """The events of a stream up to the one that is the `last`."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            headers = {**self.headers, "Accept": "text/event-stream"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            return events_until(parse_events(connection.getresponse()), last)
        finally:
            connection.close()


def events_until(events: Iterator[ServerEvent], last: Callable[[ServerEvent], bool]) -> list[ServerEvent]:
    """Those up to the one that is the `last`. Fails the test when there is none."""
    found: list[ServerEvent] = []
    for event in events:
        found.append(event)
        if last(event):
            return found
    raise AssertionError(f"the stream ended after {[one.event for one in found]}")
