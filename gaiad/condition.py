"""How the daemon is: what does not work as it should, in words, and the numbers that `gaiad status` and doctor show."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import gaiad
from gaiad.archive.archive import LocalArchive
from gaiad.archive.storing.tenant import check_tenant_name
from gaiad.checks import run_checks
from gaiad.clock import Clock
from gaiad.generating import Models
from gaiad.jobs import JobRunner
from gaiad.metrics import Metrics, resident_bytes
from gaiad.status_schemas import Check, Status


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where this daemon lives and listens; `url` is "" without a TCP listener."""

    home: Path
    socket: Path
    url: str = ""


class Condition:
    """What is wrong is noted here by topic; the parts say their own when asked.

    `place` gives where the daemon is now. `also` are parts that are opened later: each tells, of these tenants, what is
    wrong or waits for a person's word. `research` gives the ids of the runs under way there, once it is opened.
    """

    def __init__(
        self,
        place: Callable[[], Place],
        clock: Clock,
        archive: LocalArchive,
        runner: JobRunner,
        models: Models,
        metrics: Metrics,
    ) -> None:
        self._place = place
        self._clock = clock
        self._archive = archive
        self._runner = runner
        self._models = models
        self._metrics = metrics
        self._started = clock.monotonic()
        self._notes: dict[str, str] = {}
        self.also: list[Callable[[Sequence[str]], list[str]]] = []
        self.research: Callable[[Sequence[str]], list[str]] = lambda _: []
        self.folders: list[tuple[Path, str]] = []

    def note(self, topic: str, text: str) -> None:
        """Show `text` under degraded in status until the topic is noted again with ""."""
        if text:
            self._notes[topic] = text
        else:
            self._notes.pop(topic, None)

    def degraded(self, tenants: Sequence[str]) -> list[str]:
        """Everything that does not work as it should, and what waits for a person's word in `tenants`; in words."""
        return [
            *self._notes.values(),
            *self._archive.degraded(),
            *self._runner.unrecorded(),
            *self._models.degraded(),
            *(words for part in self.also for words in part(tenants)),
        ]

    async def status(self, tenants: Sequence[str] | None = None) -> Status:
        """The whole state at a glance; only of `tenants` when given."""
        for name in tenants or ():
            check_tenant_name(name)
        counts = await self._archive.counts(tenants)
        jobs = await asyncio.to_thread(self._runner.jobs.counts)
        shown = self._archive.tenants() if tenants is None else list(tenants)
        place = self._place()
        return Status(
            pid=os.getpid(),
            version=gaiad.__version__,
            uptime_s=round(self._clock.monotonic() - self._started, 1),
            home=str(place.home),
            socket=str(place.socket),
            url=place.url,
            models=self._models.statuses(),
            degraded=self.degraded(shown),
            tenants=shown,
            folders=[str(folder) for folder, tenant in self.folders if tenants is None or tenant in tenants],
            jobs=jobs,
            research=self.research(shown),
            counters=self._metrics.counters(),
            latencies={name: msgspec.structs.asdict(value) for name, value in self._metrics.latencies().items()},
            memory_bytes=resident_bytes(os.getpid()),
            **counts,
        )

    async def doctor(self) -> list[Check]:
        """What the daemon can say about itself; the command line adds what needs no daemon."""
        place = self._place()
        return run_checks(place.home, place.socket, await self.status(), self._models.last_words())
