"""How a command of a root's daemon loses root before its sandbox is made: a program of its own, run by path.

It joins a keyring of its own, puts the work directory where everybody can reach it, in a mount namespace of its own,
becomes a user without rights and turns into the program it is given. It forks nothing, so that what it becomes is the
daemon's own child: bubblewrap then dies with the daemon, for the daemon may signal it. Standard library only.

    python -I -S root_entry.py USER WORK PLACE PROGRAM ARGUMENTS...
"""

import ctypes
import os
import sys

_NEW_MOUNTS = 0x20000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_NO_NEW_PRIVILEGES = 38
_KEYCTL, _JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1


def enter(user: int, work: str, place: str, command: list[str]) -> None:
    """Never returns but by OSError, and nothing was run then."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (keyctl := _KEYCTL.get(os.uname().machine)) is not None:
        libc.syscall(keyctl, _JOIN_SESSION_KEYRING, None)  # where that is denied, so is reading one
    _check("unshare", libc.unshare(_NEW_MOUNTS))
    _check("private mounts", libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None))
    _check(f"bind {work}", libc.mount(os.fsencode(work), os.fsencode(place), None, _BIND, None))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _check("no new privileges", libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    os.execv(command[0], command)


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        enter(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
    except OSError as error:
        sys.exit(f"the sandbox cannot be entered without root's rights: {error}")
