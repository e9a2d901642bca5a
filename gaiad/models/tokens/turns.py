"""Many requests in one thread, each a generator that stops after a small piece of work: nobody waits for a long one.

A generator yields None to let others have a turn, or a ThrowAway or Aside it wants to wait for. A few processes run at
once, or one thread; none is forked beside a running thread, whose locks it would inherit. What a generator returns is
the request's answer.
"""

import contextlib
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from gaiad.models.supervision.protocol import Failed, ProtocolError, Reply
from gaiad.models.tokens.aside import Aside
from gaiad.models.tokens.throw_away import ThrowAway, wait_readable

PROCESSES = 3
_Result = TypeVar("_Result")
Waited = ThrowAway | Aside[Any]
Steps = Generator[Waited | None, None, _Result]


class Refused(Exception):
    """The request cannot be served; the message names the value and the remedy."""


class Turns:
    """Requests in hand by id; `reply` takes each one's answer."""

    def __init__(self, reply: Callable[[Reply], None]) -> None:
        self._reply = reply
        self._jobs: dict[int, Steps[Reply]] = {}
        self._ready: deque[int] = deque()
        self._waiting: dict[Waited, list[int]] = {}

    def add(self, request_id: int, steps: Steps[Reply]) -> None:
        self._jobs[request_id] = steps
        self._ready.append(request_id)

    def cancel(self, request_id: int) -> None:
        """Drop a request; one that is gone has its answer on its way."""
        steps = self._jobs.pop(request_id, None)
        if steps is None:
            return
        steps.close()
        with contextlib.suppress(ValueError):
            self._ready.remove(request_id)
        self._reply(Failed(id=request_id, code="cancelled", reason="cancelled"))

    def step(self) -> None:
        """One piece of work of the request whose turn it is."""
        self._pump()
        if not self._ready:
            return
        request_id = self._ready.popleft()
        try:
            trial = next(self._jobs[request_id])
        except StopIteration as end:
            self._answer(request_id, end.value)
        except Refused as problem:
            self._answer(request_id, Failed(id=request_id, code="bad_input", reason=str(problem)))
        except Exception as fault:  # noqa: BLE001  (told to the caller and written to standard error; others go on)
            traceback.print_exc(file=sys.stderr)
            self._answer(request_id, Failed(id=request_id, code="engine", reason=f"{type(fault).__name__}: {fault}"))
        else:
            self._park(request_id, trial)

    def wait(self, descriptor: int) -> None:
        """Until `descriptor` is readable or a throw-away process has news; returns at once when somebody is ready."""
        if self._ready:
            return
        running = [trial for trial in self._waiting if trial.started]
        until = min((trial.until for trial in running), default=None)
        pause = None if until is None else until - time.monotonic()
        wait_readable([descriptor, *(end for trial in running for end in trial.descriptors)], pause)

    def close(self) -> None:
        """End all throw-away processes."""
        for trial in self._waiting:
            trial.kill()

    def _park(self, request_id: int, trial: Waited | None) -> None:
        if trial is None or trial.over:
            self._ready.append(request_id)
        else:
            self._waiting.setdefault(trial, []).append(request_id)
            self._pump()

    def _pump(self) -> None:
        """Start throw-away processes, look after running ones, wake who waited for those that are over."""
        over: list[Waited] | None = None
        while over is None or over:
            self._start()
            for trial in self._waiting:
                trial.pump()
            over = [trial for trial in self._waiting if trial.over]
            for trial in over:
                self._ready.extend(job for job in self._waiting.pop(trial) if job in self._jobs)

    def _start(self) -> None:
        for trial in [trial for trial in self._waiting if not trial.started and not trial.over]:
            if not any(job in self._jobs for job in self._waiting[trial]):
                del self._waiting[trial]
            elif self._has_room(trial):
                trial.start()

    def _has_room(self, trial: Waited) -> bool:
        running = [other for other in self._waiting if other.started]
        threads = sum(isinstance(other, Aside) for other in running)
        return not threads and (isinstance(trial, Aside) or len(running) < PROCESSES)

    def _answer(self, request_id: int, reply: Reply) -> None:
        self._jobs.pop(request_id).close()
        try:
            self._reply(reply)
        except ProtocolError as error:
            self._reply(Failed(id=request_id, code="bad_input", reason=str(error)))
