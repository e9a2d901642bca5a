"""The daemon as a real process: one a home, its sockets, signals, systemd's side, reload, samples."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.makers.waiting import wait_until

PACKET = """<transmission_packet id="tp-daemon-test">
  <topic>Lantern repair</topic><timestamp>2025-10-01T10:00:00Z</timestamp>
  <content>The lantern flickers because its wick is damp.</content>
</transmission_packet>
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(self.path))


def ask(path: Path, method: str, route: str, body: Any = None) -> Any:
    connection = UnixConnection(path)
    try:
        connection.request(method, route, None if body is None else json.dumps(body))
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


class Running:
    """A daemon process; `lines` is what it said on standard output until it was ready."""

    def __init__(self, process: "subprocess.Popen[str]", home: Path) -> None:
        self.process = process
        self.home = home
        self.socket = home / "gaiad.sock"
        self.lines: list[str] = []

    def await_ready(self) -> "Running":
        assert self.process.stdout is not None
        while len(self.lines) < 4:
            line = self.process.stdout.readline()
            assert line, f"not ready: {self.lines}, exit {self.process.poll()}: {self.errors()}"
            self.lines.append(line.rstrip("\n"))
        return self

    def errors(self) -> str:
        return (self.home.parent / f"{self.home.name}.err").read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a daemon on `home`; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(home: Path | str = "home", *options: str, before: list[str] | None = None, **more: Any) -> Running:
        home = tmp_path / home
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GAIAD_", "XDG_"))}
        environment |= {"HOME": str(tmp_path), **more.pop("environment", {})}
        arguments = ["--home", str(home), "--set", "embedder.kind=none", "--set", "intake.settle_ms=50", *options]
        if not any(option.startswith("http.") for option in options):
            arguments += ["--set", "http.port=0"]
        with (tmp_path / f"{home.name}.err").open("a") as errors:
            process = subprocess.Popen(
                [*(before or []), sys.executable, "-m", "gaiad.cli.main", "serve", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                **more,
            )
        started.append(process)
        return Running(process, home)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_says_where_it_is_keeps_others_out_and_leaves_nothing_open(start: Start) -> None:
    daemon = start().await_ready()
    status = ask(daemon.socket, "GET", "/status")
    assert daemon.lines[0] == (
        f"gaiad {status['version']} is ready: socket {daemon.socket}, URL {status['url']}, 0 packets"
    )
    assert [line.split()[:2] for line in daemon.lines[1:]] == [["gaiad", verb] for verb in ("status", "ingest", "chat")]
    assert all(f"--home {daemon.home}" in line for line in daemon.lines[1:])
    assert status["pid"] == daemon.process.pid
    assert status["socket"] == str(daemon.socket)
    assert [mode(daemon.home), mode(daemon.home / "inbox")] == [0o700, 0o700]
    private = ("gaiad.sock", "token", "daemon.lock", "state.db", "tenants/local/tenant.db")
    assert {name: mode(daemon.home / name) for name in private} == dict.fromkeys(private, 0o600)

    second = start()
    assert second.process.wait(20) == 1
    assert f"already running on {daemon.home} (pid {daemon.process.pid})" in second.errors()

    assert daemon.stop() == 0
    assert not daemon.socket.exists()
    assert daemon.home.joinpath("daemon.lock").read_text() == ""


def test_the_same_answers_over_tcp_with_the_homes_token(start: Start) -> None:
    daemon = start().await_ready()
    host, port = ask(daemon.socket, "GET", "/status")["url"].removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    token = (daemon.home / "token").read_text().strip()
    connection.request("GET", "/status", headers={"Authorization": f"Bearer {token}"})
    assert json.loads(connection.getresponse().read())["pid"] == daemon.process.pid
    connection.request("GET", "/status")
    assert connection.getresponse().status == 401
    connection.close()


def test_a_packet_dropped_into_the_inbox_is_found_and_survives_kill_9(start: Start) -> None:
    daemon = start().await_ready()
    (daemon.home / "inbox" / "new.xml").write_text(PACKET)
    search = {"query": "damp wick"}
    hits = wait_until(lambda: ask(daemon.socket, "POST", "/search", search)["hits"])
    assert hits[0]["packet_id"] == "tp-daemon-test"
    daemon.process.kill()
    daemon.process.wait()
    assert daemon.socket.exists()

    again = start().await_ready()
    assert again.lines[0].endswith("1 packet")
    assert ask(again.socket, "POST", "/search", search)["hits"][0]["packet_id"] == "tp-daemon-test"
    assert ask(again.socket, "POST", "/stop", {}) == {"stopping": True}
    assert again.process.wait(20) == 0


def test_a_stranger_on_the_socket_is_refused_and_not_disturbed(start: Start, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(tmp_path / "home" / "gaiad.sock"))
        stranger.listen()
        daemon = start()
        assert daemon.process.wait(20) == 1
        assert "another daemon answers on this socket" in daemon.errors()
        assert daemon.socket.exists()


def test_a_second_ctrl_c_does_not_wait(start: Start) -> None:
    daemon = start("home", "--set", "daemon.stop_grace_s=60").await_ready()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.socket))
        client.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")  # never finished
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(1)
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(30) == 130


def test_a_stop_waits_for_a_request_only_as_long_as_the_grace_time(start: Start) -> None:
    daemon = start("home", "--set", "daemon.stop_grace_s=0.3").await_ready()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.socket))
        client.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        assert daemon.stop() == 0


def test_a_socket_from_systemd_is_adopted_answered_and_left_behind(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "handed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        early = UnixConnection(path)
        early.request("GET", "/status")  # before the daemon runs
        daemon = start(
            before=["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh"],
            pass_fds=(3,),
            preexec_fn=lambda: os.dup2(listener.fileno(), 3),
        ).await_ready()
        status = json.loads(early.getresponse().read())
        early.close()
        assert status["socket"] == str(path)
        assert not daemon.socket.exists()
        assert daemon.stop() == 0
        assert path.exists()


def test_systemd_hears_ready_alive_reloading_and_stopping(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        daemon = start(environment=environment).await_ready()
        heard: list[str] = []

        def hear(message: str) -> None:
            while not any(line.startswith(message) for line in heard):
                heard.append(manager.recv(4096).decode())

        hear("READY=1")
        heard.clear()
        hear("WATCHDOG=1")
        heard.clear()
        hear("WATCHDOG=1")
        daemon.process.send_signal(signal.SIGHUP)
        hear("RELOADING=1\nMONOTONIC_USEC=")
        hear("READY=1")
        daemon.process.send_signal(signal.SIGTERM)
        hear("STOPPING=1\nEXTEND_TIMEOUT_USEC=")
        assert 29_000_000 < int(heard[-1].rpartition("=")[2]) <= 30_000_000, "the grace of 10 s, and what ends after it"
        assert daemon.process.wait(20) == 0


def test_a_reload_applies_good_settings_and_keeps_the_last_good_ones(start: Start, tmp_path: Path) -> None:
    daemon = start().await_ready()
    folder = tmp_path / "more"
    folder.mkdir()
    config = daemon.home / "config.toml"
    config.write_text(f'[intake]\nfolders = [{{path = "{folder}", tenant = "work"}}]\n')
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: str(folder) in ask(daemon.socket, "GET", "/status")["folders"])
    (folder / "new.xml").write_text(PACKET)
    wait_until(lambda: ask(daemon.socket, "GET", "/status?tenant=work")["packets"] == 1)

    config.write_text("[intake]\nsettle = 5\n")
    daemon.process.send_signal(signal.SIGHUP)
    degraded = wait_until(lambda: [r for r in ask(daemon.socket, "GET", "/status")["degraded"] if "not reloaded" in r])
    assert "did you mean 'settle_ms'" in degraded[0]
    assert str(config) in degraded[0]
    assert str(folder) in ask(daemon.socket, "GET", "/status")["folders"]
    refused = ask(daemon.socket, "POST", "/config/reload", {})
    assert refused["code"] == "bad_config"

    config.write_text("")
    assert "intake.folders" in ask(daemon.socket, "POST", "/config/reload", {})["changed"]
    wait_until(lambda: str(folder) not in ask(daemon.socket, "GET", "/status")["folders"])


def test_a_wrong_setting_or_a_taken_port_ends_the_start_with_the_remedy(start: Start) -> None:
    wrong = start("home", "--set", "http.prot=1")
    assert wrong.process.wait(20) == 2
    assert "did you mean 'port'" in wrong.errors()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        taken = start("other", "--set", f"http.port={port}")
        assert taken.process.wait(20) == 1
        assert f"http.port = {port}: another program listens there" in taken.errors()
        assert "http.port = 0" in taken.errors()
        assert not taken.socket.exists()


def test_the_shipped_port_gives_way_to_another_daemons(start: Start) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", 8477))
            other.listen()
        except OSError:
            pass  # somebody else listens there, which is as good
        daemon = start("home", "--set", "http.port=8477").await_ready()
        status = ask(daemon.socket, "GET", "/status")
        assert status["url"].startswith("http://127.0.0.1:")
        assert not status["url"].endswith(":8477")
        assert any("http.port = 8477" in reason and status["url"] in reason for reason in status["degraded"])


def test_samples_are_put_into_the_inbox_of_a_new_home_only(start: Start) -> None:
    daemon = start("home", "--samples").await_ready()
    samples = sorted(path.name for path in (daemon.home / "inbox").iterdir())
    packets = ask(daemon.socket, "GET", "/status")["packets"]
    assert packets > 0
    assert daemon.lines[0].endswith(f", {packets} packets")
    assert daemon.stop() == 0
    for path in (daemon.home / "inbox").iterdir():
        path.unlink()
    again = start("home", "--samples").await_ready()
    assert samples
    assert list((again.home / "inbox").iterdir()) == []


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Short enough for a socket in it, however deep pytest's own directory is."""
    with TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_a_home_too_deep_for_a_socket_is_served_from_the_temporary_directory(start: Start, scratch: Path) -> None:
    deep = Path("deep" * 30)
    daemon = start(deep, environment={"TMPDIR": str(scratch)}).await_ready()
    path = Path(daemon.lines[0].split("socket ")[1].split(",")[0])
    assert path.parent == scratch / f"gaiad-{os.getuid()}"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert ask(path, "GET", "/status")["socket"] == str(path)


@pytest.mark.parametrize("name", ["token", "daemon.lock", "inbox"])
def test_something_in_the_way_in_the_home_is_named_in_one_line(start: Start, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    if name == "inbox":
        (home / name).write_text("a file")
    else:
        (home / name).mkdir()
    daemon = start()
    assert daemon.process.wait(20) in (1, 2)
    assert name in daemon.errors()
    assert "Traceback" not in daemon.errors()


def test_a_removed_socket_is_made_again(start: Start) -> None:
    running = start().await_ready()
    for _ in range(2):
        running.socket.unlink()
        deadline = time.monotonic() + 60
        while not running.socket.exists():
            assert time.monotonic() < deadline, running.errors()
            time.sleep(0.05)
        time.sleep(0.05)  # from bind to listen
        assert stat.S_IMODE(running.socket.stat().st_mode) == 0o600
        assert ask(running.socket, "GET", "/status")["pid"] == running.process.pid
    assert running.stop() == 0
    assert not running.socket.exists()


def test_without_tcp_only_the_socket_is_there(start: Start) -> None:
    daemon = start("home", "--no-http", "--set", "http.port=0").await_ready()
    assert ", no URL, " in daemon.lines[0]
    assert ask(daemon.socket, "GET", "/status")["url"] == ""
