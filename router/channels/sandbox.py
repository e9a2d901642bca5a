"""The arguments of bubblewrap for one command: no network, a read-only system, one writable folder (decision 13).

Everything is in new namespaces and without capabilities; no home, no socket and no variable of the daemon's is there.
Limits of a process are set inside, by `prlimit`, for a number of processes counts by user namespace. The kernel holds
root to no such number, so a daemon of root first becomes a user without rights: with it alone a fork bomb is held.
Argument lists only: no shell reads any of it. The numbers are the shipped ones with the user's own.
"""

import math
import shutil
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from constants.load import load
from gaiad.base.config import ShellConfig
from gaiad.base.errors import Unavailable

MIB = 1 << 20
Positive = Annotated[int, msgspec.Meta(ge=1)]


class SandboxNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many sandboxes there are at once, and what is inside: processes, open files, MiB of temporary folders,
    niceness, PATH, read-only system files.

    `root_becomes` is the uid and gid of commands where the daemon is root's.
    """

    at_once: Positive
    processes: Positive
    root_becomes: Positive
    open_files: Positive
    temporary_mib: Positive
    niceness: Annotated[int, msgspec.Meta(ge=0, le=19)]
    path: str
    system: tuple[str, ...]


class WatchNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a running command is looked at."""

    every_ms: Positive


class WorkNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a work directory may be, besides its bytes."""

    most_entries: Positive
    most_depth: Positive


class CommandNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of all arguments."""

    most_bytes: Positive


class ShellNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/shell.toml."""

    sandbox: SandboxNumbers
    watch: WatchNumbers
    work: WorkNumbers
    command: CommandNumbers


class ShellLimits(msgspec.Struct, frozen=True, kw_only=True):
    """One command's: seconds of wall time, bytes of memory of all its processes, of output, of the work directory."""

    timeout_s: float
    memory_bytes: int
    output_bytes: int
    work_bytes: int
    numbers: ShellNumbers


def shell_numbers() -> ShellNumbers:
    """The shipped numbers."""
    return load("shell.toml", ShellNumbers)


def shell_limits(config: ShellConfig) -> ShellLimits:
    """The user's limits with the shipped numbers."""
    return ShellLimits(
        timeout_s=config.timeout_s,
        memory_bytes=config.memory_mib * MIB,
        output_bytes=config.output_bytes,
        work_bytes=config.work_mib * MIB,
        numbers=shell_numbers(),
    )


WORK = "/work"
IN_MEMORY = (WORK, "/tmp", "/dev/shm")
"""The file systems that a command can write to."""
_FOUND = "/tmp"  # where a user without rights finds the work directory
_BEFORE = "/before"
_AROUND = """\
exec 9>&0 </dev/null
cp -a /before/. . || exit 125
"$@" 9>&-
status=$?
kill -s KILL -- -1 2>/dev/null
chmod -R u+rwX . 2>/dev/null
tar -cSf - . >&9 2>/dev/null
exit $status
"""
"""Around the command: the work directory is filled before it and handed out after all of its processes have ended."""
_UNIX_SHELVES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PROGRAMS = {
    "bwrap": "bubblewrap (bwrap) is not installed; install it (`apt install bubblewrap`) and restart gaiad",
    "prlimit": "prlimit is not installed; install util-linux and restart gaiad",
    "nice": "nice is not installed; install coreutils and restart gaiad",
    "tar": "tar is not installed; install it and restart gaiad",
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
    return Programs(*found[:3])


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
    filter_fd: int = -1,
    *,
    as_root: bool,
) -> list[str]:
    """The whole argument list, `argv` last and unchanged; bubblewrap reports on `status_fd`.

    The work directory inside is a file system in memory of `work_bytes`: it begins with what `work` holds, and a tar of
    what is in it in the end comes out of the standard input. `filter_fd` gives the seccomp program, -1 for none.

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
        *(("--seccomp", str(filter_fd)) if filter_fd >= 0 else ()),
        *("--clearenv", "--setenv", "PATH", numbers.path, "--setenv", "HOME", WORK, "--setenv", "TMPDIR", "/tmp"),
        *("--setenv", "LANG", "C.UTF-8", "--setenv", "TERM", "dumb"),
        *view,
        *("--proc", "/proc", "--dev", "/dev", "--size", temporary, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", temporary, "--tmpfs", "/tmp", "--ro-bind", place, _BEFORE),
        *("--perms", "0700", "--size", str(limits.work_bytes), "--tmpfs", WORK, "--chdir", WORK, "--remount-ro", "/"),
        *("--", "/bin/sh", "-c", _AROUND, "sh", programs.prlimit, *_process_limits(limits), "--", *argv),
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


class Machine(NamedTuple):
    """AUDIT_ARCH of linux/audit.h, and the numbers of denied calls by name."""

    audit: int
    denied: dict[str, int]


_MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        {"ptrace": 101, "add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298,
         "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425},
    ),
    "aarch64": Machine(
        0xC00000B7,
        {"ptrace": 117, "add_key": 217, "request_key": 218, "keyctl": 219, "perf_event_open": 241,
         "process_vm_readv": 270, "process_vm_writev": 271, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425},
    ),
}  # fmt: skip
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # of struct seccomp_data
_ALLOW, _KILL, _NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x00050001
_X32 = 0x40000000  # calls of the x32 ABI have other numbers


def filter_program(machine: str) -> bytes:
    """The program for `os.uname().machine`, b"" for one whose numbers are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    calls = list(known.denied.values())
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(calls) + 1, 0, _X32),
        *((_EQUAL, len(calls) - place, 0, number) for place, number in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOT_PERMITTED),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
