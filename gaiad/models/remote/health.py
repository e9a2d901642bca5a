"""Whether a remote server is there, as far as the last exchange with it showed, and the watch that keeps it so.

A server that is ready is asked for its list of models from time to time, which costs nothing; a token may cost money.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gaiad.clock import Clock
from gaiad.errors import DeadlineExceeded, GaiadError
from gaiad.ports import Call

_PROBE_S = 10.0
_FIRST_PAUSE_S = 0.25

Try = Callable[[Call], Awaitable[object]]


class Health:
    """`state` is ready, inactive (not reached) or failed (reached, and the settings do not fit it)."""

    def __init__(self) -> None:
        self.state = "inactive"
        self.reason = "not started"
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()

    def set(self, state: str, reason: str = "") -> None:
        """Take note of what an exchange showed."""
        self.state, self.reason = state, reason
        for event, holds in ((self._settled, state != "inactive"), (self._lost, state != "ready")):
            if holds:
                event.set()
            else:
                event.clear()

    async def settled(self, timeout_s: float) -> bool:
        """Wait until it is ready or failed; True when it is ready by then."""
        try:
            async with asyncio.timeout(timeout_s):  # wait_for would lose a cancel that comes with the event
                await self._settled.wait()
        except TimeoutError:
            return False
        return self.state == "ready"

    async def lost(self, timeout_s: float) -> bool:
        """Wait until it is not ready; False when it still is by then."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._lost.wait()
        except TimeoutError:
            return False
        return True


async def watch(health: Health, probe: Try, beat: Try, busy: Callable[[], bool], every_s: float, clock: Clock) -> None:
    """Look for the server as long as it is lost, ever less often; one that refused us is asked for a real token.

    One that is ready is looked at every `every_s` seconds, unless it is `busy` with replies, which say more.
    """
    failures = 0
    while True:
        if not await health.lost(every_s):
            if busy():
                continue
        elif failures:
            await asyncio.sleep(min(every_s, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16)))
        was_ready = health.state == "ready"
        call = Call(deadline=clock.monotonic() + _PROBE_S)
        try:
            await (beat(call) if health.state == "failed" else probe(call))
        except GaiadError as error:
            late = isinstance(error, DeadlineExceeded)
            reason = f"it did not answer in {_PROBE_S:g} s" if late else error.message
            if health.state != "ready":  # as of now, for a caller's reply may have come meanwhile
                health.set(health.state, reason)
            elif was_ready and not busy():
                health.set("inactive", reason)
        failures = 1 if health.state == "ready" else failures + 1
