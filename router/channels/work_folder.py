"""The one folder a session's commands may write to, and the copy of it that a revert puts back (decision 13).

A folder of the session's own, empty at first; the person may put files there. Before a command runs it is copied, so it
has to be small. A revert renames: it does not depend on what a command left behind. Blocks; one command a session at a
time is the caller's business.
"""

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

from gaiad.errors import Unavailable
from gaiad.logs import get_logger
from router.channels.process_watch import folder_size
from router.channels.shell_limits import MIB, ShellLimits

_NOW = "now"
_BEFORE = "before-"
_ASIDE = "set-aside-"
_REMOVE_S = 60.0
_log = get_logger("gaiad.shell")


class WorkFolder:
    """Of one session of one tenant, below `root`; nothing is made before `prepare`."""

    def __init__(self, root: Path, tenant: str, session_id: str) -> None:
        self._place = root / tenant / hashlib.sha256(session_id.encode()).hexdigest()[:16]

    @property
    def path(self) -> Path:
        """Where the commands work."""
        return self._place / _NOW

    def before(self, name: str) -> Path:
        """Where the copy of before the command `name` lies."""
        return self._place / f"{_BEFORE}{name}"

    def prepare(self, name: str, limits: ShellLimits) -> Path:
        """The folder, with a copy of it made for the command `name`; copies of earlier commands go.

        Raises Unavailable when it is too large or cannot be read: then there is no copy and nothing may be run.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._place.chmod(0o700)
            self._check(limits)
            for leftover in [*self._place.glob(f"{_BEFORE}*"), *self._place.glob(f"{_ASIDE}*")]:
                _remove(leftover)
            partial = self._place / f"{_ASIDE}copy"
            _copy(self.path, partial)
            partial.rename(self.before(name))
        except OSError as error:
            where = error.filename or self.path
            raise Unavailable(
                f"{where}: cannot be copied ({error.strerror or error}), so nothing is run; mend or empty {self.path}",
                60.0,
            ) from error
        return self.path

    def revert(self, name: str) -> bool:
        """Put the copy of before the command `name` in the folder's place; False when there is none.

        Raises Unavailable when it cannot be moved.
        """
        before, aside = self.before(name), self._place / f"{_ASIDE}{name}"
        if not before.is_dir():
            return False
        try:
            if self.path.exists():
                self.path.rename(aside)
            before.rename(self.path)
        except OSError as error:
            raise Unavailable(
                f"{self.path}: cannot be put back ({error.strerror or error}); its copy is {before}", 60.0
            ) from error
        _remove(aside)
        return True

    def keep(self, name: str) -> None:
        """What the command did stays; the copy is not needed any more."""
        _remove(self.before(name))

    def _check(self, limits: ShellLimits) -> None:
        numbers = limits.numbers.work
        size = folder_size(self.path, limits.work_bytes, numbers.most_entries)
        if size.bytes > limits.work_bytes:
            reason = f"holds more than {limits.work_bytes // MIB} MiB (shell.work_mib)"
        elif size.entries > numbers.most_entries:
            reason = f"holds more than {numbers.most_entries} files"
        elif size.depth > numbers.most_depth:
            reason = f"holds folders more than {numbers.most_depth} deep"
        else:
            return
        raise Unavailable(f"{self.path} {reason}, so no copy is made and nothing is run; empty it", 60.0)


def _copy(source: Path, target: Path) -> None:
    """Folders, files, links and named pipes with their modes and times; sockets are left out. Follows no link."""
    waiting = [(source, target)]
    while waiting:
        here, there = waiting.pop()
        there.mkdir(mode=0o700)
        there.chmod(0o700 | stat.S_IMODE(here.stat().st_mode) & 0o777)
        with os.scandir(here) as entries:
            for entry in entries:
                status, copy = entry.stat(follow_symlinks=False), there / entry.name
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((Path(entry.path), copy))
                elif stat.S_ISLNK(status.st_mode):
                    copy.symlink_to(Path(entry.path).readlink())
                elif stat.S_ISREG(status.st_mode):
                    _copy_file(entry.path, copy, status)
                elif stat.S_ISFIFO(status.st_mode):
                    os.mkfifo(copy, 0o600)


def _copy_file(source: str, target: Path, status: os.stat_result) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(stat.S_IMODE(status.st_mode) & 0o777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove(folder: Path) -> None:
    """By `chmod` and `rm`, which take any depth and any mode; what is left is said in the log and tried again later."""
    if not folder.exists() and not folder.is_symlink():
        return
    try:
        for command in (["chmod", "-R", "u+rwX", "--"], ["rm", "-rf", "--"]):
            subprocess.run([*command, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, timeout=_REMOVE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("not_removed", folder=str(folder), error=str(error))
    if folder.exists():
        _log.warning("not_removed", folder=str(folder), remedy="remove it by hand")
