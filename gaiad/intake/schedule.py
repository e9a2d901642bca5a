"""The timer behind the Scheduler port: the only place that knows apscheduler. A run that fails is logged and noted."""

from collections.abc import Awaitable, Callable
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from gaiad.base.clock import load_zone
from gaiad.base.errors import ConfigError
from gaiad.base.logs import get_logger
from gaiad.base.ports import Work

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

_log = get_logger("gaiad.schedule")
Note = Callable[[str, str], None]


class _Timing(NamedTuple):
    """`zone` None is the machine's; `seconds` 0 means daily at `hour`:`minute`."""

    name: str
    work: Work
    seconds: int = 0
    hour: int = 0
    minute: int = 0
    zone: tzinfo | None = None
    at_start: bool = False


class Schedule:
    """Implements ports.Scheduler on the running event loop. `note(topic, text)` shows what failed; "" once it works.

    What is registered is checked at once; apscheduler is loaded by `start`, for a daemon is ready before it is needed.
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        self._entries: list[_Timing] = []
        self._scheduler: AsyncIOScheduler | None = None

    def daily(self, name: str, at: str, zone: str, work: Work, *, at_start: bool = False) -> None:
        """Run `work` every day at `at` (HH:MM) in the IANA `zone`, "" for the machine's. Raises ConfigError.

        With `at_start` also once at the beginning, for a machine that is never on at that time.
        """
        hour, minute = _time_of_day(name, at)
        where = load_zone(zone) if zone else None
        self._add(_Timing(name, work, hour=hour, minute=minute, zone=where, at_start=at_start))

    def every(self, name: str, seconds: float, work: Work) -> None:
        """Run `work` every `seconds`, first after that long."""
        self._add(_Timing(name, work, seconds=max(1, round(seconds))))

    def start(self) -> None:
        """Begin to run what is and will be registered."""
        from apscheduler.schedulers.asyncio import AsyncIOScheduler

        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.start()
        for entry in self._entries:
            self._arm(self._scheduler, entry)

    def stop(self) -> None:
        """Run nothing more; what runs now is its owner's to end."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    def _add(self, entry: _Timing) -> None:
        self._entries.append(entry)
        if self._scheduler is not None:
            self._arm(self._scheduler, entry)

    def _arm(self, scheduler: "AsyncIOScheduler", entry: _Timing) -> None:
        from apscheduler.triggers.cron import CronTrigger
        from apscheduler.triggers.interval import IntervalTrigger

        if entry.seconds:
            trigger = IntervalTrigger(seconds=entry.seconds)
        else:
            trigger = CronTrigger(hour=entry.hour, minute=entry.minute, timezone=entry.zone)
        scheduler.add_job(
            self._visible(entry.name, entry.work),
            trigger,
            id=entry.name,
            name=entry.name,
            replace_existing=True,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )

        if entry.at_start:
            scheduler.add_job(self._visible(entry.name, entry.work), id=f"{entry.name} at start")

    def _visible(self, name: str, work: Work) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001  (logged and shown in status; the next run tries again)
                _log.exception("scheduled_work_failed", work=name)
                self._note(f"schedule {name}", f"{name} failed: {error}")
            else:
                self._note(f"schedule {name}", "")

        return run


def _time_of_day(name: str, at: str) -> tuple[int, int]:
    hour, colon, minute = at.partition(":")
    if colon and hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60:
        return int(hour), int(minute)
    raise ConfigError(f'schedule.{name}_at = {at!r}: write a time of day as "HH:MM"')
