"""Time, injected. Stored times are UTC; dates in words are read in the user's zone.

Intervals (heartbeats, deadlines, latencies) use `monotonic`, which no clock change moves.
"""

import functools
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gaiad.base.errors import ConfigError


class Clock(Protocol):
    """A wall clock in UTC, a monotonic clock in seconds, and the user's zone."""

    @property
    def zone(self) -> tzinfo: ...
    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks. `zone_name` is an IANA name, or "" for the machine's own zone."""

    def __init__(self, zone_name: str = "") -> None:
        self._zone = load_zone(zone_name)

    @property
    def zone(self) -> tzinfo:
        return self._zone

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class FrozenClock:
    """A clock that does not move until `advance` is called; for tests and `--now`."""

    def __init__(self, now: datetime, zone: tzinfo = UTC) -> None:
        if now.tzinfo is None:
            raise ValueError(f"a clock needs a zone-aware time, got {now.isoformat()}")
        self._now = now.astimezone(UTC)
        self._zone = zone
        self._monotonic = 0.0

    @property
    def zone(self) -> tzinfo:
        return self._zone

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


def load_zone(name: str) -> tzinfo:
    """The zone called `name`; "" means the machine's. Raises ConfigError for a name nobody knows."""
    if not name:
        local = datetime.now(UTC).astimezone().tzinfo
        return local if local is not None else UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(
            f"user.timezone: no time zone is called {name!r}; use an IANA name such as Europe/Berlin"
        ) from error


def to_iso(moment: datetime) -> str:
    """UTC as `2025-11-30T15:45:00Z`; milliseconds only when there are any."""
    utc = moment.astimezone(UTC)
    text = utc.isoformat(timespec="milliseconds" if utc.microsecond else "seconds")
    return text.replace("+00:00", "Z")


@functools.lru_cache(maxsize=4096)
def iso_of_ms(value: int) -> str:
    """`to_iso` of a stored time: pages of a packet share theirs, and a search shows dozens of them."""
    return to_iso(from_epoch_ms(value))


def moment_of(timestamp: str) -> datetime:
    """The moment of an ISO 8601 time; one that names no zone is UTC. Raises ValueError for any other text."""
    moment = datetime.fromisoformat(timestamp.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def day_of(timestamp: str, zone: tzinfo) -> str:
    """The day of a stored time in `zone` as `2025-11-30`, "" for none; a time that names no zone is UTC."""
    if not timestamp:
        return ""
    return moment_of(timestamp).astimezone(zone).date().isoformat()


def to_epoch_ms(moment: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC; exact, negative before."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def from_epoch_ms(value: int) -> datetime:
    """The UTC moment of `to_epoch_ms`."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
