"""A second place for a database file: it has every acknowledged commit, and takes over when the first place fails.

What a commit appends to the write-ahead log is appended to a log beside a copy of the file; SQLite reads the two as it
reads its own. When the log begins again, the copy takes in what its log held. A copy that is not in step is made again
whole. A note beside it says what it is worth, so that a stale one is never served:

    following           it has every acknowledged commit
    closed SIZE MTIME   the same, of a file that was closed with this size and time
    leading REASON      the first place failed: this is the file
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from gaiad.base.errors import GaiadError
from gaiad.base.home import replace_file, sync_folder
from gaiad.base.logs import get_logger
from gaiad.store.database import Damaged, StorageFailed, StorageFull, connect, copy_database, find_damage

_RETRY_S = 60.0
_LOG_HEADER, _FRAME_HEADER = 32, 24  # sqlite.org/fileformat2.html, section 4.1
_CHUNK_BYTES = 1 << 20
_SPARE = 1.1
_SUFFIXES = ("", "-wal", "-shm")
BODIES = "bodies"
"""A folder beside a tenant's database: large JSON bodies that rows of it name by their hash."""
_log = get_logger("gaiad.store")


class Secondary:
    """Of the file `primary`, at `path`. Used by one thread at a time: the writer's, or whoever opens and closes it."""

    def __init__(self, primary: Path, path: Path) -> None:
        self.primary = primary
        self.path = path
        self.problem = ""
        """Why one of the two places is not used, in words."""
        self.leads = False
        self._note = path.with_name(f"{path.name}.place")
        self._in_step = False
        self._salts = b""  # of the log that is followed
        self._shipped = 0  # bytes of it
        self._reason = ""
        self._retry_at = 0.0

    # ------------------------------------------------------------------------------------------------ opening, closing

    def open(self) -> None:
        """See what the copy is worth, before anything opens the first file."""
        self.leads, self._in_step, self._retry_at, self.problem = False, False, 0.0, ""
        kind, _, rest = self._read_note().partition(" ")
        if kind == "leading":
            self._lead(rest)
            return
        try:
            self._in_step = (
                rest == self._stamp() != "" if kind == "closed" else kind == "following" and self._take_rest_of_log()
            )
        except OSError as error:
            self.problem = f"{self.path.parent} cannot be read ({error.strerror})"

    def take_over(self, reason: str, *, opening: bool = False) -> bool:
        """Make this the file from now on; false when it does not have every commit, or cannot be written."""
        kind = self._read_note().partition(" ")[0]
        known = kind in ("following", "closed") if opening else self._in_step
        if self.leads or not known or not self.path.exists():
            return False
        reason = " ".join(reason.split())
        try:
            replace_file(self._note, f"leading {reason}".encode())
        except OSError as error:
            self.problem = f"{self._note} cannot be written ({error.strerror})"
            return False
        self._lead(reason)
        self._retry_at = 0.0 if opening else time.monotonic() + _RETRY_S
        _log.error("secondary_took_over", primary=str(self.primary), secondary=str(self.path), reason=reason)
        return True

    def _lead(self, reason: str) -> None:
        self.leads, self._in_step, self._reason = True, False, reason
        self.problem = f"{self.path} serves in place of {self.primary}: {reason}"

    def close(self) -> None:
        """After the first file is closed: the copy is whole by itself, and so marked."""
        if not self._in_step:
            return
        try:
            self._settle()
            if stamp := self._stamp():
                replace_file(self._note, f"closed {stamp}".encode())
        except (OSError, sqlite3.Error, GaiadError) as error:
            _log.error("secondary_not_closed", secondary=str(self.path), reason=str(error))

    # ------------------------------------------------------------------------------------------------------- following

    def ship(self) -> None:
        """After a commit on the first file, before it is acknowledged. Never raises: what failed is copied later."""
        if self.leads or (not self._in_step and time.monotonic() < self._retry_at):
            return
        try:
            if not self._in_step:
                self._copy()
            self._append()
            if not self._in_step:
                replace_file(self._note, b"following")
                self._in_step, self.problem = True, ""
        except (OSError, sqlite3.Error, GaiadError) as error:
            self.fall_behind(str(error))

    def follow(self, *, changed: bool) -> None:
        """The first file is open, `changed` by its migration. A copy that was in step is followed from here on."""
        self._salts, self._shipped = b"", 0
        if self._in_step and not changed:
            try:
                replace_file(self._note, b"following")
            except OSError as error:
                self.fall_behind(str(error))
        elif self._in_step:
            self.fall_behind("its schema is older")
            self._retry_at = 0.0

    def fall_behind(self, reason: str) -> None:
        """The copy may lack a commit: it is not used until it was made again."""
        self._in_step, self.leads, self._retry_at = False, False, time.monotonic() + _RETRY_S
        with suppress(OSError):
            self._note.unlink(missing_ok=True)
        self.problem = f"the second place {self.path} is not up to date and is copied again within a minute: {reason}"
        _log.error("secondary_behind", secondary=str(self.path), reason=reason)

    def emptied(self) -> None:
        """The first file's log was emptied, so that it holds no deleted text: do the same here."""
        if self._in_step:
            try:
                self._settle()
                self._salts, self._shipped = b"", 0
            except (OSError, sqlite3.Error, GaiadError) as error:
                self.fall_behind(str(error))

    def _copy(self) -> None:
        """Raises OSError, GaiadError; the old copy is then still there."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _exchange(self.primary, self.path)
        _copy_bodies(self.primary.parent, self.path.parent)
        self._salts, self._shipped = b"", 0

    def _append(self) -> None:
        with _log_of(self.primary).open("rb", buffering=0) as log:
            header = os.pread(log.fileno(), _LOG_HEADER, 0)
            if len(header) < _LOG_HEADER:
                return
            salts = header[16:24]
            if salts != self._salts:
                self._settle()
                self._salts, self._shipped = salts, 0
            end = _last_commit(log.fileno(), self._shipped or _LOG_HEADER, header)
            if end > (self._shipped or _LOG_HEADER):
                _copy_range(log.fileno(), _log_of(self.path), self._shipped, end)
                self._shipped = end

    def _take_rest_of_log(self) -> bool:
        """After a crash: whether the log here is the beginning of the first file's, which is then copied to its end."""
        ours, theirs = _log_of(self.path), _log_of(self.primary)
        if not theirs.is_file() or not theirs.stat().st_size or not ours.is_file():
            return False
        size = ours.stat().st_size
        if size < _LOG_HEADER or size > theirs.stat().st_size or not _begins_alike(ours, theirs, size):
            return False
        with theirs.open("rb", buffering=0) as log:
            _copy_range(log.fileno(), ours, size, theirs.stat().st_size)
        try:
            self._settle()
        except (sqlite3.Error, GaiadError):
            return False
        return True

    def _settle(self) -> None:
        """Take what the log here holds into the copy; no log is left."""
        with closing(connect(self.path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # ------------------------------------------------------------------------------------------------------- returning

    def due(self) -> bool:
        """Whether it is time to try the first place again."""
        return self.leads and time.monotonic() >= self._retry_at

    def hand_back(self, go_on_at: Callable[[Path], bool]) -> None:
        """Copy everything to the first place, whose failed file is moved aside, and let the writer go on there."""
        self._retry_at = time.monotonic() + _RETRY_S
        try:
            self.primary.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            needed = self.path.stat().st_size * _SPARE
            if shutil.disk_usage(self.primary.parent).free < needed:
                raise StorageFull(f"{self.primary.parent} has too little free space")
            _exchange(self.path, self.primary, aside=True)
            _copy_bodies(self.path.parent, self.primary.parent)
            self._note.unlink()
            if not go_on_at(self.primary):
                replace_file(self._note, f"leading {self._reason}".encode())
                raise StorageFailed(f"{self.primary} cannot be opened")
        except (OSError, sqlite3.Error, GaiadError) as error:
            self.problem = f"{self.path} serves in place of {self.primary}: {self._reason} (tried again: {error})"
            return
        self.leads, self._retry_at, self.problem = False, 0.0, ""
        _log.warning("primary_serves_again", primary=str(self.primary), secondary=str(self.path))

    # ----------------------------------------------------------------------------------------------------------- notes

    def _read_note(self) -> str:
        try:
            return self._note.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def _stamp(self) -> str:
        """Size and time of the first file; "" while a log belongs to it."""
        status = self.primary.stat()
        log = _log_of(self.primary)
        return "" if log.exists() and log.stat().st_size else f"{status.st_size} {status.st_mtime_ns}"


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _last_commit(log: int, start: int, header: bytes) -> int:
    """Where the last committed frame of a log ends; `start` when none follows it."""
    size, salts = _FRAME_HEADER + int.from_bytes(header[8:12], "big"), header[16:24]
    position = end = start
    while len(head := os.pread(log, _FRAME_HEADER, position)) == _FRAME_HEADER and head[8:16] == salts:
        position += size
        if head[4:8] != b"\0\0\0\0":  # the size of the file after a commit; 0 in frames before its last
            end = position
    return end


def _copy_range(source: int, target: Path, start: int, end: int) -> None:
    """Put bytes of a log at the same place of another file, durable when this returns. Raises OSError."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while start < end:
            content = os.pread(source, min(_CHUNK_BYTES, end - start), start)
            start += os.pwrite(descriptor, content, start)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begins_alike(ours: Path, theirs: Path, size: int) -> bool:
    with ours.open("rb") as one, theirs.open("rb") as other:
        while size > 0:
            content = one.read(min(_CHUNK_BYTES, size))
            if not content or content != other.read(len(content)):
                return False
            size -= len(content)
    return True


def _exchange(source: Path, target: Path, *, aside: bool = False) -> None:
    """Put a whole, checked copy of `source` in the place of `target`. Raises OSError, GaiadError; `target` stays then.

    Connections that still read the old `target` keep its files, which lose only their names.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        copy_database(source, partial)
        if damage := find_damage(partial):
            raise Damaged(f"{source} is damaged ({damage[0]})")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        number = 1
        while target.with_name(f"{target.name}.damaged-{number}").exists():
            number += 1
        failed = target.with_name(f"{target.name}.damaged-{number}")
        for suffix in _SUFFIXES:
            old = target.with_name(f"{target.name}{suffix}")
            if aside and old.exists():
                old.rename(failed.with_name(f"{failed.name}{suffix}"))
            elif suffix:
                old.unlink(missing_ok=True)
        partial.rename(target)
        sync_folder(target.parent)
        if aside and failed.exists() and not find_damage(failed):  # it is whole, but has less than the copy
            for suffix in _SUFFIXES:
                failed.with_name(f"{failed.name}{suffix}").unlink(missing_ok=True)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _copy_bodies(source: Path, target: Path) -> None:
    """Large bodies that are not there yet; each is named by its hash. Raises OSError."""
    for path in source.glob(f"{BODIES}/??/*"):
        if not (copy := target / path.relative_to(source)).exists() and not path.name.startswith("."):
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(copy, path.read_bytes())
