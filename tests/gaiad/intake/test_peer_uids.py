"""Whose program is at the other end of a loopback connection."""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaiad.intake import doors
from gaiad.intake.doors import find_uid, uid_of_peer

needs_linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells")
LITTLE = pytest.mark.skipif(sys.byteorder != "little", reason="the lines are a little-endian machine's")
V4 = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:211D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0000000000000000 100 0
   1: 0100007F:211D 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 112 1 0000000000000000 20 4
   2: 0100007F:9C40 0100007F:211D 01 00000000:00000000 00:00000000 00000000  4242        0 113 1 0000000000000000 20 4
"""
V6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm uid
   0: 0000000000000000FFFF00000100007F:9C41 0000000000000000FFFF00000100007F:211D 01 0:0 0:0 0 7 0
   1: 00000000000000000000000001000000:9C42 00000000000000000000000001000000:211D 01 0:0 0:0 0 8 0
"""


@LITTLE
@pytest.mark.parametrize(
    ("table", "local", "remote", "uid"),
    [
        (V4, ("127.0.0.1", 40000), ("127.0.0.1", 8477), 4242),
        (V4, ("127.0.0.1", 8477), ("127.0.0.1", 40000), 1000),
        (V4, ("127.0.0.1", 40001), ("127.0.0.1", 8477), None),
        (V4, ("127.0.0.2", 40000), ("127.0.0.1", 8477), None),
        (V4.replace("211D 01", "211D 05"), ("127.0.0.1", 40000), ("127.0.0.1", 8477), None),
        (V6, ("127.0.0.1", 40001), ("127.0.0.1", 8477), 7),
        (V4, ("::ffff:127.0.0.1", 40000), ("::ffff:127.0.0.1", 8477), 4242),
        (V6, ("::1", 40002), ("::1", 8477), 8),
        (V6, ("::1", 40001), ("::1", 8477), None),
        ("", ("::1", 1), ("::1", 2), None),
        ("a line of something else\n", ("::1", 1), ("::1", 2), None),
    ],
)
def test_the_line_of_the_connection_names_its_uid(
    table: str, local: tuple[str, int], remote: tuple[str, int], uid: int | None
) -> None:
    assert find_uid(table.splitlines(), local, remote) == uid


def _v4() -> tuple[socket.socket, Callable[[int], socket.socket]]:
    return socket.create_server(("127.0.0.1", 0)), lambda port: socket.create_connection(("127.0.0.1", port))


def _v6() -> tuple[socket.socket, Callable[[int], socket.socket]]:
    listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    return listener, lambda port: socket.create_connection(("::1", port))


def _v4_from_a_v6_socket() -> tuple[socket.socket, Callable[[int], socket.socket]]:
    def connect(port: int) -> socket.socket:
        client = socket.socket(socket.AF_INET6)
        client.connect(("::ffff:127.0.0.1", port))
        return client

    return socket.create_server(("127.0.0.1", 0)), connect


@needs_linux
@pytest.mark.parametrize("way", ["by netlink or the tables", "by netlink", "by the tables"])
@pytest.mark.parametrize("family", [_v4, _v6, _v4_from_a_v6_socket])
def test_a_real_connection_of_our_own_is_ours(
    family: Callable[[], tuple[socket.socket, Callable[[int], socket.socket]]],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way == "by netlink":
        monkeypatch.setattr(doors, "_TABLES", ())
    elif way == "by the tables":
        monkeypatch.setattr(doors, "_SOCK_DIAG", 31)  # no such protocol
    try:
        listener, connect = family()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener, connect(listener.getsockname()[1]) as client:
        accepted, _ = listener.accept()
        with accepted:
            assert uid_of_peer(accepted) == os.getuid()
            assert uid_of_peer(client) == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a socket of another uid")
@pytest.mark.parametrize("diag", [4, 31], ids=["by netlink", "by the tables"])
def test_a_socket_of_another_uid_is_told_by_either(diag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "_SOCK_DIAG", diag)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        os.chown(client.fileno(), 4242, -1)
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            assert uid_of_peer(accepted) == 4242


@needs_linux
@pytest.mark.parametrize("diag", [4, 31], ids=["by netlink", "by the tables"])
def test_who_sent_something_and_closed_at_once_is_nobody(diag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says uid 0 of a socket that nobody holds any more; a daemon of root would take that for its owner."""
    monkeypatch.setattr(doors, "_SOCK_DIAG", diag)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"POST /turns/start HTTP/1.1")
            accepted, _ = listener.accept()
        with accepted:
            assert uid_of_peer(accepted) is None


def test_nobody_is_named_for_a_connection_that_has_gone_or_is_none_of_tcp() -> None:
    with socket.socket() as unconnected:
        assert uid_of_peer(unconnected) is None
    one, other = socket.socketpair()
    with one, other:
        assert uid_of_peer(one) is None
