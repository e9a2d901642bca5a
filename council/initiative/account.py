"""What status tells of the initiative without asking the disk: runs of the last hours, and who has thoughts open.

The loop is the only one that changes the tables, and looks at them again after every change.
"""

import asyncio
from datetime import date, datetime, timedelta
from typing import Any

from council.initiative.seed_store import SeedRun, SeedStore
from council.ports import Ask, RoleReply, Speaker
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Cancelled, Unavailable
from gaiad.base.ports import RequestContext

_LONGEST_DAY = timedelta(hours=26)
_FAILURES_WITHIN = timedelta(hours=24)


class Account:
    """A view of the store at its last `refresh`; days and failures go by the clock of the moment that is asked."""

    def __init__(self, store: SeedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._runs: list[SeedRun] = []
        self._last: SeedRun | None = None
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
    def last_run(self) -> SeedRun | None:
        """The newest of all tenants."""
        return self._last

    def open_seeds(self, tenant: str) -> int:
        """How many thoughts of the tenant wait."""
        return self._open.get(tenant, 0)


class Meter:
    """What one run may write, and what it wrote or holds, in tokens."""

    def __init__(self, allowance: int) -> None:
        self.allowance = allowance
        self.spent = 0

    def hold(self, tokens: int) -> None:
        """Raises Unavailable when so much more would be above the allowance."""
        if self.spent + tokens > self.allowance:
            raise Unavailable(
                f"the initiative may write {self.allowance} tokens in this run and has spent {self.spent}; "
                f"{tokens} more are too many. Raise initiative.daily_tokens"
            )
        self.spent += tokens

    def give_back(self, tokens: int) -> None:
        """So many of the held ones were not written."""
        self.spent -= tokens


class MeteredSpeaker:
    """A Speaker over another one. Nobody speaks before `begin`, and a late call counts in the run that it began in."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._meter = Meter(0)
        self._stopped = False
        self._speaking: set[tuple[RequestContext, asyncio.Task[Any] | None]] = set()

    def begin(self, allowance: int) -> Meter:
        """A new run with so many tokens."""
        self._meter = Meter(allowance)
        return self._meter

    def allow(self) -> None:
        """Whoever asks from now on is heard again."""
        self._stopped = False

    def stop(self) -> None:
        """End every call that runs, also a late ballot's: each is cancelled when this returns, and none begins."""
        self._stopped = True
        for call, task in self._speaking:
            call.cancel()
            if task is not None:
                task.cancel()

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        """Raises Unavailable when the run has no room for it, Cancelled after a stop, and what the other one raises."""
        if self._stopped:
            raise Cancelled("the initiative loop was interrupted before this call; it is asked again later")
        meter = self._meter
        meter.hold(ask.max_tokens)
        running = (call, asyncio.current_task())
        self._speaking.add(running)
        try:
            said = await self._speaker.say(ask, call)
        except BadInput:
            meter.give_back(ask.max_tokens)
            raise
        finally:
            self._speaking.discard(running)
        meter.give_back(ask.max_tokens - min(said.tokens, ask.max_tokens))
        return said
