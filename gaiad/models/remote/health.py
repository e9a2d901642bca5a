"""Whether a remote server is there, as far as the last exchange with it showed, and the watch for one that is lost."""

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
            await asyncio.wait_for(self._settled.wait(), timeout_s)
        except TimeoutError:
            return False
        return self.state == "ready"

    async def lost(self) -> None:
        """Wait until it is not ready."""
        await self._lost.wait()


async def watch(health: Health, probe: Try, beat: Try, longest_pause_s: float, clock: Clock) -> None:
    """Look for the server as long as it is lost, ever less often; one that refused us is asked for a real token."""
    failures = 0
    while True:
        await health.lost()
        if failures:
            await asyncio.sleep(min(longest_pause_s, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16)))
        call = Call(deadline=clock.monotonic() + _PROBE_S)
        try:
            await (beat(call) if health.state == "failed" else probe(call))
        except GaiadError as error:
            late = isinstance(error, DeadlineExceeded)
            if health.state != "ready":  # as of now, for a caller's reply may have come meanwhile
                health.set(health.state, f"it did not answer in {_PROBE_S:g} s" if late else error.message)
        failures = 1 if health.state == "ready" else failures + 1
