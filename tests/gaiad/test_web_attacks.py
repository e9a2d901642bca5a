"""A real daemon under attack: a browser's login through a restart, other users' programs, endless lines, marker floods.

What a forged request may not do is tested at the door (tests/gaiad/intake/test_web_door.py).
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from tests.makers.opened_up import open_up
from tests.makers.page import Answered, ask, logged_in

MARKERS = (
    "RESPONSE: a",
    "PLAN: b",
    "THOUGHT_SEED: c",
    'EXECUTE: {"argv": ["rm", "-rf", "/"]}',
    "VERIFY: e",
    "INTERRUPT: f",
)
FLOOD = "\n".join(MARKERS * 15_000)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \\u001b]0;owned\\u0007"
STRANGER = 4242


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    script = (
        f"[[reply]]\nmatch = 'flood'\ntext = '''{FLOOD}'''\nchunk_characters = 20\n"
        f"[[reply]]\nmatch = 'hostile'\ntext = \"RESPONSE: {HOSTILE}\"\n"
        "[[reply]]\nmatch = 'postbox'\ntext = 'RESPONSE: Write to ada.l@example.org about it.'\n"
        "[[reply]]\ntext = 'RESPONSE: I am here.'\n"
    )
    (folder / "script.toml").write_text(script)
    home = folder / "h"
    home.mkdir(mode=0o700)
    known = f'[models.known.one]\nkind = "scripted"\npath = "{folder / "script.toml"}"\n[roles]\nprime = "one"\n'
    (home / "config.toml").write_text(known + '[embedder]\nkind = "none"\n[daemon]\nlog_level = "debug"\n')
    return home


@pytest.fixture(scope="module")
def daemon(home: Path) -> Iterator[BenchDaemon]:
    with running_daemon(home=home) as running:
        yield running


def say(url: str, headers: dict[str, str], message: str, **more: Any) -> Answered:
    return ask(f"{url}/chat", "POST", json.dumps({"message": message, **more}).encode(), **headers)


@contextmanager
def others_wait_at_most(url: str, seconds: float) -> Iterator[None]:
    """Somebody else asks for the daemon's health all the time; the longest of these answers took `seconds` at most."""
    waits, over = [0.0], threading.Event()

    def keep_asking() -> None:
        while not over.is_set():
            started = time.monotonic()
            ask(f"{url}/healthz")
            waits.append(time.monotonic() - started)
            time.sleep(0.02)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()
    assert max(waits) <= seconds


# ------------------------------------------------------------------------------------------------------------ login


def test_a_login_outlives_a_restart_and_a_link_that_waits_does_not(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running_daemon("embedder.kind=none", f"http.port={port}", home=home) as first:
        url, headers = logged_in(first)
        waiting = first.client.post("/web/link", {})["url"]
        assert ask(f"{url}/status", **headers).status == 200
    with running_daemon("embedder.kind=none", f"http.port={port}", home=home) as second:
        assert ask(f"{url}/status", **headers).status == 200
        assert ask(waiting).status == 403
        assert second.client.post("/web/logout-all", {}) == {"ended": 1}
        assert ask(f"{url}/status", **headers).status == 401


def test_neither_links_nor_sessions_stand_in_the_log(daemon: BenchDaemon, home: Path) -> None:
    link = daemon.client.post("/web/link", {})["url"]
    cookie = ask(link).headers["Set-Cookie"].partition(";")[0]
    assert ask(f"{daemon.status()['url']}/status", Cookie=cookie).status == 200
    log = Path(f"{home}.log").read_text()
    assert "path=/login" in log
    for secret in (link.partition("once=")[2], cookie.partition("=")[2]):
        assert secret not in log


# ------------------------------------------------------------------------------------------------ other users' programs


def as_stranger(url: str, path: str, cookie: str = "") -> int:
    """The status of a GET by a process of another uid on this machine."""
    script = (
        "import encodings.idna, http.client, os, sys\n"  # all before it may not read our files
        f"os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n"
        "connection = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
        "connection.request('GET', sys.argv[2], headers={'Cookie': sys.argv[3]} if sys.argv[3] else {})\n"
        "print(connection.getresponse().status)\n"
    )
    command = [sys.executable, "-c", script, str(urlsplit(url).port), path, cookie]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as another uid")


@needs_root
def test_a_cookie_shown_to_another_users_program_is_of_no_use_to_it(daemon: BenchDaemon) -> None:
    url, headers = logged_in(daemon)
    assert as_stranger(url, "/healthz", headers["Cookie"]) == 200
    assert as_stranger(url, "/status", headers["Cookie"]) == 401
    assert as_stranger(url, "/", headers["Cookie"]) == 401
    assert ask(f"{url}/status", **headers).status == 200


@needs_root
def test_a_link_read_off_the_command_line_of_a_browser_is_of_no_use_to_another_user(daemon: BenchDaemon) -> None:
    link = daemon.client.post("/web/link", {"for_this_user": True})["url"]
    path = link.removeprefix(daemon.status()["url"])
    assert as_stranger(link, path) == 403
    assert ask(link).status == 303


@needs_root
def test_another_uid_cannot_open_the_socket_nor_read_what_lets_one_in(daemon: BenchDaemon, home: Path) -> None:
    open_up(home)
    script = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n"
        "for path in sys.argv[2:]:\n"
        "    try: open(path)\n"
        "    except PermissionError: print('kept out')\n"
        "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
        "except PermissionError: print('kept out')\n"
    )
    logged_in(daemon)
    files = [str(home / name) for name in ("token", "web_sessions.json", "state.db")]
    command = [sys.executable, "-c", script, str(home / "gaiad.sock"), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    home.chmod(0o700)
    assert done.stdout.split("\n") == ["kept out"] * 4 + [""]


def test_a_wrong_token_is_refused_and_its_words_are_not_repeated(daemon: BenchDaemon) -> None:
    url = daemon.status()["url"]
    for token in ("Bearer wrong-wrong-wrong-wrong", "Bearer ", "Basic d3Jvbmc6d3Jvbmc=", "Bearer " + "x" * 5000):
        answer = ask(f"{url}/status", Authorization=token)
        assert answer.status == 401
        assert b"wrong-wrong" not in answer.body


# ---------------------------------------------------------------------------------------------------- floods and lines


def test_a_line_of_ten_megabytes_is_refused_and_holds_up_nobody(daemon: BenchDaemon) -> None:
    url, headers = logged_in(daemon)
    with others_wait_at_most(url, 15.0):
        for line in ("x" * 10_000_000, "word " * 2_000_000):
            answer = say(url, headers, line)
            assert answer.status == 400
            assert "at most 200000" in answer.json["message"]
        for path, body in (("/search", {"query": "x" * 10_000_000}), ("/approvals/approve", {"id": "x" * 10_000_000})):
            assert ask(f"{url}{path}", "POST", json.dumps(body).encode(), **headers).status == 400
        assert ask(f"{url}/chat", "POST", b"[" * 10_000_000, **headers).status == 400
    assert say(url, headers, "Are you there?").json["answer"] == "I am here."


def test_a_request_line_or_header_of_ten_megabytes_is_cut_off(daemon: BenchDaemon) -> None:
    parts = urlsplit(daemon.status()["url"])
    host = f"Host: {parts.netloc}\r\n".encode()
    for head in (b"GET /" + b"x" * 10_000_000, b"GET / HTTP/1.1\r\n" + host + b"Cookie: " + b"x" * 10_000_000):
        with socket.create_connection((parts.hostname or "", parts.port), timeout=60) as connection:
            try:
                connection.sendall(head)
                answer = connection.recv(200)
            except ConnectionError:
                answer = b""
        assert not answer or answer.split(b" ")[1] in (b"400", b"414", b"431")
    assert ask(f"{daemon.status()['url']}/healthz").status == 200


def test_a_flood_of_markers_ends_as_one_answer_and_runs_nothing(daemon: BenchDaemon) -> None:
    url, headers = logged_in(daemon)
    before = daemon.status()["memory_bytes"]
    with others_wait_at_most(url, 15.0):
        answer = say(url, headers, "Say the flood.")
    assert answer.status == 200
    assert len(answer.body) < 100_000
    assert len(answer.json["blocks"]) < 100
    listed = ask(f"{url}/approvals/list", "POST", b"{}", **headers).json
    assert listed["approvals"] == []
    assert daemon.status()["memory_bytes"] - before < 200_000_000


def test_markup_in_a_models_words_comes_as_the_text_it_is(daemon: BenchDaemon) -> None:
    url, headers = logged_in(daemon)
    answer = say(url, headers, "Say something hostile.")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "<script>alert(1)</script>" in answer.json["answer"]


def test_the_page_cannot_pass_for_the_command_line_to_get_around_redaction(daemon: BenchDaemon) -> None:
    url, headers = logged_in(daemon)
    for claimed in ("web_chat", "cli_chat"):
        answer = say(url, headers, "Say the postbox.", channel=claimed)
        assert answer.status == 200
        assert b"ada.l@example.org" not in answer.body
    own = daemon.client.post("/chat", {"message": "Say the postbox.", "channel": "cli_chat"})
    assert own["answer"] == "Write to ada.l@example.org about it."
