"""The only place that knows watchdog: its threads hear from the kernel, and the event loop reads a bounded buffer.

What does not fit the buffer, what the kernel's queue dropped, and a watch that ended by itself are all reported as
`lost`: a scan finds what they were about.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from watchdog.events import (
    DirDeletedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.inotify import InotifyFullEmitter
from watchdog.observers.inotify_c import InotifyEvent, InotifyFD

from gaiad.base.errors import Unavailable
from gaiad.base.logs import get_logger

OPEN_FILE_PATIENCE = 20


class Sign(Enum):
    """What was heard about a file."""

    MOVED_IN = "moved in"
    CLOSED = "closed"
    WRITTEN = "written"
    SEEN = "seen"


class ObservedFile(NamedTuple):
    """What a look at a file shows: bytes, modification time in ns, inode."""

    size: int
    modified_ns: int
    inode: int


class _Waiting(NamedTuple):
    due: float
    sign: Sign
    look: ObservedFile | None


class Settling:
    """Files that wait to be read. Times are monotonic seconds; at most `capacity` files are remembered."""

    def __init__(self, settle_s: float, capacity: int) -> None:
        self._settle_s = settle_s
        self._capacity = capacity
        self._files: dict[Path, _Waiting] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._files

    def __len__(self) -> int:
        return len(self._files)

    def hear(self, path: Path, sign: Sign, now: float, look: ObservedFile | None = None) -> bool:
        """Note that something happened to `path`; false without room for it (a later scan will find it)."""
        if path not in self._files and len(self._files) >= self._capacity:
            return False
        self._files.pop(path, None)  # what was heard last comes last
        self._files[path] = _Waiting(now + self._quiet_s(sign), sign, look)
        return True

    def next_due(self) -> float | None:
        """When to look again."""
        return min((waiting.due for waiting in self._files.values()), default=None)

    def quiet(self, now: float, limit: int) -> list[Path]:
        """At most `limit` files that have been quiet long enough to look at."""
        due = (path for path, waiting in self._files.items() if waiting.due <= now)
        return [path for path, _ in zip(due, range(limit), strict=False)]

    def settle(self, looks: Mapping[Path, ObservedFile | None], now: float) -> list[Path]:
        """Of the files looked at, those that are whole; they are forgotten here, and so are those that have gone."""
        whole = []
        for path, look in looks.items():
            waiting = self._files.get(path)
            if waiting is None or waiting.due > now:
                continue
            if look is None:
                del self._files[path]
            elif waiting.sign in (Sign.MOVED_IN, Sign.CLOSED) or waiting.look == look:
                del self._files[path]
                whole.append(path)
            else:
                self._files[path] = _Waiting(now + self._quiet_s(waiting.sign), waiting.sign, look)
        return whole

    def _quiet_s(self, sign: Sign) -> float:
        if sign is Sign.MOVED_IN:
            return 0.0
        return self._settle_s * (OPEN_FILE_PATIENCE if sign is Sign.WRITTEN else 1)


_PARTIAL_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")


@dataclass(frozen=True, slots=True)
class Folder:
    """A watched folder (absolute, links resolved), its tenant, and folders below it that are not its business."""

    root: Path
    tenant: str
    without: frozenset[Path] = frozenset()

    def covers(self, path: Path) -> bool:
        """Whether `path` is for this folder to read: not hidden, not a partial download, not in another's folder."""
        try:
            inner = path.relative_to(self.root)
        except ValueError:
            return False
        return not any(is_passed_over(part) for part in inner.parts) and self.without.isdisjoint(path.parents)


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """Something in the folder that is not read, and why; `file` is false for what a whole directory is about."""

    path: Path
    reason: str
    file: bool = True


def shown(path: Path) -> str:
    """`path` as text that can be printed and sent: bytes that are not UTF-8 are written out."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def is_passed_over(name: str) -> bool:
    """Hidden files, and the names programs give to what they have not finished."""
    return name.startswith(".") or name.endswith(_PARTIAL_SUFFIXES)


def look_at(path: Path, folder: Folder) -> ObservedFile | RefusedEntry | None:
    """What `path` is now; None when it has gone, or is a link to what the folder holds anyway."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return _refuse_link(path, folder)
        if not Path(os.path.realpath(path.parent)).is_relative_to(folder.root):
            return RefusedEntry(
                path, "is behind a link that leads out of the watched folder; such links are not followed"
            )
    except OSError as error:
        return None if isinstance(error, FileNotFoundError | NotADirectoryError) else RefusedEntry(path, str(error))
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return RefusedEntry(path, "is not a regular file")
    return ObservedFile(status.st_size, status.st_mtime_ns, status.st_ino)


def _refuse_link(path: Path, folder: Folder) -> RefusedEntry | None:
    if Path(os.path.realpath(path)).is_relative_to(folder.root):
        return None
    return RefusedEntry(path, "is a link out of the watched folder; it is not followed")


def walk(folder: Folder) -> Iterator[tuple[Path, ObservedFile] | RefusedEntry]:
    """Every file below the folder in order of names, directory by directory, and what could not be read."""
    waiting = [folder.root]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            if directory == folder.root or not isinstance(error, FileNotFoundError):
                yield RefusedEntry(directory, f"cannot be read: {error.strerror}", file=False)
            continue
        below = []
        for name, is_directory in names:
            path = directory / name
            if is_passed_over(name):
                continue
            if is_directory:
                below += [] if path in folder.without else [path]
            elif isinstance(found := look_at(path, folder), RefusedEntry):
                yield found
            elif found is not None:
                yield path, found
        waiting += reversed(below)


_log = get_logger("gaiad.watch")
_HEARD: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    DirDeletedEvent,
]
Heard = dict[tuple[Folder, Path], Sign]


class EventBuffer:
    """What was heard since the last `take`, the newest sign a file. `wake` is called from watchdog's threads."""

    def __init__(self, capacity: int, wake: Callable[[], None]) -> None:
        self._capacity = capacity
        self._wake = wake
        self._lock = threading.Lock()
        self._heard: Heard = {}
        self._lost = False

    def put(self, folder: Folder, path: Path, sign: Sign) -> None:
        """Remember one event, or that it was lost."""
        with self._lock:
            key = (folder, path)
            if key in self._heard or len(self._heard) < self._capacity:
                self._heard[key] = sign
            else:
                self._lost = True
        self._wake()

    def lose(self) -> None:
        """Events went missing somewhere below."""
        with self._lock:
            self._lost = True
        self._wake()

    def take(self) -> tuple[Heard, bool]:
        """What was heard, and whether something was lost; empties the buffer."""
        with self._lock:
            heard, self._heard = self._heard, {}
            lost, self._lost = self._lost, False
        return heard, lost


class _Handler(FileSystemEventHandler):
    def __init__(self, folder: Folder, buffer: EventBuffer) -> None:
        self._folder = folder
        self._buffer = buffer

    def dispatch(self, event: FileSystemEvent) -> None:
        """Called on watchdog's thread for every event of the folder."""
        if isinstance(event, DirDeletedEvent):
            if os.fsdecode(event.src_path) == str(self._folder.root):
                self._buffer.lose()
            return
        sign, place = _sign(event)
        path = Path(os.fsdecode(place))
        if place and self._folder.covers(path):
            self._buffer.put(self._folder, path, sign)


def _sign(event: FileSystemEvent) -> tuple[Sign, bytes | str]:
    if isinstance(event, FileMovedEvent):
        return Sign.MOVED_IN, event.dest_path
    if isinstance(event, FileClosedEvent):
        return Sign.CLOSED, event.src_path
    return (Sign.WRITTEN if isinstance(event, FileModifiedEvent) else Sign.SEEN), event.src_path


class _Descriptor(InotifyFD):
    """Tells when the kernel's queue overflowed, which watchdog only logs."""

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        super().__init__()
        self._on_overflow = on_overflow

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            self._on_overflow()


class _Observer(BaseObserver):
    def __init__(self, on_overflow: Callable[[], None]) -> None:
        self._descriptor = _Descriptor(on_overflow)
        self._descriptor.start()
        super().__init__(InotifyFullEmitter, inotify_fd=self._descriptor)

    def alive(self) -> bool:
        return self.is_alive() and self._descriptor.is_alive()

    def hears(self, watch: ObservedWatch) -> bool:
        emitter = self._emitter_for_watch.get(watch)
        return emitter is not None and emitter.is_alive()

    def on_thread_stop(self) -> None:
        super().on_thread_stop()
        self._descriptor.stop()
        self._descriptor.join()


class FolderEvents:
    """Watches folders and fills `buffer`. Methods block (a deep tree takes a while): call them on a thread."""

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer
        self._observer: _Observer | None = None
        self._watches: dict[Folder, tuple[ObservedWatch, tuple[int, int]]] = {}

    def watch(self, folder: Folder) -> bool:
        """Make sure `folder` is watched, as the directory it is now; true when it was not before.

        Raises Unavailable, naming the remedy, when the system does not allow it; scans still find what is new.
        """
        try:
            status = folder.root.stat()
            identity = (status.st_dev, status.st_ino)
            observer = self._running()
            watched = self._watches.get(folder)
            if watched is not None and watched[1] == identity and observer.hears(watched[0]):
                return False
            self.unwatch(folder)
            handler = _Handler(folder, self._buffer)
            watch = observer.schedule(handler, str(folder.root), recursive=True, event_filter=_HEARD)
        except OSError as error:
            raise Unavailable(
                f"{folder.root}: not watched ({error.strerror}), only scanned every intake.rescan_s; "
                "raise fs.inotify.max_user_watches or max_user_instances"
            ) from error
        self._watches[folder] = (watch, identity)
        return True

    def unwatch(self, folder: Folder) -> None:
        """Stop watching `folder`."""
        watched = self._watches.pop(folder, None)
        if watched is not None and self._observer is not None:
            self._observer.unschedule(watched[0])

    def folders(self) -> list[Folder]:
        """What is watched now."""
        return list(self._watches)

    def stop(self) -> None:
        """End all threads."""
        self._watches.clear()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None

    def _running(self) -> _Observer:
        if self._observer is not None and self._observer.alive():
            return self._observer
        if self._observer is not None:
            _log.error("watch_threads_ended", remedy="watching again")
            self.stop()
        self._observer = _Observer(self._buffer.lose)
        self._observer.start()
        return self._observer
