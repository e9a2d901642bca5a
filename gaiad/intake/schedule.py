"""The timer behind the Scheduler port: the only place that knows apscheduler. A run that fails is logged and noted."""

from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from gaiad.clock import load_zone
from gaiad.errors import ConfigError
from gaiad.ports import Work

_log = structlog.get_logger("gaiad.schedule")
Note = Callable[[str, str], None]


class Schedule:
    """Implements ports.Scheduler on the running event loop. `note(topic, text)` shows what failed; "" once it works."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    def start(self) -> None:
        """Begin to run what is and will be registered."""
        self._scheduler.start()

    def stop(self) -> None:
        """Run nothing more; what runs now is its owner's to end."""
        self._scheduler.shutdown(wait=False)

    def daily(self, name: str, at: str, zone: str, work: Work) -> None:
        """Run `work` every day at `at` (HH:MM) in the IANA `zone`, "" for the machine's. Raises ConfigError."""
        hour, minute = _time_of_day(name, at)
        machine_zone = {} if not zone else {"timezone": load_zone(zone)}
        self._add(name, CronTrigger(hour=hour, minute=minute, **machine_zone), work)

    def every(self, name: str, seconds: float, work: Work) -> None:
        """Run `work` every `seconds`, first after that long."""
        self._add(name, IntervalTrigger(seconds=max(1, round(seconds))), work)

    def _add(self, name: str, trigger: Any, work: Work) -> None:
        self._scheduler.add_job(
            self._visible(name, work),
            trigger,
            id=name,
            name=name,
            replace_existing=True,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )

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
