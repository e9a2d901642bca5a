"""`gaiad rfc` against the real daemon: what a merge changes is in force after the next start, and not before."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import Unavailable
from gaiad.cli.main import program, run
from gaiad.client.client import Client
from gaiad.ledger.audit import verify_home
from prompts.identity import identity_bytes, shipped_identity

START_LIMIT_S = 90.0
SCRIPT = """
[[reply]]
match = "Review the proposed change"
text = '{"verdict": "approve", "confidence": 0.9, "reasons": ["it is clear"]}'
[[reply]]
match = "Vote yes, no or abstain"
text = '{"vote": "yes", "confidence": 0.9, "reason": "it helps"}'
[[reply]]
text = "RESPONSE: yes"
"""


class Machine:
    """A home whose roles say what the script says, and its daemon."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "h"
        self.home.mkdir(mode=0o700)
        (root / "script.toml").write_text(SCRIPT)
        (self.home / "config.toml").write_text(
            f'[models.known.voice]\nkind = "scripted"\npath = "{root / "script.toml"}"\n'
            '[roles]\nprime = "voice"\nlite = "voice"\ncodemind = "voice"\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *settings: str) -> None:
        """Until it answers and its council has a quorum, which the first heartbeats bring."""
        command = [sys.executable, "-m", "gaiad.cli.main", "serve", "--home", str(self.home), "--log-level", "error"]
        for setting in ("http.port=0", "embedder.kind=none", *settings):
            command += ["--set", setting]
        with (self.root / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        self._wait(lambda: bool(self._answered()))

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            finally:
                self._process.kill()
            self._process = None

    def _answered(self) -> bool:
        with Client(self.home) as client:
            return bool(client.health())

    def _wait(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, (self.root / "daemon.log").read_text()[-2000:]
            try:
                if true():
                    return
            except Unavailable:
                pass
            time.sleep(0.02)
        raise AssertionError(f"not within {START_LIMIT_S:g} s: {(self.root / 'daemon.log').read_text()[-2000:]}")


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("d")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    made = Machine(root)
    yield made
    made.stop()


@pytest.fixture
def shell(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", [*arguments, "--home", str(machine.home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def reviewed(shell: Any, name: str) -> dict[str, Any]:
    """Reviewed by both; the first heartbeats may still be on their way."""
    for _ in range(200):
        code, out, _ = shell("rfc", "review", name, "--json")
        if code == 0:
            return json.loads(out)  # type: ignore[no-any-return]
        time.sleep(0.05)
    raise AssertionError(out)


def test_a_change_of_process_is_merged_by_a_council_of_models(machine: Machine, shell: Any) -> None:
    machine.start()
    code, out, err = shell("rfc", "propose", "--json", "--kind", "process", "--title", "Two readers", "Read it twice.")
    assert (code, err) == (0, "")
    name = json.loads(out)["rfc_id"]
    assert {each["role"] for each in reviewed(shell, name)["reviews"]} == {"prime", "lite"}
    code, out, _ = shell("rfc", "vote", name, "--json")
    assert (code, json.loads(out)["state"]) == (0, "passed")
    assert {each["role"] for each in json.loads(out)["votes"][0]["ballots"]} == {"prime", "lite", "codemind"}
    code, out, _ = shell("rfc", "merge", name, "--json")
    assert (code, json.loads(out)["ground"]) == (0, "the council passed it")
    assert verify_home(machine.home).ok


def test_heartbeats_of_prime_and_lite_are_in_the_score_of_identity_show(machine: Machine, shell: Any) -> None:
    machine.start()
    for _ in range(200):
        found = json.loads(shell("identity", "show", "--json")[1])["stability"]
        why = {each["name"]: each["why"] for each in found["criteria"]}
        if all("online without a break for only 0 min" in why[role] for role in ("prime", "lite")):
            break
        time.sleep(0.05)
    else:
        raise AssertionError(why)
    assert not found["self_aware"]
    assert why["score"] == "0.000 over 24 h, 0.9 is needed; 24 of 24 hours without a result count as 0"


def test_an_identity_is_in_force_after_the_next_start_and_rfcs_are_kept(machine: Machine, shell: Any) -> None:
    machine.start()
    file = machine.root / "new.toml"
    file.write_bytes(identity_bytes(shipped_identity()).replace(b"1.0.0", b"1.1.0").replace(b"curiosity", b"patience"))
    arguments = ("--kind", "identity", "--title", "Patience", "--identity", str(file), "Patience first.")
    name = json.loads(shell("rfc", "propose", "--json", *arguments)[1])["rfc_id"]
    code, out, _ = shell("rfc", "merge", name)
    assert (code, "the creator alone decides" in out) == (0, True)
    assert "patience" not in shell("cognition", "render", "--json", "hello")[1]
    machine.stop()
    machine.start()
    assert "patience" in shell("cognition", "render", "--json", "hello")[1]
    assert json.loads(shell("rfc", "list", "--json")[1])["rfcs"][0]["state"] == "merged"
    assert "GAIA 1.1.0 is in force" in shell("identity", "show")[1]


def test_models_that_only_quote_review_nothing(machine: Machine, shell: Any) -> None:
    machine.start("roles.prime=extractive", "roles.lite=extractive", "roles.codemind=extractive")
    name = json.loads(shell("rfc", "propose", "--json", "--kind", "process", "--title", "T", "x")[1])["rfc_id"]
    code, out, _ = shell("rfc", "review", name)
    assert (code, "is proposed" in out) == (1, True)
    said = shell("rfc", "show", name)[1]
    assert "prime did not review it" in said
