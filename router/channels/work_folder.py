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
import sys
import tarfile
from pathlib import Path
from typing import IO

from gaiad.base.errors import Unavailable
from gaiad.base.logs import get_logger
from router.channels.process_watch import folder_size
from router.channels.sandbox import MIB, ShellLimits

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
                f"{where}: cannot be copied ({error.strerror or error}), so nothing is run; fix or empty {self.path}",
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
        """What the command did stays; the copy is not needed any longer."""
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
        raise Unavailable(f"{self.path} {reason}, so no copy is made and the command is not run; empty it", 60.0)


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


_HEADER_BYTES = 2048  # of an entry in a tar, generously
_LEFT_OVER = ".new"
_OLD = ".old"


def most_tar_bytes(limits: ShellLimits) -> int:
    """Above this the tar is more than the work directory can hold."""
    return limits.work_bytes + limits.numbers.work.most_entries * _HEADER_BYTES + MIB


def put_in_place(tar: IO[bytes], work: Path, limits: ShellLimits) -> str:
    """Make `work` what the tar holds; else leave it as it was and say why. "" when done."""
    fresh, old = work.with_name(work.name + _LEFT_OVER), work.with_name(work.name + _OLD)
    for left_over in (fresh, old):
        shutil.rmtree(left_over, ignore_errors=True)
    try:
        fresh.mkdir(mode=0o700)
        if problem := _extract(tar, fresh, limits):
            return problem
        work.rename(old)
        fresh.rename(work)
    except (OSError, tarfile.TarError, ValueError, RecursionError) as error:
        return f"its work directory cannot be kept ({getattr(error, 'strerror', None) or error}); it is as before"
    finally:
        for left_over in (fresh, old):
            shutil.rmtree(left_over, ignore_errors=True)
    return ""


def _extract(tar: IO[bytes], fresh: Path, limits: ShellLimits) -> str:
    if not hasattr(tarfile, "data_filter"):
        version = ".".join(map(str, sys.version_info[:3]))
        return f"Python {version} cannot unpack its work directory safely; give gaiad Python 3.11.4 or newer"
    numbers, entries, total = limits.numbers.work, 0, 0
    with tarfile.open(fileobj=tar, mode="r:") as archive:
        for member in archive:
            entries += 1
            total += member.size if not member.issparse() else 0
            if entries > numbers.most_entries + 1:
                return f"its work directory has more than {numbers.most_entries} files; it is as before"
            if member.name.count("/") > numbers.most_depth:
                return f"its work directory has folders more than {numbers.most_depth} deep; it is as before"
            if total > limits.work_bytes:
                return f"its work directory grew above {limits.work_bytes // MIB} MiB (shell.work_mib); it is as before"
            archive.extract(member, fresh, filter=_inside)
    return ""


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None
