"""Where a home and its socket are."""

import os
from pathlib import Path

import pytest

from gaiad.base.errors import Conflict
from gaiad.base.home import SOCKET_PATH_MAX_BYTES, HomeLock, find_home, make_private_directory


def test_home_comes_from_the_argument_then_the_environment_then_xdg() -> None:
    everything = {"GAIAD_HOME": "/env", "XDG_DATA_HOME": "/data", "HOME": "/me"}
    assert find_home("/given", everything).root == Path("/given")
    assert find_home(None, everything).root == Path("/env")
    assert find_home(None, {"XDG_DATA_HOME": "/data", "HOME": "/me"}).root == Path("/data/gaiad")
    assert find_home(None, {"HOME": "/me"}).root == Path("/me/.local/share/gaiad")
    assert find_home(None, {"XDG_DATA_HOME": "relative", "HOME": "/me"}).root == Path("/me/.local/share/gaiad")


def test_the_socket_is_in_a_home_that_was_given_and_else_in_the_runtime_directory() -> None:
    environment = {"GAIAD_HOME": "/env", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert find_home("/given", environment).socket == Path("/given/gaiad.sock")
    assert find_home(None, environment).socket == Path("/run/user/7/gaiad/gaiad.sock")


@pytest.mark.parametrize("environment", [{"GAIAD_HOME": "/env"}, {"GAIAD_HOME": "/env", "XDG_RUNTIME_DIR": "rel"}])
def test_without_a_runtime_directory_it_is_in_the_home(environment: dict[str, str]) -> None:
    socket = find_home(None, environment).socket
    assert socket == Path("/env/gaiad.sock"), "not in a folder that any local user can take first"


def test_a_path_too_long_for_a_socket_is_replaced_and_the_limit_is_exact() -> None:
    fits = "/" + "x" * (SOCKET_PATH_MAX_BYTES - len("/gaiad.sock") - 1)
    assert find_home(fits, {}).socket == Path(fits) / "gaiad.sock"
    assert find_home(fits + "x", {}).socket.parent == Path(f"/tmp/gaiad-{os.getuid()}")
    assert find_home(fits + "x", {"TMPDIR": "/scratch"}).socket.parent == Path(f"/scratch/gaiad-{os.getuid()}")
    assert find_home(fits + "x", {"TMPDIR": fits}).socket.parent == Path(f"/tmp/gaiad-{os.getuid()}")


def test_a_relative_or_linked_home_is_the_same_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    assert find_home("link", {}) == find_home("home", {}) == find_home(str(tmp_path / "home"), {})


def test_a_directory_is_made_private_or_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    make_private_directory(tmp_path / "open")
    make_private_directory(tmp_path / "new" / "deep")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "deep").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(Conflict, match="--home"):
        make_private_directory(tmp_path / "file")


def test_one_lock_at_a_time_and_the_second_learns_the_pid(tmp_path: Path) -> None:
    home = find_home(str(tmp_path), {})
    first, second = HomeLock(home), HomeLock(home)
    first.take()
    with pytest.raises(Conflict, match=rf"already running on {home.root} \(pid {os.getpid()}\)"):
        second.take()
    first.release()
    second.take()
    second.release()
