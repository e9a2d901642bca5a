"""A real daemon takes up a thought that a turn wrote, by itself, and stops doing so when it is switched off."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.bench.daemon_process import running_daemon
from gaiad.cli.main import program, run
from tests.makers.scripted_home import scripted_settings
from tests.makers.waiting import wait_until

SCRIPT = """
[[reply]]
match = "Develop the thought for later"
text = '{"proposal": "Ask which tram was meant.", "why": "Two are named."}'
[[reply]]
match = "Vote yes, no or abstain"
text = '{"vote": "yes", "confidence": 0.8, "reason": "sound"}'
[[reply]]
match = "ferry"
text = "RESPONSE: The ferry goes at ten.\\nTHOUGHT_SEED: Ask which ferry the founder meant."
[[reply]]
text = "RESPONSE: The tram goes at nine.\\nTHOUGHT_SEED: Ask which tram the founder meant."
"""
SETTINGS = """
[initiative]
every_s = 1.0
enabled = {enabled}
"""
Shell = Callable[..., Any]


def write_settings(home: Path, enabled: bool) -> None:
    more = SETTINGS.format(enabled=str(enabled).lower())
    (home / "config.toml").write_text(scripted_settings(home / "script.toml") + more)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "script.toml").write_text(SCRIPT)
    write_settings(home, enabled=True)
    with running_daemon("embedder.kind=none", home=home):
        yield home


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    def call(*arguments: str) -> Any:
        capsys.readouterr()
        code = run(program, "gaiad", [*arguments, "--json", "--home", str(home)])
        out = capsys.readouterr()
        assert code == 0, out.err
        return json.loads(out.out.splitlines()[-1])

    return call


def test_a_thought_is_taken_up_by_itself_until_that_is_switched_off(shell: Shell, home: Path) -> None:
    wait_until(lambda: shell("council", "status")["quorum"])
    shell("chat", "When does the tram go?")
    [seed] = wait_until(lambda: shell("council", "seeds", "--state", "passed")["seeds"])
    assert (seed["text"], seed["proposal_id"][:4]) == ("Ask which tram the founder meant.", "msg_")
    status = wait_until(
        lambda: (found := shell("council", "status")["initiative"])["last_outcome"] == "passed" and found
    )
    assert (status["enabled"], status["open_seeds"], status["failures"]) == (True, 0, 0)
    assert 0 < status["tokens_today"] <= 320 + 3 * 96
    hits = shell("search", "which tram the founder meant")["hits"]
    assert any("Outcome: passed" in json.dumps(hit) for hit in hits), "the memory knows the outcome"
    assert shell("audit", "verify")["ok"]

    write_settings(home, enabled=False)
    assert "initiative.enabled" not in shell("config", "reload")["restart_needed"]
    shell("chat", "When does the ferry go?")
    wait_until(lambda: shell("council", "seeds", "--state", "open")["seeds"])
    time.sleep(1.5)  # longer than it waits between two looks
    status = shell("council", "status")["initiative"]
    assert (status["enabled"], status["open_seeds"]) == (False, 1)
