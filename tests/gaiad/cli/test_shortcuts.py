"""`gaiad show` finds what an id names, and `gaiad logs` what the daemon wrote."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import Unavailable
from gaiad.cli.help import log_command
from gaiad.cli.main import program, run

JOB = {"job_id": "job_1", "kind": "ingest", "tenant": "local", "note": "", "created_at": "", "updated_at": ""}


def gaiad(*arguments: str) -> int:
    return run(program, "gaiad", arguments)


def missing(what: str) -> tuple[int, dict[str, str]]:
    return 404, {"code": "not_found", "message": f"no {what}"}


def test_an_id_with_a_known_prefix_is_shown_as_what_it_is(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["GET /jobs/job_1"] = JOB | {"state": "done", "done": 3, "total": 3}
    assert gaiad("show", "job_1", "--home", str(api.home)) == 0
    assert "state    done" in capsys.readouterr().out


def test_another_name_is_a_session_or_a_packet(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /sessions/show"] = lambda body: {
        "session_id": body["session_id"],
        "turns": [{"turn_id": "t", "session_id": "garden", "messages": [{"role": "user", "content": "Who waters it?"}]}]
        if body["session_id"] == "garden"
        else [],
    }
    api.routes["POST /packets/show"] = missing("packet")
    api.routes["POST /turns/show"] = missing("turn")
    assert gaiad("show", "garden", "--home", str(api.home)) == 0
    assert "Who waters it?" in capsys.readouterr().out
    assert gaiad("show", "nowhere", "--home", str(api.home)) == 3
    assert "there is nothing called 'nowhere'; gaiad list" in capsys.readouterr().err


def test_the_log_is_the_file_that_standard_error_goes_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=file)
    try:
        assert log_command(child.pid, 7, follow=True) == ["tail", "--lines=7", "--follow", str(log)]
    finally:
        child.communicate(b"\n")


def test_a_log_that_nothing_keeps_says_how_to_keep_it() -> None:
    receiver, sender = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=sender)
    try:
        with pytest.raises(Unavailable, match=r"gaiad serve 2>>gaiad\.log"):
            log_command(child.pid, 7, follow=False)
    finally:
        child.communicate(b"\n")
        os.close(receiver)
        os.close(sender)
