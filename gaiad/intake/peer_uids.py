"""Whose program holds the other end of a loopback connection, where the system tells: Linux does.

A browser shows a cookie to every port of the host, so another user's program could be shown the page's. It may not use
it: a login belongs to the uid it was opened from. The kernel is asked by netlink (sock_diag, 20 us), and where it does
not answer that, its tables in /proc/net are read (some 10 ms on a machine with large ones). Only an open
connection has a uid: of one that its program has closed the kernel says 0, whoever that was.
"""

import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2  # linux/netlink.h, linux/sock_diag.h
_OPEN_IN_TABLE = "01"
_ESTABLISHED, _ANY_STATE, _NO_COOKIE = 1, 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_QUERY = struct.Struct("=BBBBI4s16s16sIII")  # inet_diag_req_v2
_FOUND = struct.Struct("=BBBB4s16s16s12sIIIII")  # inet_diag_msg
_ANSWER_BYTES, _ANSWER_S = 8192, 1.0
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOKS = 3  # a table that changes while it is read may leave out a line
_V4_IN_V6 = bytes(10) + b"\xff\xff"


def uid_of_peer(connection: socket.socket) -> int | None:
    """The uid of the socket `connection` is connected to on this machine; None where the system does not tell.

    None as well when that socket has been closed or shut meanwhile: nobody holds it any more.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        ours, peer = connection.getsockname(), connection.getpeername()
    except OSError:  # it has gone
        return None
    found = _asked(connection.family, peer[:2], ours[:2])
    if found is not None:
        return found.uid if found.state == _ESTABLISHED else None
    uid, looks = None, 0
    while uid is None and looks < _LOOKS:
        uid, looks = _looked_up(peer[:2], ours[:2]), looks + 1
    return uid


class _Found(NamedTuple):
    """A socket as the kernel knows it; `uid` means something only of an established one."""

    state: int
    uid: int


def _asked(family: int, local: tuple[str, int], remote: tuple[str, int]) -> _Found | None:
    """What the kernel says of the socket at `local` that is connected to `remote`; None when it says nothing of it."""
    ports = struct.pack("!HH", local[1], remote[1])
    addresses = (socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0") for address, _ in (local, remote))
    interface = 0
    flow = (ports, *addresses, interface, _NO_COOKIE, _NO_COOKIE)
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE, *flow)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(_ANSWER_S)
            kernel.send(_HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 1, 0) + query)
            answer = kernel.recv(_ANSWER_BYTES)
    except (AttributeError, OSError):  # not Linux, or not allowed
        return None
    return _read_answer(answer, ports)


def _read_answer(answer: bytes, ports: bytes) -> _Found | None:
    if len(answer) < _HEADER.size + _FOUND.size or _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    _, state, _, _, found_ports, *_, uid, _inode = _FOUND.unpack_from(answer, _HEADER.size)
    return _Found(int(state), int(uid)) if found_ports == ports else None


def _looked_up(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()
        except OSError:  # not Linux, or without IPv6
            continue
        uid = find_uid(lines, local, remote)
        if uid is not None:
            return uid
    return None


def find_uid(lines: Iterable[str], local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The uid of the socket at `local` that is connected to `remote`, (address, port) each, by a table of /proc/net."""
    locals_, remotes = _spellings(*local), _spellings(*remote)
    for line in lines:
        words = line.split(maxsplit=8)
        if len(words) > 7 and words[1] in locals_ and words[2] in remotes and words[3] == _OPEN_IN_TABLE:
            return int(words[7])
    return None


def _spellings(address: str, port: int) -> set[str]:
    """How the kernel may write it: words of 32 bits in hexadecimal as they lie in memory; IPv4 within IPv6 too."""
    if ":" not in address:
        address = f"::ffff:{address}"
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    forms = [packed, packed[12:]] if packed.startswith(_V4_IN_V6) else [packed]
    return {f"{_words(form)}:{port:04X}" for form in forms}


def _words(packed: bytes) -> str:
    numbers = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{number:08X}" for number in numbers)
