"""How the daemon is: what does not work as it should, in words, and the numbers that `gaiad status` and doctor show."""

import asyncio
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

import gaiad
from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import Clock
from gaiad.base.metrics import Metrics, resident_bytes
from gaiad.service.jobs import JobRunner
from gaiad.service.models import Models
from gaiad.store.home_databases import check_tenant_name
from gaiad.wire.status import Check, ModelStatus, Status

_LOW_DISK_BYTES = 512 * 1024 * 1024
_LAST_LINES = 8


def run_checks(home: Path, socket: Path, status: Status, last_words: Mapping[str, Sequence[str]]) -> list[Check]:
    """All checks, the most basic first. `last_words` are the workers' lines on standard error, by model."""
    models = _models(status, last_words)
    return [_home(home), _disk(home), _socket(socket), *models, _queue(status), *_degraded(status)]


def _home(home: Path) -> Check:
    mode = stat.S_IMODE(home.stat().st_mode)
    return Check(
        name="home",
        ok=mode & 0o077 == 0,
        detail=f"{home} has mode {mode:04o}",
        remedy="" if mode & 0o077 == 0 else f"chmod 700 {home}",
    )


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    return Check(
        name="disk",
        ok=free >= _LOW_DISK_BYTES,
        detail=f"{free / 2**30:.1f} GiB free",
        remedy="" if free >= _LOW_DISK_BYTES else "free some space: ingest stops when the disk is full",
    )


def _socket(path: Path) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0
    return Check(
        name="socket",
        ok=mode == 0o600,
        detail=f"{path} has mode {mode:04o}" if mode else f"{path} is gone",
        remedy="" if mode == 0o600 else "restart the daemon: it creates the socket again",
    )


def _models(status: Status, last_words: Mapping[str, Sequence[str]]) -> list[Check]:
    return [_model(model, last_words.get(model.name or model.role, ())) for model in status.models]


def _model(model: ModelStatus, last_words: Sequence[str]) -> Check:
    """One that is in trouble, or was and came back, says what its process wrote last."""
    well = model.state in ("ready", "starting", "sleeping")
    detail = f"{model.state}: {model.path_or_url or model.kind}" + (f" ({model.reason})" if model.reason else "")
    if model.restarts:
        detail += f"; restarted {model.restarts} times"
    if last_words and (model.restarts or not well):
        detail += "; its last words: " + " | ".join(last_words[-_LAST_LINES:])
    return Check(
        name=f"model {model.role or model.name}",
        ok=well,
        detail=detail,
        remedy="" if well else "fix what the reason names, then `gaiad models load NAME`; `make` restores the embedder",
    )


def _queue(status: Status) -> Check:
    return Check(name="index", ok=True, detail=f"{status.vectors} of {status.pages} pages have vectors")


def _degraded(status: Status) -> list[Check]:
    return [Check(name="degraded", ok=False, detail=reason, remedy="see the reason") for reason in status.degraded]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where this daemon lives and listens; `url` is "" without a TCP listener."""

    home: Path
    socket: Path
    url: str = ""


class Condition:
    """What is wrong is noted here by topic; the parts say their own when asked.

    `also` are parts that each say, of these tenants, what is wrong or waits for a person; `research` gives the ids of
    the runs under way there; `tenants` those that have a file, and blocks.
    """

    def __init__(
        self,
        place: Place,
        clock: Clock,
        archive: LocalArchive,
        runner: JobRunner,
        models: Models,
        metrics: Metrics,
        tenants: Callable[[], list[str]],
        also: Sequence[Callable[[Sequence[str]], list[str]]],
        research: Callable[[Sequence[str]], list[str]],
    ) -> None:
        self.place = place
        self._also = also
        self._research = research
        self._tenants = tenants
        self._clock = clock
        self._archive = archive
        self._runner = runner
        self._models = models
        self._metrics = metrics
        self._started = clock.monotonic()
        self._notes: dict[str, str] = {}
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
            *(words for part in self._also for words in part(tenants)),
        ]

    async def status(self, tenants: Sequence[str] | None = None) -> Status:
        """The whole state at a glance; only of `tenants` when given."""
        for name in tenants or ():
            check_tenant_name(name)
        counts = await self._archive.counts(tenants)
        shown = await asyncio.to_thread(self._tenants) if tenants is None else list(tenants)
        jobs = await self._runner.jobs.counts(shown)
        place = self.place
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
            research=self._research(shown),
            counters=self._metrics.counters(),
            latencies={name: msgspec.structs.asdict(value) for name, value in self._metrics.latencies().items()},
            memory_bytes=resident_bytes(os.getpid()),
            **counts,
        )

    async def doctor(self) -> list[Check]:
        """What the daemon can say about itself; the command line adds what needs no daemon."""
        place = self.place
        checks = run_checks(place.home, place.socket, await self.status(), self._models.last_words())
        damage = "; ".join(await self._archive.check_databases())
        remedy = "restore the last backup: gaiad restore DIR" if damage else ""
        return [*checks, Check(name="databases", ok=not damage, detail=damage or "every file is whole", remedy=remedy)]
