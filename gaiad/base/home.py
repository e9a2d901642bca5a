"""Where things lie in a home, and where its socket is: one answer for the daemon and for the client that looks for it.

Nothing is opened here and nothing heavy is imported, for the command line starts through this module.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from gaiad.base.errors import Conflict

SOCKET_PATH_MAX_BYTES = 107
SOCKET_NAME = "gaiad.sock"


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory (absolute, links resolved) and the unix socket that belongs to it."""

    root: Path
    socket: Path

    @property
    def lock(self) -> Path:
        """Holds the running daemon's pid and socket, a line each, under its flock."""
        return self.root / "daemon.lock"

    @property
    def token(self) -> Path:
        """Bearer tokens, one a line; the owner's first."""
        return self.root / "token"

    @property
    def inbox(self) -> Path:
        """Always watched, for tenant `local`."""
        return self.root / "inbox"

    @property
    def config_file(self) -> Path:
        return self.root / "config.toml"


def find_home(argument: str | None, environment: Mapping[str, str]) -> Home:
    """The home named by `argument` (`--home`), else GAIAD_HOME, else gaiad in the XDG data directory.

    The socket lies under XDG_RUNTIME_DIR, or in the home when `argument` is given or there is no runtime directory.
    When that path is longer than a socket's may be, it is one under the temporary directory, named after the home.
    """
    root = Path(os.path.realpath(Path(argument).expanduser() if argument else _default_root(environment)))
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    wanted = root / SOCKET_NAME if argument or not runtime.is_absolute() else runtime / "gaiad" / SOCKET_NAME
    if len(os.fsencode(wanted)) > SOCKET_PATH_MAX_BYTES:
        wanted = _temporary_socket(root, environment)
    return Home(root, wanted)


def socket_of_daemon(home: Home) -> Path | None:
    """Where the daemon that runs on this home listens, however its home was named; None when that is not known."""
    try:
        lines = home.lock.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    return Path(lines[1]) if len(lines) > 1 and os.path.lexists(lines[1]) else None


def daemon_at(home: Home) -> int | None:
    """The pid of the daemon that holds this home, whether it listens yet or not; None when none does, or nobody knows.

    The lock is not tried, for a daemon that starts at this moment would find it taken.
    """
    try:
        pid = int(home.lock.read_bytes().split(b"\n")[0])
        return pid if b"gaiad" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def _default_root(environment: Mapping[str, str]) -> Path:
    if environment.get("GAIAD_HOME"):
        return Path(environment["GAIAD_HOME"]).expanduser()
    data = Path(environment.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():
        data = Path(environment.get("HOME") or Path.home()) / ".local" / "share"
    return data / "gaiad"


def _temporary_socket(root: Path, environment: Mapping[str, str]) -> Path:
    name = f"{sha256(os.fsencode(root)).hexdigest()[:16]}.sock"
    path = Path(environment.get("TMPDIR", "")) / f"gaiad-{os.getuid()}" / name
    if path.is_absolute() and len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        return path
    return Path("/tmp") / f"gaiad-{os.getuid()}" / name


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Put `content` at `path`, whole or not at all and durable when this returns. Raises OSError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Make `path` a directory of ours with mode 0700. Raises Conflict when it is somebody else's or a link."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Conflict(f"{path}: cannot be made a directory ({error.strerror}); choose another with --home") from error
    check_owned_directory(path)
    if stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)


def check_owned_directory(path: Path) -> None:
    """Raise Conflict unless `path` is a real directory that belongs to this user: anyone may write in /tmp."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise Conflict(f"{path}: is not a directory; move it away")
    if status.st_uid != os.getuid():
        raise Conflict(f"{path}: belongs to uid {status.st_uid}, not to you; move it away or set another with --home")


class HomeLock:
    """Held by the one daemon of a home, with its pid and socket inside; the system lets go of it at its end."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self._root = home.root
        self._socket = home.socket
        self._descriptor = -1

    def take(self) -> None:
        """Raise Conflict naming the pid when another daemon runs on this home."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise Conflict(
                f"{self._path}: cannot be opened for writing ({error.strerror}); fix it or choose another --home"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(descriptor, 32, 0).split(b"\n")[0].decode("ascii", "replace").strip() or "not known"
            os.close(descriptor)
            raise Conflict(f"a daemon is already running on {self._root} (pid {pid}); `gaiad stop` stops it") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n%s\n" % (os.getpid(), os.fsencode(self._socket)), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next daemon in."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1
