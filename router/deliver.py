"""Delivery to a channel with an outside: its own line of messages for each address, so that none waits for another.

What is handed over is durable first. An attempt that ends without a word (a time-out, a lost connection, the daemon's
end) may have come through, so the next one looks for the message before it is sent again: each is delivered once, in
order, whatever fails in between, and a line goes on as long as something waits in it, also after an error that nobody
foresaw. A full line refuses more, and nothing here ever holds up a turn or another channel.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec

from gaiad.base.channel_ports import Deliveries, OutsideChannel
from gaiad.base.errors import BadInput, Forbidden, GaiadError, NotFound, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.tasks import TaskGroup
from gaiad.wire.council import Open, Parcel

_log = get_logger("gaiad.delivery")
_Place = tuple[str, str]
"""Tenant and address."""


class DeliveryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long one attempt may take (seconds), and how many parcels of a tenant may wait.

    The pause after a failure doubles with each, up to the longest.
    """

    timeout_s: float
    most_waiting: int
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0


class Deliverer:
    """One for a channel. `note` hears in words what waits and why, and "" when nothing does any longer."""

    def __init__(
        self, channel: OutsideChannel, deliveries: Deliveries, limits: DeliveryLimits, note: Callable[[str], None]
    ) -> None:
        self._channel = channel
        self._deliveries = deliveries
        self._limits = limits
        self._note = note
        self._lines: dict[_Place, asyncio.Event] = {}
        self._at_work: dict[_Place, asyncio.Task[None]] = {}
        self._tasks = TaskGroup(f"delivery to {channel.name}", self._ended)
        self._again = asyncio.Event()
        self._troubled: set[_Place] = set()

    async def start(self) -> None:
        """Go on with what an earlier life left."""
        for place in await self._deliveries.places(self._channel.name):
            self._see_to(place)

    async def put(self, parcels: Sequence[Parcel], *, is_aside: bool = False) -> None:
        """Hand them over: all or none, durable when this returns, sent soon.

        A parcel of the same turn, block and piece is taken once. Words said aside may fill half of what may wait, the
        rest is for turns. Raises Unavailable when too many wait.
        """
        most = self._limits.most_waiting
        await self._deliveries.add(parcels, most // 2 if is_aside else most)
        for place in dict.fromkeys((parcel.tenant, parcel.address) for parcel in parcels):
            self._see_to(place)

    def try_again(self) -> None:
        """The outside is there again: what waits for its next attempt is tried now."""
        again, self._again = self._again, asyncio.Event()
        again.set()

    async def stop(self, grace_s: float = 0.0) -> None:
        """Give lines without trouble that long to run empty, end attempts; the rest waits for the next `start`."""
        if well := [task for place, task in self._at_work.items() if place not in self._troubled]:
            await asyncio.wait(well, timeout=grace_s)
        await self._tasks.stop()

    # -- one line

    def _see_to(self, place: _Place) -> None:
        if news := self._lines.get(place):
            news.set()
            return
        self._lines[place] = asyncio.Event()
        self._at_work[place] = self._tasks.start(place[1], self._work_off(place))

    async def _work_off(self, place: _Place) -> None:
        """Deliver what waits at an address, one after the other, until nothing does."""
        news, failures = self._lines[place], 0
        try:
            while True:
                news.clear()
                again = self._again
                try:
                    found = await self._deliveries.next(self._channel.name, *place)
                    if found is None and not news.is_set():
                        return
                    if found is not None:
                        await self._attempt(found)
                        failures = 0
                        self._well(place)
                except Exception as error:  # noqa: BLE001  (told and logged; nothing may end a line that has messages)
                    if not isinstance(error, GaiadError):
                        _log.error("delivery_failed", channel=self._channel.name, address=place[1], exc_info=error)
                    await self._troubles(place, _why(error))
                    await self._pause(failures, getattr(error, "retry_after_s", 0.0), again)
                    failures += 1
        finally:
            self._lines.pop(place, None)
            self._at_work.pop(place, None)

    async def _attempt(self, found: Open) -> None:
        """Send one parcel and keep its receipt. Raises Unavailable when it has to be tried again."""
        parcel = found.parcel
        known = await self._deliveries.known(parcel) if found.tried else set()
        await self._deliveries.begin(parcel)
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                outside_id = await self._channel.find(parcel, known) if found.tried else ""
                outside_id = outside_id or await self._channel.send(parcel)
        except TimeoutError as error:
            why = f"{self._channel.name} did not take a message within {self._limits.timeout_s:g} s"
            await self._deliveries.failed(parcel, why)
            raise Unavailable(why, 0.0) from error
        except (BadInput, NotFound, Forbidden) as error:
            _log.warning("not_delivered", channel=parcel.channel, parcel=parcel.id, reason=error.message)
            await self._deliveries.refused(parcel, error.message)
        except Exception as error:
            await self._deliveries.failed(parcel, _why(error))
            raise
        else:
            await self._deliveries.delivered(parcel, outside_id)
            _log.info("delivered", channel=parcel.channel, turn_id=parcel.turn_id, block=parcel.block)

    async def _pause(self, failures: int, at_least_s: float, again: asyncio.Event) -> None:
        """Longer after each failure; ended early by `try_again`, but never before the outside allows it."""
        limits = self._limits
        wanted_s = min(limits.longest_pause_s, limits.first_pause_s * 2 ** min(failures, 16))
        if at_least_s:
            await asyncio.sleep(at_least_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, wanted_s - at_least_s)):
                await again.wait()

    # -- what is reported

    async def _troubles(self, place: _Place, why: str) -> None:
        if place not in self._troubled:
            _log.warning("delivery_waits", channel=self._channel.name, address=place[1], reason=why)
        self._troubled.add(place)
        with contextlib.suppress(GaiadError):  # a log that cannot be read is the trouble itself then
            waiting = await self._deliveries.waiting(self._channel.name)
            messages = "a message waits" if waiting == 1 else f"{waiting} messages wait"
            self._note(f"{messages} for {self._channel.name}: {why}; they are sent as soon as it can be done")
            return
        self._note(f"messages wait for {self._channel.name}: {why}")

    def _ended(self, line: str, error: BaseException) -> None:
        self._note(f"{line} ended ({error!r}); it continues with the next message there; see the log")

    def _well(self, place: _Place) -> None:
        self._troubled.discard(place)
        if not self._troubled:
            self._note("")


def _why(error: Exception) -> str:
    """In words, also of what nobody foresaw."""
    return error.message if isinstance(error, GaiadError) else f"unexpected {type(error).__name__}: {error}"[:200]
