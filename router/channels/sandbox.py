"""The arguments of bubblewrap for one command: no network, a read-only system, one writable folder (decision 13).

Everything is in new namespaces and without capabilities; no home, no socket and no variable of the daemon's is there.
Limits of a process are set inside, by `prlimit`, for a number of processes counts by user namespace. The kernel holds
root to no such number, so a daemon of root first becomes a user without rights: with it alone a fork bomb is held.
Argument lists only: no shell reads any of it.
"""

import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gaiad.errors import Unavailable
from router.channels.shell_limits import MIB, SandboxNumbers, ShellLimits

WORK = "/work"
_FOUND = "/tmp"  # where a user without rights finds the work directory
_UNIX_SHELVES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PROGRAMS = {
    "bwrap": "bubblewrap (bwrap) is not installed; install it (`apt install bubblewrap`) and restart gaiad",
    "prlimit": "prlimit is not installed; install util-linux and restart gaiad",
    "nice": "nice is not installed; install coreutils and restart gaiad",
}


class Programs(NamedTuple):
    """Paths of what a sandbox is made with, outside of it."""

    bwrap: str
    prlimit: str
    nice: str


def find_programs(path: str) -> Programs:
    """Raises Unavailable that names the first that is not on `path`."""
    found: list[str] = []
    for name, remedy in _PROGRAMS.items():
        place = shutil.which(name, path=path)
        if place is None:
            raise Unavailable(remedy, 3600.0)
        found.append(place)
    return Programs(*found)


def system_view(numbers: SandboxNumbers, root: Path = Path("/")) -> list[str]:
    """What of the machine is to be seen, read-only: programs and libraries, and a few files they need."""
    view = ["--ro-bind", str(root / "usr"), "/usr"]
    for name in _UNIX_SHELVES:
        shelf = root / name
        if shelf.is_symlink():
            view += ["--symlink", str(shelf.readlink()), f"/{name}"]
        elif shelf.is_dir():
            view += ["--ro-bind", str(shelf), f"/{name}"]
    for file in numbers.system:
        view += ["--ro-bind-try", file, file]
    return view


def sandbox_arguments(
    programs: Programs,
    view: Sequence[str],
    work: Path,
    argv: Sequence[str],
    limits: ShellLimits,
    status_fd: int,
    *,
    as_root: bool,
) -> list[str]:
    """The whole argument list, `argv` last and unchanged; bubblewrap reports on `status_fd`.

    With `as_root` the work directory has to belong to the user that root becomes.
    """
    numbers = limits.numbers.sandbox
    temporary = str(numbers.temporary_mib * MIB)
    before = _without_rights(work, numbers.root_becomes) if as_root else []
    place = _FOUND if as_root else str(work)
    return [
        *(programs.nice, "-n", str(numbers.niceness), *before, programs.bwrap),
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "sandbox"),
        *("--json-status-fd", str(status_fd)),
        *("--clearenv", "--setenv", "PATH", numbers.path, "--setenv", "HOME", WORK, "--setenv", "TMPDIR", "/tmp"),
        *("--setenv", "LANG", "C.UTF-8", "--setenv", "TERM", "dumb"),
        *view,
        *("--proc", "/proc", "--dev", "/dev", "--size", temporary, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", temporary, "--tmpfs", "/tmp", "--bind", place, WORK, "--chdir", WORK, "--remount-ro", "/"),
        *("--", programs.prlimit, *_process_limits(limits), "--", *argv),
    ]


def _without_rights(work: Path, user: int) -> list[str]:
    """Become that user, who could not reach the work directory by its path: it is put where everybody can."""
    entry = Path(__file__).with_name("root_entry.py")
    return [sys.executable, "-I", "-S", str(entry), str(user), str(work), _FOUND]


def _process_limits(limits: ShellLimits) -> list[str]:
    """Of each process; what all of them together may have is watched from outside."""
    numbers = limits.numbers.sandbox
    return [
        f"--nproc={numbers.processes}",
        f"--nofile={numbers.open_files}",
        f"--data={limits.memory_bytes}",
        f"--fsize={limits.work_bytes}",
        f"--cpu={math.ceil(limits.timeout_s) + 1}",
        "--core=0",
    ]
