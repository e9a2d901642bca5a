"""The only place that knows watchdog: its threads hear from the kernel, and the event loop reads a bounded buffer.

What does not fit the buffer, what the kernel's queue dropped, and a watch that ended by itself are all told as `lost`:
a scan finds what they were about.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path

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

from gaiad.errors import Unavailable
from gaiad.intake.scan import Folder
from gaiad.intake.settle import Sign
from gaiad.logs import get_logger

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
