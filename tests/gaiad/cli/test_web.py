"""`gaiad web`, with a real daemon and a stand-in for the browser."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon


@pytest.fixture(scope="module")
def daemon() -> Iterator[BenchDaemon]:
    with running_daemon("embedder.kind=none") as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A program that notes what it was told to open, in opened.txt beside it."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened.txt\n')
    script.chmod(0o755)
    return script


def gaiad(
    home: Path, *arguments: str, display: bool = False, browser: Path | None = None, path: Path | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a run of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment |= {"DISPLAY": ":0"} if display else {}
    environment |= {"BROWSER": f"{browser} %s"} if browser else {}
    environment |= {"PATH": str(path)} if path else {}
    command = [sys.executable, "-m", "gaiad.cli.main", *arguments, "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def visit(url: str, cookie: str = "") -> tuple[int, str]:
    """The status of a GET and the cookie it sets."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}", headers={"Cookie": cookie} if cookie else {})
    answer = connection.getresponse()
    connection.close()
    return answer.status, (answer.getheader("Set-Cookie") or "").partition(";")[0]


def test_it_prints_a_link_that_works_once(daemon: BenchDaemon, browser: Path) -> None:
    code, out, err = gaiad(daemon.home, "web", "--print", display=True, browser=browser)
    assert code == 0
    link = out.removesuffix("\n")
    assert link.startswith(f"{daemon.status()['url']}/login?once=")
    assert "once, within 5 minutes" in err
    assert not (browser.parent / "opened.txt").exists()
    assert [visit(link)[0], visit(link)[0]] == [303, 403]


def test_with_a_display_it_opens_the_browser(daemon: BenchDaemon, browser: Path) -> None:
    code, out, err = gaiad(daemon.home, "web", display=True, browser=browser)
    assert code == 0
    assert (browser.parent / "opened.txt").read_text() == out
    assert err.startswith("opening it in your browser: it works once")
    assert visit(out.strip())[0] == 303


def test_without_a_display_it_opens_nothing(daemon: BenchDaemon, browser: Path) -> None:
    code, out, err = gaiad(daemon.home, "web", "--json", browser=browser)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["opened"], told["expires_in_s"]) == (False, 300.0)
    assert not (browser.parent / "opened.txt").exists()


def test_a_browser_that_cannot_be_started_leaves_the_link(daemon: BenchDaemon, tmp_path: Path) -> None:
    code, out, err = gaiad(daemon.home, "web", display=True, browser=tmp_path / "nothing", path=tmp_path)
    assert code == 0
    assert "/login?once=" in out
    assert err.startswith("open it in a browser on this machine")


def test_logging_all_out_ends_every_login(daemon: BenchDaemon) -> None:
    gaiad(daemon.home, "web", "--logout-all")
    cookie = visit(gaiad(daemon.home, "web", "--print")[1].strip())[1]
    status = f"{daemon.status()['url']}/status"
    assert visit(status, cookie)[0] == 200
    assert gaiad(daemon.home, "web", "--logout-all")[:2] == (0, "logged out: 1 browser\n")
    assert visit(status, cookie)[0] == 401
    assert json.loads(gaiad(daemon.home, "web", "--logout-all", "--json")[1]) == {"ended": 0}


def test_what_excludes_each_other_is_a_wrong_use(daemon: BenchDaemon) -> None:
    code, out, err = gaiad(daemon.home, "web", "--print", "--logout-all")
    assert (code, out) == (2, "")
    assert "cannot be combined" in err


def test_without_http_it_says_so(tmp_path: Path) -> None:
    home = tmp_path / "h"
    with running_daemon("embedder.kind=none", "http.enabled=false", home=home):
        code, out, err = gaiad(home, "web")
        assert (code, out) == (1, "")
        assert "http.enabled = true" in err
    code, out, err = gaiad(home, "web")
    assert (code, out) == (5, "")
    assert "gaiad serve" in err
