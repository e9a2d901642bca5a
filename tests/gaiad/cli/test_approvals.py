"""`gaiad approvals`, `approve`, `deny`: with a daemon that answers as told, and with a real one and its sandbox."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.ids import short
from gaiad.bench.daemon_process import running_daemon
from gaiad.cli.main import program, run
from gaiad.wire.chat import ChatRequest

SHA = "ab" * 32
APPROVAL = {
    "id": "apr_01",
    "command": ["rm", "old \x1b[31m.log"],
    "sha256": SHA,
    "proposed_by": "prime",
    "votes": [{"role": "lite", "vote": "yes", "confidence": 0.9, "reason": "as asked"}],
    "risk_level": "med",
    "expires_at": "2025-12-01T13:00:00Z",
    "turn_id": "turn_01",
    "why": "it is old",
}
RAN = {
    **APPROVAL,
    "state": "verified",
    "note": "it was\u200b verified",
    "work": "/home/w",
    "execution": {"exit_status": 0, "stopped": "", "output": "gone\x1b[2J\u2060\n", "output_bytes": 8, "took_ms": 12.0},
}


def gaiad(home: Path, *arguments: str) -> int:
    return run(program, "gaiad", [*arguments, "--home", str(home)])


def listed(*approvals: dict[str, Any], refusal: str = "") -> dict[str, Any]:
    return {"approvals": list(approvals), "refusal": refusal}


def test_json_is_a_list_with_everything_that_a_decision_needs(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /approvals/list"] = listed(APPROVAL)
    assert gaiad(api.home, "approvals", "--json", "--tenant", "work") == 0
    assert json.loads(capsys.readouterr().out) == [APPROVAL]
    assert api.body("POST /approvals/list") == {"all": False, "limit": 50, "tenant": "work"}


def test_people_read_arguments_hash_votes_and_how_to_decide(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /approvals/list"] = listed(APPROVAL, refusal="bubblewrap is not installed")
    assert gaiad(api.home, "approvals") == 0
    said = capsys.readouterr()
    for word in (SHA, "it is old", "lite yes", "risk med", f"gaiad approve {short('apr_01')}", "13:00:00", "\\x1b[31m"):
        assert word in said.out
    assert "\x1b[31m" not in said.out
    assert "bubblewrap is not installed" in said.err


def test_nothing_that_waits_is_said(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /approvals/list"] = listed()
    assert gaiad(api.home, "approvals") == 0
    assert capsys.readouterr().out == "no command is waiting for your approval\n"


def test_approving_sends_the_hash_of_what_was_shown(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes |= {"POST /approvals/list": listed(APPROVAL), "POST /approvals/approve": RAN}
    assert gaiad(api.home, "approve", short("apr_01")) == 0
    said = capsys.readouterr()
    assert SHA in said.err
    assert "gone\\u001b[2J\\u2060" in said.out
    assert "it was\\u200b verified" in said.out
    body = api.body("POST /approvals/approve")
    assert body == {"id": short("apr_01"), "sha256": SHA, "wait": True, "tenant": "local"}


def test_a_hash_that_is_given_is_sent_as_it_is(api: Any) -> None:
    api.routes["POST /approvals/approve"] = RAN
    assert gaiad(api.home, "approve", "apr_01", "--sha256", "CD" * 32, "--no-wait", "--json") == 0
    body = api.body("POST /approvals/approve")
    assert (body["sha256"], body["wait"]) == ("cd" * 32, False)


@pytest.mark.parametrize(("status", "code"), [(409, "conflict"), (404, "not_found"), (400, "bad_input")])
def test_a_refusal_ends_with_one_and_the_reason(
    api: Any, capsys: pytest.CaptureFixture[str], status: int, code: str
) -> None:
    refused = (status, {"code": code, "message": "it expired"})
    api.routes |= {"POST /approvals/list": listed(), "POST /approvals/approve": refused}
    api.routes["POST /approvals/deny"] = refused
    for verb in ("approve", "deny"):
        assert gaiad(api.home, verb, "apr_01") == 1
        assert "it expired" in capsys.readouterr().err


@pytest.mark.parametrize("state", ["reverted", "failed", "interrupted"])
def test_a_command_of_which_nothing_stays_ends_with_one(api: Any, state: str) -> None:
    api.routes |= {"POST /approvals/list": listed(APPROVAL), "POST /approvals/approve": {**RAN, "state": state}}
    assert gaiad(api.home, "approve", "apr_01") == 1


# ------------------------------------------------------------------------------------------------------ a real daemon

SCRIPT = """
[[reply]]
match = "think step by step"
text = 'PLAN: {"steps": ["Make it"]}'
[[reply]]
match = "errors, gaps and risks"
text = 'PLAN: {"confidence": 0.8, "steps": ["Make it"]}'
[[reply]]
match = "Vote yes, no or abstain"
text = '{"vote": "yes", "confidence": 0.9, "reason": "harmless"}'
[[reply]]
match = "Review the proposed command"
text = '{"verdict": "accept", "reason": "it makes an empty file"}'
[[reply]]
match = "the plan, step by step"
text = 'VERIFY: {"outcome": "success", "summary": "the file is there"}'
[[reply]]
text = '''EXECUTE: {"argv": ["touch", "made here"], "why": "you asked for it"}
RESPONSE: I would make the file.'''
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    if shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("GAIAD_CI") else pytest.skip)("bubblewrap (bwrap) is not installed")
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "script.toml").write_text(SCRIPT)
    names = ("prime", "lite", "codemind")
    models = "".join(f'[models.known.of_{name}]\nkind = "scripted"\npath = "{home}/script.toml"\n' for name in names)
    roles = "".join(f'{name} = "of_{name}"\n' for name in names)
    (home / "config.toml").write_text(f"{models}[roles]\n{roles}")
    return home


def test_from_a_wish_to_a_file_that_no_measured_model_verified(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_daemon("embedder.kind=none", home=home) as daemon:
        wish = ChatRequest(
            message="Please create the file made here.", session_id="s", persona="engineer", depth="full"
        )
        answer = list(daemon.client.chat_events(wish))[-1].data
        assert answer["status"] == "AWAITING_APPROVAL", answer["notes"]
        assert gaiad(home, "approvals", "--json") == 0
        (approval,) = json.loads(capsys.readouterr().out)
        assert approval["command"] == ["touch", "made here"]
        assert set(approval) >= {"id", "sha256", "proposed_by", "votes", "risk_level", "expires_at", "turn_id"}

        assert gaiad(home, "approve", approval["id"], "--sha256", "00" * 32) == 1
        assert "look at it again" in capsys.readouterr().err
        assert gaiad(home, "approve", approval["id"], "--sha256", approval["sha256"], "--json") == 0
        made = json.loads(capsys.readouterr().out)
        assert (made["state"], made["execution"]["exit_status"]) == ("unverified", 0)
        assert os.listdir(made["work"]) == ["made here"]  # noqa: PTH208
        for verb in ("approve", "deny"):
            assert gaiad(home, verb, approval["id"]) == 1
            assert "approved already and unverified" in capsys.readouterr().err
        turn = daemon.client.council.turn(made["continuation"], "local")
        assert [stage.stage for stage in turn.stages] == ["verify"]
        assert gaiad(home, "audit", "verify") == 0
        daemon.client.backup(home.parent / "backup")
    manifest = msgspec.json.decode((home.parent / "backup" / "manifest.json").read_bytes())
    assert "tenants/local/tenant.db" in {file["path"] for file in manifest["files"]}
    assert shlex.join(approval["command"]) == "touch 'made here'"


def test_a_daemon_without_bubblewrap_says_so_in_its_status(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = home.parent / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    with running_daemon("embedder.kind=none", home=home) as daemon:
        refusals = [line for line in daemon.client.status().degraded if line.startswith("commands are refused")]
        assert "bubblewrap (bwrap) is not installed" in refusals[0]
        wish = ChatRequest(
            message="Please create the file made here.", session_id="s", persona="engineer", depth="full"
        )
        answer = list(daemon.client.chat_events(wish))[-1].data
        assert any("no command can be run here: bubblewrap" in note for note in answer["notes"])
        assert daemon.client.post("/approvals/list", {})["approvals"] == []
