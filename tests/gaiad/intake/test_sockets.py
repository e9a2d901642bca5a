"""Listening sockets: who may connect, what is replaced, what is refused, what is adopted."""

import os
import socket
import stat
from pathlib import Path

import pytest

from gaiad.base.errors import Conflict
from gaiad.intake.sockets import PortTaken, adopt_sockets, listen_tcp, listen_unix, url_of


def test_the_socket_is_private_in_a_private_directory_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "run" / "gaiad.sock"
    before = os.umask(0)
    try:
        listener = listen_unix(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not os.get_inheritable(listener.socket.fileno())
    listener.socket.close()


def test_a_socket_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "gaiad.sock"
    listen_unix(path).socket.close()  # as a kill -9 leaves it
    fresh = listen_unix(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    fresh.remove()
    assert not path.exists()
    fresh.socket.close()


def test_a_socket_somebody_listens_on_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gaiad.sock"
    first = listen_unix(path)
    with pytest.raises(Conflict, match="another daemon answers"):
        listen_unix(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    first.socket.close()


def test_a_file_in_the_way_is_never_deleted(tmp_path: Path) -> None:
    path = tmp_path / "gaiad.sock"
    path.write_text("precious")
    with pytest.raises(Conflict, match="not a socket"):
        listen_unix(path)
    assert path.read_text() == "precious"


def test_a_socket_that_is_already_another_daemons_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "gaiad.sock"
    old = listen_unix(path)
    old.socket.close()
    new = listen_unix(path)
    old.remove()
    assert path.exists()
    new.socket.close()


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Conflict, match="is not a directory"):
        listen_unix(tmp_path / "link" / "gaiad.sock")
    if os.getuid() == 0:
        os.chown(tmp_path / "real", 4242, 4242)
        with pytest.raises(Conflict, match="belongs to uid 4242"):
            listen_unix(tmp_path / "real" / "gaiad.sock")


def test_port_0_picks_one_and_a_taken_one_names_setting_and_remedy() -> None:
    with listen_tcp("localhost", 0) as first:
        port = first.getsockname()[1]
        assert url_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(PortTaken, match=rf"http.port = {port}: .* http.port = 0"):
            listen_tcp("127.0.0.1", port)


def test_sockets_meant_for_another_process_are_not_adopted() -> None:
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "x", "OTHER": "stays"}
    adopted = adopt_sockets(environment, os.getpid())
    assert adopted.unix is None
    assert adopted.tcp is None
    assert environment == {"OTHER": "stays"}
