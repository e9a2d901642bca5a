"""Work in a thread of this process: for what takes long, cannot crash and lets go of the interpreter lock.

Loading a vocabulary or reading all of its tokens takes tenths of a second in which others want to be served. To those
who look after it, it behaves like a throw-away process.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_LONGEST_S = 3600.0
_Result = TypeVar("_Result")


class Aside(Generic[_Result]):
    """One run of `work`; see ThrowAway for the rest. It cannot be killed: who no longer wants it lets it end."""

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._thread = threading.Thread(target=self._run, args=(work,), name="aside", daemon=True)
        self._result: list[_Result] = []
        self._fault: Exception | None = None
        self._done = threading.Event()
        self._ends: tuple[int, int] | None = None
        self.started = False
        self.over = False
        self.until = time.monotonic() + _LONGEST_S

    @property
    def descriptors(self) -> list[int]:
        return [self._ends[0]] if self._ends is not None else []

    def start(self) -> None:
        """What is in the way of another thread shows in `outcome`."""
        self.started = True
        try:
            self._ends = os.pipe()
            self._thread.start()
        except (OSError, RuntimeError) as error:
            self._fault, self.over = error, True
            self._close()

    def pump(self) -> None:
        if not self.over and self._done.is_set():
            self.over = True
            self._thread.join()
            self._close()

    def kill(self) -> None:
        """Nothing to do: its work ends by itself."""

    def outcome(self) -> _Result:
        """What `work` returned; raises what it raised."""
        if self._fault is not None:
            raise self._fault
        return self._result[0]

    def _close(self) -> None:
        for end in self._ends or ():
            os.close(end)
        self._ends = None

    def _run(self, work: Callable[[], _Result]) -> None:
        assert self._ends is not None
        writing = self._ends[1]
        try:
            self._result.append(work())
        except Exception as fault:  # noqa: BLE001  (raised again by `outcome`)
            self._fault = fault
        finally:
            self._done.set()
            os.write(writing, b"!")  # still open: `pump` closes it after the thread's end
