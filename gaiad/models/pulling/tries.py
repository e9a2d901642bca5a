"""Trying again: how long a pull waits for others and how often, and the errors that are worth another try."""

import random
import time
from typing import Protocol

import msgspec

from gaiad.errors import GaiadError

_PROGRESS_BYTES = 1 << 20


class Listener(Protocol):
    """Who watches a pull: lines for a person, and bytes done of a file (`total` is 0 while nobody knows it)."""

    def say(self, line: str) -> None: ...

    def show(self, label: str, done: int, total: int) -> None: ...


class PullFailed(GaiadError):
    """What was pulled is not what it should be; the message says what is wrong and what to do."""

    code = "pull_failed"


class Tries(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of silence that end a try, tries in a row that brought nothing, and the waits between them."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    count: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0


class Transient(Exception):
    """Worth another try; `error` is what is raised when there is none. `wait_s` is what the other side asked for."""

    def __init__(self, error: GaiadError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


class Attempts:
    """Counts the tries in a row that brought less than a mebibyte, and waits between two."""

    def __init__(self, tries: Tries, listener: Listener) -> None:
        self._tries = tries
        self._listener = listener
        self._failed = 0

    def failed(self, trouble: Transient, came_bytes: int) -> None:
        """Wait before the next try, or raise the error of the last one."""
        self._failed = 1 if came_bytes >= _PROGRESS_BYTES else self._failed + 1
        if self._failed >= self._tries.count:
            raise trouble.error
        wait_s = self._wait_s(trouble.wait_s)
        self._listener.say(f"{trouble.error.message}; try {self._failed + 1} of {self._tries.count} in {wait_s:.1f} s")
        time.sleep(wait_s)

    def _wait_s(self, asked_s: float | None) -> float:
        if asked_s is not None:
            return min(asked_s, self._tries.longest_wait_s)
        backoff_s = self._tries.first_wait_s * 2.0 ** (self._failed - 1)
        return min(backoff_s, self._tries.longest_wait_s) * random.uniform(0.8, 1.2)
