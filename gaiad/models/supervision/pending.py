"""A request on its way to a worker: the answer it waits for, and the pieces of text that come before it."""

import asyncio
from collections import deque

from gaiad.clock import Clock
from gaiad.models.supervision.protocol import Delta, Reply
from gaiad.ports import Call


class Pending:
    """`answer` is the last reply; `more` gives the pieces before it. Await `Supervisor.result` or `pieces`."""

    __slots__ = ("_changed", "answer", "deltas", "id")

    def __init__(self, request_id: int) -> None:
        self.id = request_id
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.deltas: deque[Delta] = deque()
        self._changed = asyncio.Event()
        self.answer.add_done_callback(lambda _: self._changed.set())

    def add(self, delta: Delta) -> None:
        """One more piece of text; ignored once the answer is there."""
        if not self.answer.done():
            self.deltas.append(delta)
            self._changed.set()

    async def more(self, call: Call, clock: Clock, look_s: float) -> list[Delta]:
        """The next pieces, none once the answer is there; looks at the call every `look_s` seconds.

        Raises Cancelled, DeadlineExceeded.
        """
        while self.deltas or not self.answer.done():
            call.check(clock.monotonic())
            await self._wait(look_again_s(call, clock, look_s))
            if self.deltas:
                pieces = list(self.deltas)
                self.deltas.clear()
                return pieces
        return []

    async def _wait(self, timeout_s: float) -> None:
        """Return when a piece or the answer is there, or when the time is over."""
        if self.deltas or self.answer.done():
            return
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return


def look_again_s(call: Call, clock: Clock, longest_s: float) -> float:
    """Seconds until a waiting call is to be looked at: for a cancel every `longest_s`, and at its deadline."""
    if call.deadline is None:
        return longest_s
    return max(0.001, min(longest_s, call.deadline - clock.monotonic()))
