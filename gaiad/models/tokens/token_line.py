"""What the reader thread leaves for the tokenizer child's engine, and a pipe that wakes it.

The engine waits for this pipe and for its throw-away processes at once, which a condition variable cannot.
"""

import contextlib
import os
import threading

import msgspec

from gaiad.models.supervision.protocol import Ping, Words


class WordNews(msgspec.Struct, kw_only=True):
    """What came since the last look."""

    requests: list[Words] = []
    cancels: list[int] = []
    pings: list[int] = []
    closed: bool = False


class TokenLine:
    """Shared by two threads; `descriptor` is readable when there is news."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news = WordNews()
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)

    def put(self, request: Words) -> None:
        with self._lock:
            self._news.requests.append(request)
        self._ring()

    def cancel(self, request_id: int) -> None:
        with self._lock:
            self._news.cancels.append(request_id)
        self._ring()

    def ping(self, ping: Ping) -> None:
        with self._lock:
            self._news.pings.append(ping.id)
        self._ring()

    def close(self) -> None:
        with self._lock:
            self._news.closed = True
        self._ring()

    def collect(self) -> WordNews:
        """Everything new, perhaps nothing; does not wait."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        with self._lock:
            news, self._news = self._news, WordNews(closed=self._news.closed)
            return news

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes too
            os.write(self._wake, b"!")
