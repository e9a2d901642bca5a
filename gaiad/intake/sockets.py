"""Listening sockets, made with care for who may connect or adopted from systemd, and what systemd is sent."""

import errno
import fcntl
import os
import resource
import socket
import stat
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gaiad.base.errors import Conflict
from gaiad.base.home import make_private_directory

BACKLOG = 128
"""Connections waiting in the kernel; at most so many are accepted at once."""
_MOST_FILES = 65_536
_FIRST_ADOPTED = 3
_PROBE_TIMEOUT_S = 1.0


def raise_file_limit() -> None:
    """Let this process have as many files open as the system allows it, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass(frozen=True, slots=True)
class Adopted:
    """What LISTEN_FDS handed over; None where it did not."""

    unix: socket.socket | None = None
    tcp: socket.socket | None = None


def adopt_sockets(environment: MutableMapping[str, str], pid: int) -> Adopted:
    """Take over systemd's listening sockets, once: the variables are removed. Raises Conflict for one we cannot use."""
    count = environment.pop("LISTEN_FDS", "0")
    meant_for = environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if meant_for != str(pid) or not count.isdigit():
        return Adopted()
    found: dict[str, socket.socket] = {}
    for descriptor in range(_FIRST_ADOPTED, _FIRST_ADOPTED + int(count)):
        listener = _adopt(descriptor)
        kind = "unix" if listener.family == socket.AF_UNIX else "tcp"
        if kind in found:
            raise Conflict(f"LISTEN_FDS holds two {kind} sockets; gaiad serves one of each: fix the socket unit")
        found[kind] = listener
    return Adopted(found.get("unix"), found.get("tcp"))


def _adopt(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        listener = socket.socket(fileno=descriptor)
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise Conflict(f"LISTEN_FDS: descriptor {descriptor} is not a socket ({error.strerror})") from error
    if not listening or listener.type != socket.SOCK_STREAM:
        raise Conflict(f"LISTEN_FDS: descriptor {descriptor} is not a listening stream socket; use ListenStream=")
    listener.setblocking(False)
    return listener


# ------------------------------------------------------------------------------------------------------ unix socket


class UnixListener:
    """A bound unix socket and the file that names it."""

    def __init__(self, listener: socket.socket, path: Path) -> None:
        self.socket = listener
        self._path = path
        self._identity = _identity(path)

    def remove(self) -> None:
        """Unlink the file unless it is already somebody else's."""
        with _held(self._path.parent), suppress(FileNotFoundError):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns  # the time, for inodes are used again at once


def listen_unix(path: Path) -> UnixListener:
    """Bind `path`, 0600 in a 0700 directory, replacing a socket nobody listens on. Raises Conflict when one does."""
    make_private_directory(path.parent)
    with _held(path.parent):
        _clear_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(os.fspath(path))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise Conflict(f"{path}: cannot listen there ({error.strerror}); choose another home") from error
        listener.setblocking(False)
        return UnixListener(listener, path)


def _clear_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Conflict(f"{path}: exists but is not a socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:  # a full backlog or a stranger's permissions: somebody is there
            raise Conflict(f"{path}: another program holds this socket ({error}); stop it first") from error
    raise Conflict(f"{path}: another daemon answers on this socket; stop it (gaiad stop) or use another --home")


@contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Keep other daemons from probing, removing and binding in `directory` at the same time."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --------------------------------------------------------------------------------------------------------------- TCP


class PortTaken(Conflict):
    """Another program listens on http.port."""


def listen_tcp(host: str, port: int) -> socket.socket:
    """Bind a loopback `host`; port 0 picks a free one. Raises PortTaken or Conflict naming the setting and remedy."""
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1" if host == "localhost" else host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        remedy = "set http.port = 0 to pick a free one, another number, or http.enabled = false for the socket only"
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"http.port = {port}: another program listens there on {host}; {remedy}") from error
        raise Conflict(f"http.port = {port} on http.host = {host}: {error.strerror}; {remedy}") from error
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address a client uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Notifier:
    """`watchdog_s` is the interval systemd expects WATCHDOG=1 within, 0 for none."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        microseconds = environment.get("WATCHDOG_USEC", "0")
        self.watchdog_s = int(microseconds) / 1e6 if ours and self._address and microseconds.isdigit() else 0.0

    def send(self, *assignments: str) -> None:
        """Send one message such as READY=1. Raises OSError when the receiver is gone."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(assignments).encode(), self._address)
