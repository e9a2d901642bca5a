"""What status tells of the initiative without asking the disk: runs of the last hours, and who has thoughts open.

The loop is the only one that changes the tables, and looks at them again after every change.
"""

import asyncio
from datetime import date, datetime, timedelta

from council.initiative.seed_store import Run, SeedStore
from gaiad.clock import Clock, to_iso

_LONGEST_DAY = timedelta(hours=26)
_FAILURES_WITHIN = timedelta(hours=24)


class Account:
    """A view of the store at its last `refresh`; days and failures go by the clock of the moment that is asked."""

    def __init__(self, store: SeedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._runs: list[Run] = []
        self._last: Run | None = None
        self._open: dict[str, int] = {}
        self._looking = asyncio.Lock()

    async def refresh(self) -> None:
        """Look at the tables again. Raises Unavailable."""
        async with self._looking:
            self._runs = await self._store.runs_since(to_iso(self._clock.now() - _LONGEST_DAY))
            self._last = self._runs[-1] if self._runs else await self._store.last_run()
            self._open = await self._store.open_by_tenant()

    @property
    def today(self) -> date:
        """The date in the user's zone."""
        return self._clock.now().astimezone(self._clock.zone).date()

    @property
    def tokens_today(self) -> int:
        """What the day's runs of all tenants spent or hold."""
        day = self.today.isoformat()
        return sum(run.tokens for run in self._runs if run.day == day)

    @property
    def failures(self) -> int:
        """The runs of all tenants that failed in the last 24 hours."""
        since = self._clock.now() - _FAILURES_WITHIN
        return sum(run.outcome == "error" and datetime.fromisoformat(run.started_at) >= since for run in self._runs)

    @property
    def last_run(self) -> Run | None:
        """The newest of all tenants."""
        return self._last

    def open_seeds(self, tenant: str) -> int:
        """How many thoughts of the tenant wait."""
        return self._open.get(tenant, 0)
