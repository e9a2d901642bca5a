"""The folder watch: new packets in <home>/inbox and the configured folders are ingested by themselves.

Events make it quick, scans make it complete: at start, on a timer, when a folder appears, and whenever events were
lost. Memory is bounded: what does not fit waits on disk for the next scan. The kernel's side is `folder_events`, the
waiting for whole files `settle`, the walk `scan`.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gaiad.base.config import Config
from gaiad.base.errors import Unavailable
from gaiad.base.home import Home
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.intake.folder_events import (
    EventBuffer,
    Folder,
    FolderEvents,
    ObservedFile,
    RefusedEntry,
    Settling,
    Sign,
    look_at,
    shown,
    walk,
)
from gaiad.wire.ingest import IngestOutcome

if TYPE_CHECKING:
    from gaiad.service.service import Service

_log = get_logger("gaiad.watch")
_CAPACITY = 20_000  # files waiting to settle, and as many events between two turns of the loop
_SCAN_CHUNK = 512
_REMEMBERED_REFUSALS = 1_000
_RETRY_S = 15.0


def watched_folders(home: Home, config: Config) -> tuple[list[Folder], list[str]]:
    """The inbox and the configured folders, and what is wrong with the latter.

    A folder inside another goes its own way; the home itself is never read.
    """
    wanted, problems = {home.inbox.resolve(): "local"}, []
    for entry in config.intake.folders:
        path = Path(entry.path).expanduser()
        if not path.is_absolute():
            problems.append(f"intake.folders: {entry.path!r} is not absolute; write /... or ~/...")
        elif wanted.setdefault(path.resolve(), entry.tenant) != entry.tenant:
            problems.append(f"intake.folders: {entry.path!r} is set for two tenants; only the first one gets it")
    folders = []
    for root, tenant in wanted.items():
        without = {other for other in (*wanted, home.root) if other != root and other.is_relative_to(root)}
        folders.append(Folder(root, tenant, frozenset(without)))
    return folders, problems


class FolderWatch:
    """Start with `start`, end with `stop`; `first_scan` is set once everything there at the start has been offered."""

    def __init__(self, service: "Service", home: Home) -> None:
        self._service = service
        self._home = home
        self._config = service.config.intake
        self._wake = asyncio.Event()
        self._rescan_wanted = True
        self._retry_at: float | None = None
        self._settling = Settling(self._config.settle_ms / 1000, _CAPACITY)
        self._owners: dict[Path, Folder] = {}
        self._folders: list[Folder] = []
        self._refused: OrderedDict[tuple[Path, str], None] = OrderedDict()
        self._tasks = TaskGroup("watch", self._failed)
        self.first_scan = asyncio.Event()

    async def start(self) -> None:
        """Make the inbox and begin."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._wake.set)

        self._buffer = EventBuffer(_CAPACITY, wake)
        self._events = FolderEvents(self._buffer)
        self._home.inbox.mkdir(mode=0o700, exist_ok=True)
        self._find_folders()
        self._tasks.start("folders", self._run())

    async def stop(self) -> None:
        """Stop reading; what has not been read waits for the next start."""
        await self._tasks.stop()
        await asyncio.to_thread(self._events.stop)

    def rescan(self) -> None:
        """Look through all folders soon, those of the settings now in force; call it on the event loop's thread."""
        self._rescan_wanted = True
        self._wake.set()

    def _find_folders(self) -> None:
        self._folders, problems = watched_folders(self._home, self._service.config)
        self._service.folders[:] = [(folder.root, folder.tenant) for folder in self._folders]
        self._service.note("intake.folders", "; ".join(problems))

    def _failed(self, _task: str, error: BaseException) -> None:
        self._service.note("watch", f"the folder watch ended ({error!r}); restart gaiad and see the log")

    # --------------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._hear()
            await self._read_settled()
            if self._rescan_wanted and len(self._settling) < _CAPACITY // 2:
                await self._scan_all()
            await self._sleep()

    async def _sleep(self) -> None:
        times = [time for time in (self._settling.next_due(), self._retry_at) if time is not None]
        pause = max(0.0, min(times) - self._now()) if times else None
        try:
            await asyncio.wait_for(self._wake.wait(), pause)
        except TimeoutError:
            if self._retry_at is not None and self._retry_at <= self._now():
                self._retry_at, self._rescan_wanted = None, True

    def _now(self) -> float:
        return self._service.clock.monotonic()

    def _hear(self) -> None:
        heard, lost = self._buffer.take()
        now = self._now()
        for (folder, path), sign in heard.items():
            lost |= not self._wait_for(folder, path, sign, now)
        if lost:
            self._service.metrics.count("watch_overflows")
            self._rescan_wanted = True

    def _wait_for(self, folder: Folder, path: Path, sign: Sign, now: float, look: ObservedFile | None = None) -> bool:
        if not self._settling.hear(path, sign, now, look):
            return False
        self._owners[path] = folder
        return True

    async def _read_settled(self) -> None:
        while quiet := self._settling.quiet(self._now(), self._config.batch_files):
            owners = {path: self._owners[path] for path in quiet}
            found = await asyncio.to_thread(_look_at_all, owners)
            self._refuse([look for look in found.values() if isinstance(look, RefusedEntry)], owners)
            looks = {path: None if isinstance(look, RefusedEntry) else look for path, look in found.items()}
            whole = self._settling.settle(looks, self._now())
            for folder, paths in _by_folder(whole, owners):
                await self._ingest(folder, paths)
            for path in quiet:
                if path not in self._settling:
                    self._owners.pop(path, None)
            self._hear()

    # ------------------------------------------------------------------------------------------------------ scans

    async def _scan_all(self) -> None:
        self._rescan_wanted = False
        self._find_folders()
        for gone in [folder for folder in self._events.folders() if folder not in self._folders]:
            await asyncio.to_thread(self._events.unwatch, gone)
            self._service.note(f"folder {gone.root}", "")
        for folder in self._folders:
            try:
                await self._scan(folder)
            except Exception as error:  # noqa: BLE001  (shown in status and logged; the other folders go on)
                self._later(folder, error)
        self.first_scan.set()

    async def _scan(self, folder: Folder) -> None:
        problems = []
        if folder.root == self._home.inbox.resolve():
            self._home.inbox.mkdir(mode=0o700, exist_ok=True)
        elif not await asyncio.to_thread(folder.root.is_dir):
            text = f"{shown(folder.root)}: watched folder is missing; make it or take it out of intake.folders"
            return self._service.note(f"folder {folder.root}", text)
        try:
            await asyncio.to_thread(self._events.watch, folder)
        except Unavailable as error:
            problems.append(error.message)
        walker = walk(folder)
        while chunk := await asyncio.to_thread(_take, walker):
            unread = [found for found in chunk if isinstance(found, RefusedEntry)]
            self._refuse([found for found in unread if found.file], {found.path: folder for found in unread})
            problems += [f"{shown(found.path)}: {found.reason}" for found in unread if not found.file]
            await self._read_found(folder, dict(found for found in chunk if not isinstance(found, RefusedEntry)))
        return self._service.note(f"folder {folder.root}", _shortened(problems))

    async def _read_found(self, folder: Folder, found: dict[Path, ObservedFile]) -> None:
        """Ingest what a scan found and the archive does not know; what was written just now settles first."""
        if not found:
            return
        changed = await self._service.archive.changed_files(list(found), self._call(folder))
        now, now_ns = self._now(), int(self._service.clock.now().timestamp() * 1e9)
        young_ns = self._config.settle_ms * 1_000_000
        old = []
        for path in changed:
            if now_ns - found[path].modified_ns < young_ns:
                self._rescan_wanted |= not self._wait_for(folder, path, Sign.SEEN, now, found[path])
            elif path not in self._settling:
                old.append(path)
        for batch in _batches(old, self._config.batch_files):
            await self._ingest(folder, batch)

    # ----------------------------------------------------------------------------------------------------- ingest

    async def _ingest(self, folder: Folder, paths: Sequence[Path]) -> None:
        try:
            outcomes = await self._service.ingest_files(paths, self._call(folder), folder.root)
        except Exception as error:  # noqa: BLE001  (shown in status and logged; the files are offered again)
            self._later(folder, error)
            return
        self._service.note("watch", "")
        for outcome in outcomes:
            self._report(folder, outcome)

    def _later(self, folder: Folder, error: Exception) -> None:
        """Something is wrong with the archive or the disk: say so, and scan again after a while."""
        delay = error.retry_after_s if isinstance(error, Unavailable) else _RETRY_S
        _log.error("watch_failed", folder=str(folder.root), error=str(error), exc_info=error)
        self._service.note("watch", f"{folder.root}: {error}; trying again in {delay:.0f} s")
        self._service.metrics.count("watch_errors")
        self._retry_at = self._now() + max(1.0, delay)

    def _report(self, folder: Folder, outcome: IngestOutcome) -> None:
        self._service.metrics.count(f"watch_{outcome.outcome}")
        outcome = msgspec.structs.replace(outcome, path=shown(Path(outcome.path)))
        self._service.hub.publish("ingested", folder.tenant, **msgspec.structs.asdict(outcome))
        if outcome.outcome in ("quarantined", "failed"):
            _log.warning("not_ingested", path=outcome.path, outcome=outcome.outcome, reason=outcome.reason)

    def _refuse(self, refused: Sequence[RefusedEntry], owners: dict[Path, Folder]) -> None:
        """Report each refusal once (within bounds), not at every scan."""
        for entry in refused:
            key = (entry.path, entry.reason)
            if key not in self._refused:
                self._report(
                    owners[entry.path], IngestOutcome(path=str(entry.path), outcome="failed", reason=entry.reason)
                )
            self._refused[key] = None
            self._refused.move_to_end(key)
            if len(self._refused) > _REMEMBERED_REFUSALS:
                self._refused.popitem(last=False)

    def _call(self, folder: Folder) -> RequestContext:
        return RequestContext(tenant=folder.tenant, priority=Priority.BACKGROUND)


def _look_at_all(owners: dict[Path, Folder]) -> dict[Path, ObservedFile | RefusedEntry | None]:
    return {path: look_at(path, folder) for path, folder in owners.items()}


def _take(walker: Iterator[tuple[Path, ObservedFile] | RefusedEntry]) -> list[tuple[Path, ObservedFile] | RefusedEntry]:
    return list(itertools.islice(walker, _SCAN_CHUNK))


def _batches(paths: Sequence[Path], size: int) -> Iterator[Sequence[Path]]:
    return (paths[start : start + size] for start in range(0, len(paths), size))


def _by_folder(paths: Sequence[Path], owners: dict[Path, Folder]) -> Iterator[tuple[Folder, list[Path]]]:
    for folder in dict.fromkeys(owners[path] for path in paths):
        yield folder, [path for path in paths if owners[path] == folder]


def _shortened(problems: Sequence[str]) -> str:
    more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more
